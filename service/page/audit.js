// Audit: drop a file, see the cells that do not fit the rest of their row, and who says so.

import { get, sendFile } from "./api.js";
import { warn } from "./answer.js";
import { listColumns, listTables } from "./catalogue.js";
import { fill, h, noModel, s, say, trouble } from "./dom.js";
import { describeFile, dropZone, eachPart, movedBy } from "./files.js";
import { asSent, cell, count, inUnit, number, percent, rarity, signed } from "./format.js";
import { gatherRemarks } from "./remarks.js";
import { beginWork } from "./work.js";

const LIMIT = 200;
const SHOWN = 25;
// How surprising a cell must be to be shown at first: by chance alone at most ten cells of the file would be, which is a
// bound; in sound tables it is about one.
const LEAST = 3;
const BY_CHANCE = 10;
const MOST = 15;
// A part has no more rows than this, and no more than the service takes.
const MOST_ROWS = 20_000;

export async function show(place) {
  const title = h("h1", {}, "Which cells look wrong?");
  if (!(await listTables()).length) return fill(place, title, noModel());
  const work = h("div", { id: "audited" }, h("p", { class: "note" }, "No file yet. Every cell will be compared with what the rest of its row leads the model to expect."));
  fill(place, title, dropZone((given) => begin(given, work), work), work);
}

async function begin(given, work) {
  const result = h("div", {});
  const { element, table } = await describeFile(given, () => go());
  fill(work, element, result);
  async function go() {
    const task = beginWork();
    if (!table.value) return void fill(result);
    fill(result, task.progress.element);
    try {
      const found = await auditAll(given, table.value, task);
      if (task.isCurrent()) fill(result, showFound(found));
    } catch (error) {
      if (task.isCurrent()) fill(result, error.name === "AbortError" ? h("p", { class: "note" }, "Stopped.") : trouble(error));
    }
  }
  await go();
}

async function auditAll(given, table, { signal, progress }) {
  progress.tell(given.csv ? 0 : null, "Looking at every cell…");
  const [limits, columns] = await Promise.all([get("limits"), listColumns(table)]);
  const kinds = new Map(columns.map(({ column, kind }) => [column, kind]));
  const found = { cells: [], rows: new Map(), n: 0, all: 0, remarks: gatherRemarks(), model: "", kinds };
  for await (const { body, mediaType, done } of eachPart(given, Math.min(limits.rows, MOST_ROWS))) {
    const asked = { table, limit: LIMIT, unknown: "ignore", model: found.model }; // all parts by the model of the first
    const response = await sendFile("audit", asked, body, mediaType, "application/json", signal).catch((error) => Promise.reject(movedBy(found.n, error)));
    merge(found, await response.json());
    progress.tell(done, `${count(found.n, "row")} looked at`);
  }
  progress.end(`${count(found.n, "row")} looked at.`);
  return found;
}

/** The most surprising cells of all parts so far, by rows of the whole file. */
function merge(found, told) {
  const moved = told.cells.map((suspect) => ({ ...suspect, row: suspect.row + found.n }));
  for (const { row, cells } of told.rows) found.rows.set(row + found.n, cells);
  found.cells = [...found.cells, ...moved].sort((a, b) => b.surprise - a.surprise).slice(0, LIMIT);
  const kept = new Set(found.cells.map(({ row }) => row));
  for (const row of found.rows.keys()) if (!kept.has(row)) found.rows.delete(row);
  found.remarks.add(told.warnings, found.n);
  found.n += told.rows_in_all;
  found.all += told.cells_in_all;
  found.model = told.model;
}

