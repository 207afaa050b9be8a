// A CSV file of any size, in pieces of whole records: bytes in, bytes out, nothing is decoded but the header.

const [QUOTE, NEWLINE, RETURN] = [34, 10, 13];
const DELIMITERS = [",", ";", "\t", "|"];
// A piece holds no more records than this, whatever its bytes.
const MOST_RECORDS = 50_000;

/** Its header's names, its first records, and pieces of whole records of about so many bytes each. */
export async function openCsv(file, pieceBytes = 1 << 20) {
  const header = await readHeader(file, pieceBytes);
  const { names, delimiter } = readNames(new TextDecoder().decode(header));
  const separator = delimiter.charCodeAt(0);
  return {
    names,
    /** The first records, header and all: for a look at the file. */
    head: async (n) => {
      const bytes = await bytesOf(file, 0, pieceBytes);
      return new Blob([bytes.subarray(0, findEnd(bytes, separator, n + 1, file.size <= pieceBytes))]);
    },
    pieces: (mostRecords = MOST_RECORDS) => readPieces(file, { header, separator, pieceBytes, mostRecords }),
  };
}

/** Each piece with the header before it; ``done`` is the share of the file read by then. */
async function* readPieces(file, { header, separator, pieceBytes, mostRecords }) {
  let at = header.length;
  let size = pieceBytes;
  do {
    const bytes = await bytesOf(file, at, size);
    const end = findEnd(bytes, separator, mostRecords, at + bytes.length >= file.size);
    if (end === 0 && bytes.length) {
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
  return bytes.subarray(findEnd(bytes, null, 1, true));
}

async function readHeader(file, size) {
  for (let wanted = size; ; wanted *= 2) {
    const bytes = await bytesOf(file, 0, wanted);
    const end = findEnd(bytes, null, 1, bytes.length >= file.size);
    if (end > 0 || bytes.length >= file.size) return bytes.subarray(0, end);
  }
}

async function bytesOf(file, from, size) {
  return new Uint8Array(await file.slice(from, from + size).arrayBuffer());
}

/**
 * Where the last of at most ``n`` whole records ends, its line end included; 0 if none does. A quote opens only at the start of
 * a cell, as the service reads it. ``isAll``: what comes after the last line end is a record too. ``separator``: null is any.
 */
function findEnd(bytes, separator, n, isAll) {
  const any = new Set(DELIMITERS.map((delimiter) => delimiter.charCodeAt(0)));
  let [quoted, fresh, end] = [false, true, 0];
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (quoted) {
      if (byte !== QUOTE) continue;
      if (bytes[i + 1] === QUOTE) i++;
      else quoted = false;
    } else if (byte === QUOTE) {
      quoted = fresh;
      fresh = false;
    } else if (byte === NEWLINE || (byte === RETURN && i + 1 < bytes.length && bytes[i + 1] !== NEWLINE)) {
      end = i + 1;
      fresh = true;
      if (--n === 0) return end;
    } else fresh = separator === null ? any.has(byte) : byte === separator;
  }
  return isAll ? bytes.length : end;
}

/** The names of a header record, by the delimiter that makes most of them. */
function readNames(text) {
  const line = text.replace(/^\uFEFF/, "").replace(/[\r\n]+$/, "");
  const found = DELIMITERS.map((delimiter) => ({ delimiter, names: splitRecord(line, delimiter) }));
  return found.reduce((best, other) => (other.names.length > best.names.length ? other : best));
}

function splitRecord(line, delimiter) {
  const names = [];
  const d = `\\u${delimiter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|([^${d}]*))(${d}|$)`, "gy");
  for (let found; (found = cell.exec(line)); ) {
    names.push(found[1] !== undefined ? found[1].replaceAll('""', '"') : found[2]);
    if (found[3] === "") break;
  }
  return names;
}
