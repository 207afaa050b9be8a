// Features: what the model knows of all tables' columns, as a map, side by side for two tables, and as a heat map.

import { get } from "./api.js";
import { listTables } from "./catalogue.js";
import { colourTables, showLegend, swatch } from "./colours.js";
import { fill, h, noModel, say } from "./dom.js";
import { count } from "./format.js";
import { drawHeat } from "./heat.js";
import { BY_NAME, describe, makeMap, round } from "./map.js";
import { makeMatches } from "./matches.js";

const N_NEAREST = 5;
const N_LISTED = 50;
const wish = { names: true, least: 0.5 };

export async function show(place) {
  const title = h("h1", {}, "What means the same");
  const tables = await listTables();
  if (!tables.length) return fill(place, title, noModel());
  const [map, encodings] = await Promise.all([get("encodings/map"), get("encodings")]);
  if (!map.points.length) return fill(place, title, h("p", { class: "note" }, "The model knows no features, so there is nothing to compare."));
  const vectors = new Map(encodings.features.filter(({ encoding }) => encoding.some(Boolean)).map(({ feature, encoding }) => [feature, toUnit(encoding)]));
  const points = map.points.filter(({ feature }) => vectors.has(feature));
  if (!points.length) return fill(place, title, h("p", { class: "note" }, "This model has no encodings of its features: a fit with the current version would give it some."));
  const compare = await makeComparison(points, vectors);
  if (!place.isConnected) return; // another view was opened meanwhile
  open(place, title, { tables, points, compare, left: map.points.length - points.length, colours: colourTables(tables.map(({ table }) => table)), chosen: readAddress(tables) });
}

function open(place, title, view) {
  const { tables, points, colours } = view;
  const found = new Map();
  const nearest = (point) => found.get(point) ?? found.set(point, findNearest(point, points, view.compare)).get(point);
  const columnsOf = nameColumns(tables);
  const card = h("section", { class: "card", id: "card", "aria-label": "The feature and its nearest" });
  const map = makeMap(points, { colours, nearest, onlook: (point) => fill(card, showCard(point, nearest, columnsOf, (next) => map.select(next, true))) });
  const chips = tables.map(({ table }) => makeChip(table, points, colours, () => choose(toggle(view.chosen, table))));
  const clear = h("button", { type: "button", class: "quiet", id: "no-tables", onclick: () => (choose([]), chips[0].focus()) }, "Forget the choice");
  const hint = h("p", { class: "note", id: "hint", role: "status" });
  const compared = h("div", {});
  const heat = h("div", {});
  function choose(chosen) {
    view.chosen = chosen;
    history.replaceState(null, "", ["#/features", ...chosen.map(encodeURIComponent)].join("/"));
    chips.forEach((chip) => chip.setAttribute("aria-pressed", String(chosen.includes(chip.dataset.table))));
    clear.hidden = !chosen.length;
    hint.textContent = tellChoice(chosen, tables);
    map.emphasise(chosen);
    const two = chosen.map((name) => tables.find(({ table }) => table === name));
    fill(compared, two.length === 2 ? makeMatches(...two, wish, colours) : null);
    fill(heat, showHeat(view, two));
  }
  fill(
    place,
    title,
    h("p", { class: "note" }, "Every feature of all tables lies in one space. Features that play the same part lie together, whatever they are called."),
    h("div", { class: "chips", id: "tables", role: "group", "aria-label": "Tables" }, chips, clear),
    hint,
    compared,
    h(
      "section",
      { class: "panel", "aria-labelledby": "map-title" },
      h("h2", { id: "map-title" }, `${count(points.length, "feature")} of ${count(tables.length, "table")}`),
      view.left ? h("p", { class: "note small" }, `${count(view.left, "feature")} without an encoding ${view.left === 1 ? "is" : "are"} left out.`) : null,
      showLegend(points),
      h("div", { class: "mapped" }, map.element, card),
    ),
    h("section", { class: "panel", "aria-labelledby": "heat-title" }, h("h2", { id: "heat-title" }, "How alike, pair by pair"), heat),
    h("section", { class: "panel", "aria-labelledby": "list-title" }, h("h2", { id: "list-title" }, "All features as a list"), makeList(points, nearest, (point) => map.select(point, true))),
  );
  fill(card, showCard(null));
  choose(view.chosen);
}

