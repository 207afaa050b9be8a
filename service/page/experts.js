// The mixture of experts as a sum: from what is expected with nothing known, column by column, to the answer.

import { alike, cell, fromAxis, inUnit, number, toAxis } from "./format.js";
import { h, picture, roomFor, s } from "./dom.js";

const WIDEST = 560;
const ROW = 24;
const MOST = 12;

export function drawSum(one, row, { target, isDate, isNumber }) {
  const parts = shorten(one.experts);
  const width = roomFor(WIDEST);
  const [left, right] = [Math.round(0.37 * width), width - (isDate ? 92 : 78)];
  const unit = (value) => inUnit(value, isDate);
  // Dates stand far from zero: their sum is drawn in days from the base on, with dates at both ends.
  const start = isDate ? 0 : one.base;
  const steps = [];
  let at = start;
  for (const part of parts) {
    const next = at + unit(part.contribution);
    steps.push({ ...part, from: at, to: next });
    at = next;
  }
  const figures = alike([start, at, ...steps.map(({ from, to }) => to - from)]);
  const total = (value, seconds) => (isDate ? fromAxis(seconds, true) : figures.plain(value));
  const all = [start, at, ...steps.map(({ to }) => to)];
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const room = (most - least || Math.abs(most) || 1) * 0.12;
  const x = (value) => left + ((value - least + room) / (most - least + 2 * room)) * (right - left);
  const line = (i, text, from, to, kind, figure, weight) => drawLine({ i, text, from: x(from), to: x(to), kind, figure, weight, left, right });
  const rows = [
    line(0, width < 480 ? "nothing known" : "with nothing known", start, start, "total", total(start, one.base)),
    ...steps.map((step, i) => line(i + 1, name(step, row, left), step.from, step.to, step.contribution < 0 ? "down" : "up", figures.signed(step.to - step.from), step.weight)),
    line(steps.length + 1, isNumber ? `${target}, in all` : "score, in all", at, at, "total", total(at, one.score)),
  ];
  const what = isNumber ? (isDate ? "in days" : `in the unit of ${target}`) : `as the score (logit) of ${cell(one.value)}`;
  const terms = steps.map(({ from, to }) => ` ${figures.signed(to - from).replace(/^(.)/, "$1 ")}`).join("");
  return h(
    "figure",
    { class: "figure" },
    h("h3", {}, "Why"),
    one.experts.length ? null : h("p", { class: "note small" }, "Nothing is known of the row: this is what the model expects of any. Fill in a field."),
    picture(width, ROW * rows.length + 4, `What each column adds, ${what}`, { class: "falls" }, rows),
    h("figcaption", { class: "sum" }, `${total(start, one.base)}${terms} = ${total(at, one.score)}, ${what}`),
    isNumber ? noteIfKept(one, isDate) : null,
    parts.length ? showHeard(parts) : null,
  );
}

/** A sum may lead beyond all that was seen in training; the value does not. */
function noteIfKept({ value, score }, isDate) {
  const kept = toAxis(value);
  const isSame = Math.abs(kept - score) <= (isDate ? 86_400 : 1e-4 * Math.max(1, Math.abs(score)));
  return isSame ? null : h("p", { class: "note small" }, `Nothing like it was seen in training: the value is kept at ${fromAxis(kept, isDate)}, the end of the range.`);
}

/** How much the network heard each column: its gate, summed over heads. */
function showHeard(parts) {
  const lines = parts.filter((part) => part.weight !== null).map(({ column, weight }) => h("tr", {}, h("td", {}, column), h("td", { class: "n" }, number(weight, 2))));
  return h("details", { class: "small" }, h("summary", {}, "How much each column was heard"), h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "column"), h("th", { class: "n" }, "gate"))), h("tbody", {}, lines)));
}

/** The columns that moved the answer most; all others as one, so that the sum stays exact. */
function shorten(experts) {
  if (experts.length <= MOST) return experts;
  const rest = experts.slice(MOST - 1);
  const sum = rest.reduce((total, { contribution }) => total + contribution, 0);
  return [...experts.slice(0, MOST - 1), { column: `${rest.length} other columns`, contribution: sum, weight: null }];
}

function name({ column, weight }, row, room) {
  const most = Math.floor((room - 10) / 6.8);
  const value = weight === null ? "" : ` = ${cell(row[column])}`;
  const text = `${column}${value}`;
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function drawLine({ i, text, from, to, kind, figure, weight, left, right }) {
  const y = i * ROW + 4;
  const start = Math.min(from, to);
  const width = Math.max(Math.abs(to - from), 2);
  const heard = weight === undefined || weight === null ? "" : `, heard ${number(weight, 2)}`;
  return s(
    "g",
    {},
    s("title", {}, `${text}: ${figure}${heard}`),
    s("text", { x: left - 10, y: y + 14, "text-anchor": "end", class: kind === "total" ? "strong" : "" }, text),
    s("rect", { class: `bar ${kind}`, x: start, y: y + 2, width, height: ROW - 8, rx: 2 }),
    s("line", { class: "link", x1: to, x2: to, y1: y + 2, y2: y + ROW + 2 }),
    s("text", { x: right + 8, y: y + 14, class: kind === "total" ? "strong" : "" }, figure),
  );
}
