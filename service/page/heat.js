// How alike columns are, pair by pair: the cosine of their encodings as colours, alike ones side by side.

import { h, s } from "./dom.js";
import { count } from "./format.js";
import { round } from "./map.js";

const MOST = 60;
const N_STRONGEST = 15;
const LONGEST_NAME = 20;
const GAP = 6;
// Below this a cell is too pale for its sign to be worth a mark.
const LEAST_MARKED = 0.3;
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * The heat map of rows against columns, each [{ name, point, ... }]; ``compare(row, column)`` gives { alike, sign, strength }.
 * ``what`` says in words what is compared. Rows and columns may be one and the same list.
 */
export function drawHeat(allRows, allColumns, compare, what) {
  const isSquare = allRows === allColumns;
  const [keptRows, keptColumns] = [allRows, allColumns].map((all) => all.slice(0, MOST));
  const rows = chain(keptRows, compare);
  const columns = isSquare ? rows : followRows(rows, keptColumns, compare);
  const pairs = rows.map((row) => columns.map((column) => ({ row, column, ...compare(row, column) })));
  const reading = h("p", { class: "reading", id: "heat-reading" }, "Point at a cell, or walk over them with the arrow keys.");
  const left = [...allRows.slice(MOST), ...(isSquare ? [] : allColumns.slice(MOST))].map(({ name }) => name);
  return h(
    "div",
    { class: "heat" },
    h("p", { class: "note small" }, what, left.length ? ` ${tellLeftOut(left, isSquare ? rows.length : null)}` : ""),
    showScale(),
    drawGrid(rows, columns, pairs, reading),
    reading,
    showStrongest(isSquare ? pairs.flatMap((line, i) => line.slice(i + 1)) : pairs.flat()),
  );
}

/** The pair in words. */
function tellPair({ row, column, alike, sign }) {
  if (row.point === column.point) return `${row.name} and ${column.name}: the same feature${row.name === column.name ? "" : `, ${row.point.feature}`}`;
  const turned = alike > 0 && sign < 0 ? ", turned over: the one falls as the other rises" : alike <= 0 ? ", unlike" : "";
  return `${row.name} and ${column.name}: cosine ${round(alike)}${turned}`;
}

function tellLeftOut(names, kept) {
  const some = names.slice(0, 10).join(", ");
  const more = names.length > 10 ? ` and ${names.length - 10} more` : "";
  return `${kept ? `Drawn are the ${kept} that most tables have, those of a chosen table first; left` : `At most ${MOST} on a side are drawn; left`} out: ${some}${more}.`;
}

/** A simple seriation: begin with the most alike pair, then put at either end what is most like that end. */
function chain(items, compare) {
  if (items.length < 3) return items;
  const alike = items.map((a) => items.map((b) => compare(a, b).alike));
  const left = new Set(items.keys());
  let [first, second] = [0, 1];
  for (const i of left) for (let j = 0; j < i; j++) if (alike[i][j] > alike[first][second]) [first, second] = [i, j];
  const order = [first, second];
  order.forEach((i) => left.delete(i));
  while (left.size) {
    const ends = [order[0], order.at(-1)];
    let best = { alike: -Infinity };
    for (const i of left) ends.forEach((end, side) => (best = alike[end][i] > best.alike ? { i, side, alike: alike[end][i] } : best));
    if (best.side === 0) order.unshift(best.i);
    else order.push(best.i);
    left.delete(best.i);
  }
  return order.map((i) => items[i]);
}

/** Columns in the order of the rows they are most like, so that what matches lies along the diagonal. */
function followRows(rows, columns, compare) {
  const middle = (column) => {
    const weights = rows.map((row) => Math.max(compare(row, column).alike, 0) ** 6);
    const all = weights.reduce((sum, weight) => sum + weight, 0);
    return all ? weights.reduce((sum, weight, i) => sum + i * weight, 0) / all : rows.length;
  };
  return columns.map((column) => ({ column, at: middle(column) })).sort((a, b) => a.at - b.at).map(({ column }) => column);
}

