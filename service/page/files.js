// A file that a person drops or picks: its type, its table, and a way to work through it with progress.

import { guessTable, listTables } from "./catalogue.js";
import { openCsv } from "./csv.js";
import { choice, fill, h, trouble } from "./dom.js";
import { bytes } from "./format.js";

const MEDIA_TYPES = {
  csv: "text/csv",
  parquet: "application/vnd.apache.parquet",
  pq: "application/vnd.apache.parquet",
  arrow: "application/vnd.apache.arrow.stream",
};

/** A place to drop a file, or to pick one; ``work`` is called with { file, mediaType, csv }, ``result`` emptied before. */
export function dropZone(work, result) {
  const told = h("div", {});
  const input = h("input", { type: "file", id: "file", accept: ".csv,.parquet,.pq,.arrow", class: "unseen", onchange: () => input.files[0] && take(input.files[0]) });
  const zone = h(
    "label",
    { class: "drop", for: "file", ondragover: over, ondragleave: () => zone.classList.remove("over"), ondrop: drop },
    h("p", {}, h("b", {}, "Drop a CSV or Parquet file here"), ", or click to pick one"),
    h("p", { class: "note small" }, "It goes to this server and nowhere else, and is not kept there."),
    input,
  );
  function over(event) {
    event.preventDefault();
    zone.classList.add("over");
  }
  function drop(event) {
    event.preventDefault();
    zone.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) take(file);
  }
  async function take(file) {
    fill(told);
    fill(result);
    try {
      await work(await open(file));
    } catch (error) {
      fill(told, trouble(error));
    }
    input.value = ""; // so that the same file, mended, can be picked again
  }
  return h("div", {}, zone, told);
}

async function open(file) {
  const mediaType = MEDIA_TYPES[file.name.toLowerCase().split(".").pop()];
  if (!mediaType) throw { title: "This kind of file is not understood", message: `${file.name} should end in .csv, .parquet or .arrow.` };
  if (!file.size) throw { title: "The file is empty", message: `${file.name} has no bytes in it.` };
  return { file, mediaType, csv: mediaType === MEDIA_TYPES.csv ? await openCsv(file) : null };
}

/** What the file is, and of which table its columns are taken to be; where that cannot be seen, it is asked for. */
export async function describeFile({ file, csv }, onchange) {
  const tables = await listTables();
  const names = tables.map((one) => one.table);
  const guess = names.length === 1 ? names[0] : csv ? guessTable(csv.names, tables) : null;
  const options = guess === null ? [{ value: "", label: "choose one…" }, ...names] : names;
  const table = choice("file-table", options, guess ?? "", onchange);
  const why = csv ? "No table has columns of these names." : "The names of its columns are not read here.";
  const element = h(
    "div",
    { class: "options" },
    h("span", {}, h("b", {}, file.name), ` (${bytes(file.size)})`),
    h("label", {}, "Columns as in table ", table),
    guess === null ? h("span", { class: "note" }, `${why} Choose its table.`) : null,
  );
  return { element, table };
}

/** Work through a file: a CSV piece by piece, so that there is progress to show; others in one. */
export async function* eachPart({ file, mediaType, csv }, mostRows) {
  if (!csv) yield { body: file, mediaType, done: null };
  else for await (const { body, done } of csv.pieces(mostRows)) yield { body, mediaType, done };
}

/** A problem of one part, told by rows of the whole file. */
export function movedBy(rows, error) {
  if (Array.isArray(error.errors)) error.errors = error.errors.map((fault) => ({ ...fault, row: fault.row === null ? null : fault.row + rows }));
  return error;
}
