// Fill a file: a look at its first rows, with what was filled and how sure that is; then all of it, to download.

import { sendFile } from "./api.js";
import { warn } from "./answer.js";
import { listColumns, listTables } from "./catalogue.js";
import { withoutHeader } from "./csv.js";
import { fill, h, noModel, say, trouble } from "./dom.js";
import { describeFile, dropZone, eachPart, movedBy } from "./files.js";
import { asSent, cell, count, percent, toAxis } from "./format.js";
import { gatherRemarks } from "./remarks.js";
import { beginWork } from "./work.js";

const INTERVAL = 0.9;
const LOOK = 200;
let offered = null;

export async function show(place) {
  const title = h("h1", {}, "Fill a file");
  if (!(await listTables()).length) return fill(place, title, noModel());
  const work = h("div", { id: "filled" }, h("p", { class: "note" }, "No file yet. What is missing in it will be filled in and marked; all other cells stay as they are, to the letter."));
  fill(place, title, dropZone((given) => begin(given, work), work), work);
}

async function begin(given, work) {
  const result = h("div", {});
  const { element, table } = await describeFile(given, () => go());
  const add = h("input", { type: "checkbox", id: "append", onchange: () => go() });
  element.append(h("label", {}, add, " also add the table's columns that the file lacks"));
  fill(work, element, result);
  async function go() {
    const task = beginWork();
    if (!table.value) return void fill(result);
    const options = { table: table.value, unknown: "ignore", append: add.checked ? undefined : "false" };
    const rest = h("div", {}, task.progress.element);
    fill(result, rest);
    try {
      task.progress.tell(null, "Looking at the first rows…");
      const { model, element: looked } = await look(given, options, task.signal);
      result.append(looked);
      // All parts by one model, even if another is served meanwhile.
      const offered = await fillAll(given, { ...options, model }, task);
      if (task.isCurrent()) fill(rest, offered);
    } catch (error) {
      if (task.isCurrent()) fill(rest, error.name === "AbortError" ? h("p", { class: "note" }, "Stopped. Nothing was kept.") : trouble(error));
    }
  }
  await go();
}

/** The first rows, filled, every filled cell with its interval or probability. */
async function look({ file, mediaType, csv }, options, signal) {
  const body = csv ? await csv.head(LOOK) : file;
  const response = await sendFile("impute", { ...options, interval: INTERVAL, first: LOOK }, body, mediaType, "application/json", signal);
  const [told, columns] = await Promise.all([response.json(), listColumns(options.table)]);
  const width = new Map(columns.filter(({ knots }) => knots.length > 1).map(({ column, knots }) => [column, toAxis(knots.at(-1)) - toAxis(knots[0])]));
  return { model: told.model, element: showRows(told, width) };
}

function showRows(told, width) {
  const names = [...new Set(told.rows.flatMap(Object.keys))];
  if (!told.rows.length) return h("p", { class: "note" }, "The file has a header and no rows: there is nothing to fill.");
  if (!names.length) return h("p", { class: "note" }, "No column of this file is one that the table has: there is nothing to go by. Is another table meant?");
  const filled = new Map(told.imputed.map((one) => [`${one.row} ${one.column}`, one]));
  const side = new Map(names.map((name) => [name, told.rows.some((row) => typeof row[name] === "number") ? "n" : ""]));
  const head = h("tr", {}, h("th", { class: "n" }, "row"), names.map((name) => h("th", { class: side.get(name) }, name)));
  const show = (row, i) => (name) => showCell(row[name], filled.get(`${i} ${name}`), { width: width.get(name), side: side.get(name) });
  const rows = told.rows.map((row, i) => h("tr", {}, h("td", { class: "n note" }, i + 1), names.map(show(row, i))));
  return h(
    "section",
    { class: "panel" },
    h("h2", {}, `The first ${count(told.rows.length, "row")}`),
    h("p", { class: "note small" }, h("span", { class: "key-filled" }, "Marked cells"), ` were empty. Below each: ${percent(INTERVAL)} of what it may be, or how probable the word is. The longer the bar, the surer. Columns that the table does not have are left as they are and not shown here.`),
    h("div", { class: "scroll cells", tabindex: 0, role: "region", "aria-label": "The first rows, filled" }, h("table", { id: "cells" }, h("thead", {}, head), h("tbody", {}, rows))),
  );
}

function showCell(value, one, { width, side }) {
  if (!one) return h("td", { class: side }, asSent(value));
  const sure = h("span", { class: "sure" }, one.interval ? one.interval.map(cell).join(" to ") : percent(one.probability, 0));
  sure.style.setProperty("--sure", one.probability ?? Math.max(0, 1 - (toAxis(one.interval[1]) - toAxis(one.interval[0])) / (width || 1)));
  return h("td", { class: `filled ${side}` }, h("b", {}, cell(value)), h("span", { class: "unseen" }, " (filled in) "), sure);
}

/** All of the file, part by part; nothing is offered before the last part is done. */
async function fillAll(given, options, { signal, isCurrent, progress }) {
  const { file, mediaType, csv } = given;
  const parts = [];
  const total = { rows: 0, cells: 0, model: "", remarks: gatherRemarks() };
  progress.tell(csv ? 0 : null, csv ? "Filling…" : "Filling the whole file…");
  for await (const { body, done } of eachPart(given)) {
    const response = await sendFile("impute", options, body, mediaType, mediaType, signal).catch((error) => Promise.reject(movedBy(total.rows, error)));
    const bytes = new Uint8Array(await response.arrayBuffer());
    parts.push(csv && parts.length ? withoutHeader(bytes) : bytes);
    add(total, response.headers);
    progress.tell(done, `${count(total.rows, "row")} done, ${count(total.cells, "cell")} filled`);
  }
  if (!isCurrent()) return null;
  say(`${count(total.cells, "cell")} filled. The file can be downloaded.`);
  return offer(new Blob(parts, { type: mediaType }), file.name, total);
}

function add(total, headers) {
  total.remarks.add(JSON.parse(headers.get("x-warnings") ?? "[]"), total.rows);
  total.rows += Number(headers.get("x-rows"));
  total.cells += Number(headers.get("x-imputed-cells"));
  total.model = headers.get("x-model");
}

function offer(blob, name, { rows, cells, model, remarks }) {
  const dot = name.lastIndexOf(".");
  if (offered) URL.revokeObjectURL(offered); // or every file ever filled would stay in memory
  offered = URL.createObjectURL(blob);
  const link = h("a", { id: "download", class: "button", href: offered, download: `${name.slice(0, dot)}_filled${name.slice(dot)}` }, "Download the filled file");
  return h("section", { class: "panel" }, h("p", {}, h("b", { id: "filled-cells" }, count(cells, "cell")), ` of ${count(rows, "row")} filled by ${model}. `, cells ? null : "Nothing was missing. ", link), warn(remarks.list()));
}