/**
 * How alike two points are: { alike, sign, strength }. The first half of an encoding changes its sign when its feature is turned over
 * (see docs/encodings.md), so the cosine is taken both ways; ``strength`` is the cosine with that sign.
 */
async function makeComparison(points, vectors) {
  const both = (a, b) => dotHalves(vectors.get(a.feature), vectors.get(b.feature));
  const turns = await checkTurning(points, both);
  return (a, b) => {
    const [turning, staying] = both(a, b);
    if (!turns) return { alike: turning + staying, sign: 1, strength: turning + staying };
    const [alike, sign] = [Math.abs(turning) + staying, turning < 0 ? -1 : 1];
    return { alike, sign, strength: sign * Math.max(alike, 0) }; // unlike either way is no likeness at all
  };
}

/** Encodings of older models know no turning over, and do not say so: the service's own answer for one feature tells. */
async function checkTurning(points, both) {
  if (points.length < 2) return false;
  const { similar } = await get("encodings/similar", { feature: points[0].feature, k: Math.min(points.length - 1, 1000) });
  const known = new Map(points.map((point) => [point.feature, point]));
  return similar.every(({ feature, similarity }) => {
    if (!known.has(feature)) return true;
    const [turning, staying] = both(points[0], known.get(feature));
    return Math.abs(Math.abs(turning) + staying - similarity) < 1e-3;
  });
}

function toUnit(vector) {
  const length = Math.hypot(...vector);
  return Float64Array.from(vector, (part) => part / Math.max(length, 1e-12));
}

function dotHalves(a, b) {
  const half = Math.floor(a.length / 2);
  let [first, second] = [0, 0];
  for (let i = 0; i < half; i++) first += a[i] * b[i];
  for (let i = half; i < a.length; i++) second += a[i] * b[i];
  return [first, second];
}

function findNearest(point, points, compare) {
  const others = points.filter((other) => other !== point).map((other) => ({ point: other, ...compare(point, other) }));
  return others.sort((a, b) => b.alike - a.alike).slice(0, N_NEAREST);
}

/** The columns that mean a feature, by feature: [[table, column], ...]. */
function nameColumns(tables) {
  const named = new Map();
  for (const { table, columns } of tables) {
    for (const [column, { feature }] of Object.entries(columns)) named.set(feature, [...(named.get(feature) ?? []), [table, column]]);
  }
  return named;
}

/** The tables named in the address: #/features/auto/mtcars. */
function readAddress(tables) {
  const named = [...new Set(location.hash.split("/").slice(2, 4))];
  return named.map((code) => tables.find(({ table }) => encodeURIComponent(table) === code)?.table).filter(Boolean);
}

/** A third choice takes the place of the oldest. */
function toggle(chosen, table) {
  return chosen.includes(table) ? chosen.filter((name) => name !== table) : [...chosen, table].slice(-2);
}

function makeChip(table, points, colours, onclick) {
  const own = points.filter(({ tables }) => tables.includes(table)).length;
  return h("button", { type: "button", class: "quiet chip", "aria-pressed": "false", "data-table": table, title: count(own, "feature"), onclick }, swatch(colours.get(table)), table);
}

function tellChoice(chosen, tables) {
  if (tables.length < 2) return "There is one table only, so there are no two to compare. A second one can be fitted with it, or added to the model.";
  if (!chosen.length) return "Choose a table to see its features among all others, or two to see which of their columns mean the same.";
  if (chosen.length === 1) return `The features of ${chosen[0]} stand out. Choose a second table to see which columns mean the same.`;
  return `${chosen[0]} and ${chosen[1]} are compared.${tables.length > 2 ? ` Another table takes the place of ${chosen[0]}.` : ""}`;
}

function showCard(point, nearest, columnsOf, go) {
  if (!point) return [h("h3", {}, "Nearest features"), h("p", { class: "note" }, "Point at a feature of the map, or choose one from the list below: its nearest neighbours are told here.")];
  const columns = columnsOf.get(point.feature) ?? [];
  const near = nearest(point);
  return [
    h("h3", {}, point.feature),
    h("p", { class: "note small" }, `${point.kind}, in ${point.tables.length ? count(point.tables.length, "table") : "no table"}`),
    h("ul", { class: "tags" }, columns.map(([table, column]) => h("li", { class: "tag" }, column === point.feature ? table : `${table}: ${column}`))),
    near.length ? h("p", { class: "small card-head" }, "Nearest, with the cosine of the encodings:") : h("p", { class: "note" }, "There is no other feature."),
    h("ol", { class: "nearest" }, near.map((one) => h("li", {}, showNeighbour(one, go)))),
  ];
}

