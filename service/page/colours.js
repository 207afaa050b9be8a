// What stands for what in the drawings of features: a colour for every table, a shape for every kind.

import { h, s } from "./dom.js";

// So many colours are chosen by hand (--t0 to --t9 in base.css); further tables get hues that lie far apart.
const N_CHOSEN = 10;
const GOLDEN_ANGLE = 137.508;
const SHARED = "var(--ink)";

// All about as large to the eye, around 0, 0.
const SHAPES = {
  numeric: "M-5 0A5 5 0 1 1 5 0A5 5 0 1 1 -5 0Z",
  ordinal: "M-4.5 -4.5H4.5V4.5H-4.5Z",
  categorical: "M0 -6L5.8 4.4H-5.8Z",
  boolean: "M0 -6.4L6.4 0L0 6.4L-6.4 0Z",
  datetime: "M-1.8 -6H1.8V-1.8H6V1.8H1.8V6H-1.8V1.8H-6V-1.8H-1.8Z",
};
const WORDS = { numeric: "circle", ordinal: "square", categorical: "triangle", boolean: "diamond", datetime: "cross" };

/** A colour for every table, as CSS reads it. */
export function colourTables(names) {
  return new Map(names.map((name, i) => [name, i < N_CHOSEN ? `var(--t${i})` : `hsl(${((i * GOLDEN_ANGLE) % 360).toFixed(0)} 55% var(--tone-light))`]));
}

/** Its table's colour, or ink for what several tables have. */
export function colourOf({ tables }, colours) {
  return tables.length === 1 ? colours.get(tables[0]) ?? SHARED : SHARED;
}

export function shapeOf(kind) {
  return SHAPES[kind] ?? SHAPES.numeric;
}

/** A spot of colour beside a word. Colours are set by code: the page's policy allows no style in markup. */
export function swatch(colour) {
  return tint(h("span", { class: "swatch", "aria-hidden": "true" }), colour);
}

export function tint(element, colour) {
  element.style.setProperty("--tone", colour);
  return element;
}

/** What shapes and ink mean; the tables' colours stand on their buttons. */
export function showLegend(points) {
  const kinds = Object.keys(SHAPES).filter((kind) => points.some((point) => point.kind === kind));
  const someShared = points.some(({ tables }) => tables.length > 1);
  return h(
    "ul",
    { class: "legend small", "aria-label": "Legend" },
    kinds.map((kind) => h("li", {}, icon(SHAPES[kind]), `${kind} (${WORDS[kind]})`)),
    h("li", {}, tint(icon(SHAPES.numeric), "var(--t0)"), "in one table: the table’s colour"),
    someShared ? h("li", {}, tint(icon(SHAPES.numeric), SHARED), "in several tables: ink, with their number") : null,
  );
}

function icon(path) {
  return s("svg", { viewBox: "-8 -8 16 16", class: "icon", "aria-hidden": "true" }, s("path", { d: path }));
}