function drawGrid(rows, columns, pairs, reading) {
  const size = Math.max(14, Math.min(26, Math.floor(760 / columns.length)));
  const [side, top] = [rows, columns].map((items) => Math.round(7 * Math.max(...items.map(({ name }) => shorten(name).length))) + GAP * 2);
  const x = (j) => side + j * size;
  const y = (i) => top + i * size;
  const [width, height] = [x(columns.length) + GAP, y(rows.length) + GAP];
  const rowNames = rows.map(({ name }, i) => s("text", { x: side - GAP, y: y(i) + size / 2 + 4, "text-anchor": "end" }, shorten(name)));
  const columnNames = columns.map(({ name }, j) => s("text", { transform: `translate(${x(j) + size / 2 + 4} ${top - GAP}) rotate(-90)` }, shorten(name)));
  const frame = s("rect", { class: "frame", width: size, height: size, visibility: "hidden" });
  const cells = pairs.map((line, i) => line.map((pair, j) => drawCell(pair, x(j), y(i), size, i + j === 0, [i, j])));
  const lines = cells.map((line) => s("g", { role: "row" }, line.map(({ cell }) => cell)));
  const svg = s(
    "svg",
    { class: "heat-grid", id: "heat", role: "grid", "aria-label": `How alike: ${rows.length} by ${columns.length}. Arrow keys walk over the cells.`, width, height, viewBox: `0 0 ${width} ${height}` },
    s("g", { "aria-hidden": "true" }, rowNames, columnNames),
    lines,
    s("g", { class: "minus", "aria-hidden": "true" }, cells.flat().map(({ mark }) => mark).filter(Boolean)),
    frame,
  );
  let now = [0, 0];
  function tell([i, j]) {
    for (const name of svg.querySelectorAll(".strong")) name.classList.remove("strong");
    rowNames[i].classList.add("strong");
    columnNames[j].classList.add("strong");
    for (const [name, value] of Object.entries({ x: x(j), y: y(i), visibility: "visible" })) frame.setAttribute(name, value);
    reading.textContent = tellPair(pairs[i][j]);
  }
  function walk([di, dj], toEnd) {
    const to = (at, step, end) => (step === 0 ? at : toEnd ? (step < 0 ? 0 : end) : Math.min(end, Math.max(0, at + step)));
    const { cell } = cells[to(now[0], di, rows.length - 1)][to(now[1], dj, columns.length - 1)];
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  const placeOf = ({ target }) => target.dataset.at?.split(" ").map(Number);
  svg.addEventListener("pointerover", (event) => placeOf(event) && tell(placeOf(event)));
  function follow(event) {
    if (!placeOf(event)) return;
    cells[now[0]][now[1]].cell.setAttribute("tabindex", "-1");
    now = placeOf(event);
    event.target.setAttribute("tabindex", "0");
    tell(now);
  }
  svg.addEventListener("keydown", (event) => {
    const step = { ...STEPS, Home: [0, -1], End: [0, 1] }[event.key];
    if (!step || event.altKey || event.metaKey) return;
    event.preventDefault();
    walk(step, event.ctrlKey || event.key === "Home" || event.key === "End");
  });
  // Not on the drawing itself: one that listens for focus becomes a tab stop of its own in Chromium.
  return h("div", { class: "scroll heat-box", onfocusin: follow }, svg);
}

/** A cell, and a stroke over it where the two are turned over: colour alone should not have to tell it. */
function drawCell(pair, x, y, size, isFirst, at) {
  const { strength } = pair;
  const cell = s("rect", { class: strength < 0 ? "cell below" : "cell above", role: "gridcell", tabindex: isFirst ? 0 : -1, "aria-label": tellPair(pair), x: x + 0.5, y: y + 0.5, width: size - 1, height: size - 1, "fill-opacity": Math.abs(strength).toFixed(3), "data-at": at.join(" ") });
  const mark = strength < -LEAST_MARKED ? s("line", { x1: x + size * 0.3, x2: x + size * 0.7, y1: y + size / 2, y2: y + size / 2 }) : null;
  return { cell, mark };
}

function showScale() {
  const marks = [-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1];
  const cells = marks.map((value, i) => s("rect", { class: value < 0 ? "cell below" : "cell above", x: i * 22 + 0.5, y: 0.5, width: 21, height: 13, "fill-opacity": Math.abs(value) }));
  const width = marks.length * 22;
  return h(
    "p",
    { class: "scale small note" },
    h("span", {}, "\u22121 alike when turned over (marked \u2212)"),
    s("svg", { viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" }, cells),
    h("span", {}, "+1 alike"),
  );
}

function showStrongest(pairs) {
  const strongest = pairs.filter(({ row, column }) => row.point !== column.point).sort((a, b) => b.alike - a.alike).slice(0, N_STRONGEST);
  if (!strongest.length) return h("p", { class: "note small" }, "There are no two different features to compare.");
  const lines = strongest.map(({ row, column, alike, sign }) => h("tr", {}, h("td", {}, row.name), h("td", {}, column.name), h("td", { class: "n" }, round(sign * alike)), h("td", {}, sign < 0 ? "turned over" : "as they are")));
  return h(
    "details",
    { class: "small", id: "strongest" },
    h("summary", {}, `The ${count(strongest.length, "strongest pair")} as a table`),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "one"), h("th", {}, "the other"), h("th", { class: "n" }, "cosine"), h("th", {}, "direction"))), h("tbody", {}, lines))),
  );
}

function shorten(name) {
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
}