function showNeighbour({ point, alike, sign }, go) {
  const turned = sign < 0 ? h("span", { class: "note small" }, " turned over: falls as this one rises") : null;
  return [h("button", { type: "button", class: "quiet link", onclick: () => go(point) }, point.feature), " ", h("span", { class: "cosine" }, round(alike)), turned];
}

/** The same in words, to search in; so many at a time that thousands stay quick. */
function makeList(points, nearest, go) {
  const sorted = [...points].sort((a, b) => BY_NAME.compare(a.feature, b.feature));
  const body = h("tbody", {});
  const told = h("p", { class: "note small", id: "listed", role: "status" });
  const more = h("button", { type: "button", class: "quiet", id: "list-more", onclick: () => list(listed + N_LISTED) });
  const search = h("input", { id: "search", type: "search", autocomplete: "off", placeholder: "feature, kind or table", oninput: () => list(N_LISTED) });
  let listed = N_LISTED;
  function list(most) {
    listed = most;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = sorted.filter((point) => words.every((word) => describe(point).toLowerCase().includes(word)));
    fill(body, found.slice(0, most).map((point) => showLine(point, nearest(point), go)));
    told.textContent = found.length ? `${count(Math.min(most, found.length), "feature")} of ${found.length} shown.` : `No feature, kind or table is called ${search.value}.`;
    more.hidden = found.length <= most;
    more.textContent = `Show ${Math.min(N_LISTED, found.length - most)} more`;
  }
  list(N_LISTED);
  const head = h("thead", {}, h("tr", {}, ["feature", "kind", "tables", "nearest features"].map((name) => h("th", { scope: "col" }, name))));
  return h("div", {}, h("p", {}, h("label", { class: "search" }, "Search ", search)), told, h("div", { class: "scroll listed" }, h("table", { id: "features", class: "small" }, head, body)), more);
}

function showLine(point, near, go) {
  const neighbours = near.map(({ point: other, alike, sign }) => `${other.feature} ${round(alike)}${sign < 0 ? " (turned over)" : ""}`).join(", ");
  const name = h("button", { type: "button", class: "quiet link", onclick: () => (go(point), document.getElementById("map").scrollIntoView({ block: "center" }), say(`${point.feature} is shown on the map`)) }, point.feature);
  return h("tr", { "data-feature": point.feature }, h("th", { scope: "row" }, name), h("td", {}, point.kind), h("td", {}, point.tables.join(", ")), h("td", {}, neighbours || "none"));
}

/** The columns of two tables against each other, or all features; a column that is had turned over (a scale below 0) turns the sign. */
function showHeat({ points, compare, chosen }, two) {
  const known = new Map(points.map((point) => [point.feature, point]));
  if (two.length < 2) {
    const rank = (point) => (point.tables.includes(chosen[0]) ? 1e6 : 0) + point.tables.length;
    const all = [...points].sort((a, b) => rank(b) - rank(a)).map((point) => ({ name: point.feature, point, turn: 1 }));
    return drawHeat(all, all, compareItems(compare), `All features against each other: the cosine of their encodings.`);
  }
  const sides = two.map(({ columns }) => Object.entries(columns).filter(([, { feature }]) => known.has(feature)).map(([name, { feature, scale }]) => ({ name, point: known.get(feature), turn: scale < 0 ? -1 : 1 })));
  if (!sides.every((side) => side.length)) return h("p", { class: "note" }, "The model knows no column of one of these tables, so there is nothing to compare.");
  return drawHeat(...sides, compareItems(compare), `Columns of ${chosen[0]} (down) against those of ${chosen[1]} (across): the cosine of their encodings.`);
}

function compareItems(compare) {
  return (a, b) => {
    const { alike, sign, strength } = compare(a.point, b.point);
    const turn = a.turn * b.turn;
    return { alike, sign: sign * turn, strength: strength * turn };
  };
}
