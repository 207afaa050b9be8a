// A CSV file of any size, in pieces of whole records: bytes in, bytes out, nothing is decoded but the header.

const QUOTE = 34;
const NEWLINE = 10;
const RETURN = 13;

/** The bytes of the header record, its names, and pieces of whole records of about so many bytes each. */
export async function openCsv(file, pieceBytes = 1 << 20) {
  const header = await readRecord(file, 0, pieceBytes);
  return {
    header,
    names: splitRecord(new TextDecoder().decode(header)),
    /** The first records, header and all, of at most so many bytes: for a look at the file. */
    head: async (n) => firstRecords(await bytesOf(file, 0, pieceBytes), n + 1, file.size <= pieceBytes),
    pieces: () => readPieces(file, header, pieceBytes),
  };
}

/** Each piece with the header before it; ``done`` is the share of the file read by then. */
async function* readPieces(file, header, pieceBytes) {
  let at = header.length;
  let size = pieceBytes;
  do {
    const bytes = await bytesOf(file, at, size);
    const isLast = at + bytes.length >= file.size;
    const end = isLast ? bytes.length : lastRecordEnd(bytes);
    if (end === 0 && !isLast) {
      size *= 2; // one record is longer than a piece
      continue;
    }
    at += end;
    size = pieceBytes;
    yield { body: new Blob([header, bytes.subarray(0, end)]), done: file.size ? at / file.size : 1 };
  } while (at < file.size);
}

/** What follows the first record: an answer without its header. */
export function withoutHeader(bytes) {
  return bytes.subarray(recordEnd(bytes, 0));
}

async function readRecord(file, from, size) {
  for (let wanted = size; ; wanted *= 2) {
    const bytes = await bytesOf(file, from, wanted);
    const end = recordEnd(bytes, 0);
    if (end > 0 && end < bytes.length) return bytes.subarray(0, end);
    if (from + bytes.length >= file.size) return bytes.subarray(0, end || bytes.length);
  }
}

async function bytesOf(file, from, size) {
  return new Uint8Array(await file.slice(from, from + size).arrayBuffer());
}

/** Where the record that starts here ends, its line end included; where the bytes end if it does not. */
function recordEnd(bytes, start) {
  let quoted = false;
  for (let i = start; i < bytes.length; i++) {
    if (bytes[i] === QUOTE) quoted = !quoted;
    else if (!quoted && bytes[i] === NEWLINE) return i + 1;
    else if (!quoted && bytes[i] === RETURN && i + 1 < bytes.length && bytes[i + 1] !== NEWLINE) return i + 1;
  }
  return bytes.length;
}

/** Where the last whole record ends; 0 if there is none. */
function lastRecordEnd(bytes) {
  let quoted = false;
  let end = 0;
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] === QUOTE) quoted = !quoted;
    else if (!quoted && bytes[i] === NEWLINE) end = i + 1;
  }
  return end;
}

function firstRecords(bytes, n, isAll) {
  let end = 0;
  for (let i = 0; i < n && end < bytes.length; i++) {
    const next = recordEnd(bytes, end);
    if (next === bytes.length && !isAll) break; // this record goes on beyond what was read
    end = next;
  }
  return new Blob([bytes.subarray(0, end)]);
}

/** The names of a header record. */
export function splitRecord(text) {
  const line = text.replace(/^\uFEFF/, "").replace(/[\r\n]+$/, "");
  const names = [];
  const field = /(?:"((?:[^"]|"")*)"|([^,]*))(,|$)/gy;
  for (let found; (found = field.exec(line)); ) {
    names.push(found[1] !== undefined ? found[1].replaceAll('""', '"') : found[2]);
    if (found[3] === "") break;
  }
  return names;
}
