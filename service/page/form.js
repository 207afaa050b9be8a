// A form for one row: the right widget for every column, and empty means unknown.

import { cell, number } from "./format.js";
import { choice, h } from "./dom.js";

const STEPS = 1000;
// More words than this are typed, with suggestions, rather than chosen from a list.
const MOST_CHOICES = 400;
const UNKNOWN = "unknown";

/** Fields for these columns; ``onchange`` is called after every change. Gives { element, read, write }. */
export function makeForm(columns, onchange) {
  const fields = columns.map((column) => makeField(column, onchange));
  return {
    element: h("div", { class: "fields" }, fields.map((field) => field.element)),
    /** The cells that are known, as the service takes them. */
    read: (but) => Object.fromEntries(fields.filter((f) => f.name !== but && f.get() !== null).map((f) => [f.name, f.get()])),
    write(row) {
      for (const field of fields) field.set(Object.hasOwn(row, field.name) ? row[field.name] : null);
      onchange();
    },
    /** Every field but that of the column that is asked for. */
    hide(name) {
      for (const field of fields) field.element.hidden = field.name === name;
    },
  };
}

function makeField(column, onchange) {
  const id = `cell-${column.column}`;
  const made = widgetFor(column, id, () => changed());
  const clear = h("button", { type: "button", class: "quiet", title: `${column.column}: unknown`, "aria-label": `${column.column}: make it unknown`, onclick: () => (made.set(null), changed()) }, "×");
  const means = column.feature === column.column ? column.kind : `${column.feature}, ${column.kind}`;
  const element = h(
    "div",
    { class: "field", "data-column": column.column },
    h("div", { class: "field-head" }, h("label", { for: id }, column.column), h("span", { class: "means" }, means)),
    h("div", { class: "field-cell" }, made.input, clear),
    made.more,
  );
  const mark = () => {
    element.classList.toggle("known", made.get() !== null);
    clear.disabled = made.get() === null;
  };
  function changed() {
    mark();
    onchange();
  }
  mark();
  return { name: column.column, element, get: made.get, set: (value) => (made.set(value), mark()) };
}

function widgetFor(column, id, changed) {
  if (column.kind === "datetime") return dateField(column, id, changed);
  if (column.values.length) return column.values.length <= MOST_CHOICES ? wordField(column, id, changed) : textField(column, id, changed);
  return numberField(column, id, changed);
}

function wordField(column, id, changed) {
  const values = column.values;
  const options = [{ value: "", label: UNKNOWN }, ...values.map((value, i) => ({ value: String(i), label: cell(value) }))];
  const input = choice(id, options, "", changed);
  const find = (value) => values.findIndex((known) => String(known) === String(value));
  return {
    input,
    get: () => (input.value === "" ? null : values[Number(input.value)]),
    set: (value) => (input.value = value === null || find(value) < 0 ? "" : String(find(value))),
  };
}

function textField(column, id, changed) {
  const list = h("datalist", { id: `${id}-words` }, column.values.map((value) => h("option", { value: String(value) })));
  const input = h("input", { id, list: list.id, placeholder: UNKNOWN, autocomplete: "off", oninput: changed });
  const known = new Map(column.values.map((value) => [String(value), value]));
  return {
    input,
    more: list,
    get: () => (input.value === "" ? null : known.get(input.value) ?? input.value),
    set: (value) => (input.value = value === null ? "" : String(value)),
  };
}

function dateField(column, id, changed) {
  const dayOnly = String(column.typical).length === 10;
  const [low, high] = [column.knots[0], column.knots.at(-1)];
  const input = h("input", { id, type: dayOnly ? "date" : "datetime-local", step: dayOnly ? null : 1, oninput: changed });
  return {
    input,
    more: h("div", { class: "ends" }, h("span", {}, low), h("span", {}, high)),
    get: () => input.value || null,
    set: (value) => (input.value = value ?? ""),
  };
}

/** A number and a slider that goes with it: between any two marks of the slider lie about as many training rows. */
function numberField(column, id, changed) {
  const knots = column.knots;
  const input = h("input", { id, type: "number", step: "any", placeholder: UNKNOWN, oninput: () => (follow(), changed()) });
  const slider = h("input", { type: "range", min: 0, max: STEPS, step: 1, "aria-label": `${column.column}, slider`, oninput: () => (lead(), changed()) });
  const whole = knots.every(Number.isInteger);
  const fault = h("p", { class: "small fault", role: "status", hidden: true }, "Not a number: taken as unknown.");
  const get = () => (input.value === "" || !Number.isFinite(input.valueAsNumber) ? null : input.valueAsNumber);
  function lead() {
    input.value = String(roundTo(valueAt(knots, slider.valueAsNumber / STEPS), knots, whole));
    tell();
  }
  function follow() {
    slider.value = String(Math.round(STEPS * placeOf(knots, get() ?? column.typical)));
    tell();
  }
  function tell() {
    fault.hidden = !input.validity.badInput;
    slider.setAttribute("aria-valuetext", get() === null ? UNKNOWN : number(get()));
  }
  follow();
  return {
    input,
    more: h("div", {}, fault, slider, h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, number(knots[0])), h("span", {}, number(knots.at(-1))))),
    get,
    set(value) {
      input.value = value === null ? "" : String(typeof value === "number" ? roundTo(value, knots, whole) : value);
      follow();
    },
  };
}

/** The value at a place between 0 and 1 along the knots. */
export function valueAt(knots, place) {
  const at = place * (knots.length - 1);
  const i = Math.min(Math.floor(at), knots.length - 2);
  return knots.length < 2 ? knots[0] : knots[i] + (at - i) * (knots[i + 1] - knots[i]);
}

/** The inverse: where a value lies along the knots. */
export function placeOf(knots, value) {
  const i = knots.findIndex((knot) => knot >= value);
  if (i < 0) return 1;
  if (i === 0 || knots.length < 2) return 0;
  return (i - 1 + (value - knots[i - 1]) / (knots[i] - knots[i - 1])) / (knots.length - 1);
}

/** No finer than the slider can tell: whole numbers stay whole, others get about four digits of the column's width. */
function roundTo(value, knots, whole) {
  if (whole) return Math.round(value);
  const width = knots.at(-1) - knots[0] || Math.abs(value) || 1;
  const digits = 3 - Math.floor(Math.log10(width));
  return digits > 10 ? Number(value.toPrecision(4)) : Number(value.toFixed(Math.max(0, digits)));
}
