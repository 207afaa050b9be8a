// Try it: a row of which anything may be unknown, and the answer for any column, at once.

import { send } from "./api.js";
import { listColumns, listTables } from "./catalogue.js";
import { choice, fill, h, latest, noModel, say, trouble } from "./dom.js";
import { makeForm, valueAt } from "./form.js";
import { showAnswer } from "./answer.js";

const INTERVAL = 0.9;
const ALL = "";
const QUIET = 900;

export async function show(place) {
  const tables = await listTables();
  if (!tables.length) return fill(place, h("h1", {}, "Try it"), noModel());
  const names = tables.map(({ table }) => ({ value: table, label: table }));
  const picked = choice("table", [...names, { value: ALL, label: "(features of all tables)" }], names[0].value, () => open());
  const body = h("div", {});
  fill(
    place,
    h("h1", {}, "What would it be?"),
    h("p", { class: "note" }, "Tell what you know of a row, leave the rest empty, and ask for any column. Every change is answered at once."),
    body,
  );
  const open = async () => {
    try {
      await openTable(body, picked);
    } catch (error) {
      fill(body, h("div", { class: "asked" }, h("label", {}, "Table", picked)), trouble(error));
    }
  };
  await open();
}

async function openTable(body, picked) {
  const table = picked.value || undefined;
  const [columns, features] = await Promise.all([listColumns(table), listColumns()]);
  if ((picked.value || undefined) !== table) return; // another one was picked meanwhile
  const own = new Set(columns.map((column) => column.feature));
  const others = table ? features.filter((feature) => !own.has(feature.column)) : [];
  const state = { table, columns, examples: 0 };
  const answer = h("section", { class: "panel answer", "aria-label": "Answer", "aria-live": "off" });
  const form = makeForm(columns, () => ask());
  const target = h(
    "select",
    { id: "target", onchange: () => (form.hide(target.value), ask()) },
    h("optgroup", { label: table ? `columns of ${table}` : "features" }, columns.map(({ column }) => h("option", { value: column }, column))),
    others.length ? h("optgroup", { label: "that this table never had" }, others.map(({ column }) => h("option", { value: column }, column))) : null,
  );
  const ask = latest(() => askService(state, form, target.value, answer));
  redrawOnResize(answer, ask);
  fill(
    body,
    h(
      "div",
      { class: "asked" },
      h("label", {}, "Table", picked),
      h("label", {}, "Ask for", target),
      h("button", { type: "button", id: "example", onclick: () => putExample(state, form, answer) }, "An example row"),
      h("button", { type: "button", id: "clear", class: "quiet", onclick: () => form.write({}) }, "Forget all"),
    ),
    h("div", { class: "side" }, h("section", { class: "panel", "aria-label": "What is known" }, h("h2", {}, "What is known"), form.element), answer),
  );
  form.hide(target.value);
  await ask();
}

async function askService(state, form, target, answer) {
  const row = form.read(target);
  try {
    const told = await send("predict", { target, rows: [row], table: state.table, interval: INTERVAL, explain: true });
    fill(answer, showAnswer(told, row, INTERVAL));
    tellLater(`${target}: ${told.predictions[0].value}`);
  } catch (error) {
    // A network without exact sums (the paper's) refuses to explain: its answer is shown without reasons.
    if (error.status !== 422 || error.errors.length) return void fill(answer, trouble(error));
    try {
      const told = await send("predict", { target, rows: [row], table: state.table, interval: INTERVAL });
      fill(answer, showAnswer(told, row, INTERVAL));
    } catch (second) {
      fill(answer, trouble(second));
    }
  }
}

/** The model holds no rows. An example is made: one column somewhere in its range, the others as expected of that one. */
async function putExample(state, form, answer) {
  try {
    const known = makeAnchor(state.columns, state.examples++);
    const told = await send("impute", { rows: [known], table: state.table, columns: state.columns.map(({ column }) => column) });
    form.write(told.rows[0]);
    say("An example row, made by the model, was put in.");
  } catch (error) {
    fill(answer, trouble(error));
  }
}

/** Every time another column, at the middle of its range, then further and further about it. */
function makeAnchor(columns, turn) {
  const able = columns.filter(({ kind, knots }) => kind === "numeric" && knots.length > 1);
  if (!able.length) return {};
  const { column, knots } = able[turn % able.length];
  return { [column]: valueAt(knots, 0.5 + 0.35 * Math.sin(2.4 * turn)) };
}

/** Figures are drawn for the width there is. */
function redrawOnResize(answer, ask) {
  const width = () => document.documentElement.clientWidth;
  let drawn = width();
  new ResizeObserver(() => {
    if (width() === drawn) return;
    drawn = width();
    ask();
  }).observe(answer);
}

let telling = 0;

/** To those who listen only what stays: not every value that a slider passes. */
function tellLater(text) {
  clearTimeout(telling);
  telling = setTimeout(() => say(text), QUIET);
}