function showFound(found) {
  if (!found.n) return h("p", { class: "note" }, "The file has a header and no rows: there is nothing to look at.");
  const { all } = found;
  if (!all) return [warn(found.remarks.list()), h("p", { class: "note" }, "There is no cell to look at: all are empty, or no column is one that the table has. Is another table meant?")];
  const usual = Math.min(MOST, Math.max(LEAST, Math.log(all / BY_CHANCE)));
  const list = h("ol", { class: "suspects", id: "suspects" });
  const words = h("p", { id: "audit-words" });
  const more = h("button", { type: "button", class: "quiet", onclick: () => (state.shown += SHOWN, draw()) }, "More");
  const state = { shown: SHOWN, least: usual };
  const level = h("input", { type: "range", id: "least", min: 1, max: MOST, step: "any", value: usual, oninput: () => ((state.least = level.valueAsNumber), (state.shown = SHOWN), draw()) });
  const told = h("output", { for: "least" });
  function draw() {
    const fitting = found.cells.filter(({ surprise }) => surprise >= state.least);
    const atMost = found.cells.length === LIMIT && fitting.length === LIMIT ? "at least " : "";
    told.textContent = rarity(state.least);
    level.setAttribute("aria-valuetext", rarity(state.least));
    words.textContent = fitting.length
      ? `${atMost}${count(fitting.length, "cell stands", "cells stand")} out. In ${count(found.n, "row")} without any mistake at most about ${number(all * Math.exp(-state.least), 1)} would, by chance.`
      : `No cell of ${count(found.n, "row")} is so rare${found.cells.length ? `; the rarest is ${rarity(found.cells[0].surprise)}` : ""}.`;
    fill(list, fitting.slice(0, state.shown).map((suspect) => h("li", { class: "panel suspect" }, showSuspect(suspect, found.rows.get(suspect.row), found.kinds.get(suspect.column)))));
    more.hidden = fitting.length <= state.shown;
  }
  draw();
  return [
    warn(found.remarks.list()),
    h("div", { class: "options" }, h("label", { for: "least" }, "Show cells as rare as "), h("span", { class: "rare" }, level), told),
    words,
    list,
    h("p", {}, more),
    h("p", { class: "note small" }, `By ${found.model}. A suspicion, not a verdict: in clean data, too, some cells are rare.`),
  ];
}

function showSuspect(suspect, row, kind) {
  const { column, value, expected, interval, probability, surprise } = suspect;
  const range = interval && interval[0] !== interval[1] ? `, ${percent(0.9)} between ${cell(interval[0])} and ${cell(interval[1])}` : probability === null ? "" : `, ${percent(probability, 0)}`;
  return [
    h(
      "div",
      {},
      h("h2", {}, `Row ${(suspect.row + 1).toLocaleString("en")}, ${column}`),
      h("p", {}, h("span", { class: "was" }, asSent(value)), " where ", h("span", { class: "rather" }, cell(expected)), ` is expected${range}.`),
      h("p", { class: "note small" }, `${rarity(surprise)} or rarer (surprise ${number(surprise, 3)})`),
    ),
    showReasons(suspect, row, kind),
    row ? showRow(row, column) : null,
  ];
}

/** The columns that speak for another value, most first: what each added to what is expected. */
function showReasons({ experts, column, expected }, row, kind) {
  const most = experts.slice(0, 5);
  if (!most.length) {
    const isAlone = Object.values(row ?? {}).filter((value) => value !== null).length <= 1;
    return h("p", { class: "note small" }, isAlone ? "The rest of the row is unknown: the cell is rare by itself." : "This network’s answers are not exact sums of what the columns say, so there are no reasons to show.");
  }
  const isDate = kind === "datetime";
  const what = isDate ? `days they add to the expected ${column}` : kind === "numeric" ? `what these add to the expected ${column}` : `what these add to the score (logit) of ${cell(expected)}`;
  const widest = Math.max(...most.map(({ contribution }) => Math.abs(contribution)), 1e-12);
  const width = 120;
  const lines = most.map(({ column: name, contribution }) => {
    const length = (Math.abs(contribution) / widest) * (width / 2 - 2);
    const bar = s("svg", { viewBox: `0 0 ${width} 12`, width, height: 12, "aria-hidden": "true", class: "falls" }, s("line", { class: "link", x1: width / 2, x2: width / 2, y1: 0, y2: 12 }), s("rect", { class: contribution < 0 ? "down" : "up", x: contribution < 0 ? width / 2 - length : width / 2, y: 1, width: length, height: 10 }));
    return h("tr", {}, h("th", { scope: "row" }, `${name} = ${asSent(row?.[name])}`), h("td", {}, bar), h("td", { class: "n" }, signed(inUnit(contribution, isDate), 3)));
  });
  return h("table", {}, h("caption", {}, `Who says so: ${what}`), h("tbody", {}, lines));
}

function showRow(row, column) {
  const names = Object.keys(row).filter((name) => row[name] !== null);
  return h(
    "details",
    { class: "small" },
    h("summary", {}, "The whole row"),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", {}, name)))), h("tbody", {}, h("tr", {}, names.map((name) => h("td", { class: name === column ? "odd" : "" }, asSent(row[name]))))))),
  );
}
