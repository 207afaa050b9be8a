// All features of all tables as points: a picture, not a measure. What lies together plays the same part.

import { colourOf, shapeOf, tint } from "./colours.js";
import { fill, h, s } from "./dom.js";
import { count } from "./format.js";

const PAD = 26;
// A pointer as near as this (in pixels) means a point.
const REACH = 18;
const MOST_ZOOM = 32;
const LINE = 15; // a label's height
const TILE = 48; // labels and points are looked up by tiles of this size: two far apart are never compared
const MARK = 7; // half a point
export const BY_NAME = new Intl.Collator("en", { numeric: true });
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * The map of these points. ``nearest(point)`` gives its neighbours, ``onlook(point or null)`` is called when another one is looked at.
 * Gives { element, emphasise(tables), select(point) }.
 */
export function makeMap(points, { colours, nearest, onlook }) {
  const seen = { width: 0, height: 0, zoom: 1, centre: [0.5, 0.5], tables: [], selected: null, looked: null };
  const spots = normalise(points);
  const layers = { labels: s("g", { class: "labels", "aria-hidden": "true" }), lines: s("g", { class: "near-lines", "aria-hidden": "true" }), marks: s("g", { role: "none" }), over: s("g", { class: "labels over", "aria-hidden": "true" }) };
  const marks = points.map((point, i) => drawMark(point, colours, i === 0));
  layers.marks.append(...marks);
  const svg = s("svg", { class: "map", id: "map", role: "listbox", "aria-label": `Map of ${count(points.length, "feature")}. Arrow keys walk to the nearest point that way, letters to names.`, "aria-describedby": "map-help" }, layers.labels, layers.marks, layers.lines, layers.over);
  const index = new Map(points.map((point, i) => [point, i]));
  const at = (i) => spots[i].map((part, axis) => PAD + ((part - seen.centre[axis]) * seen.zoom + 0.5) * ([seen.width, seen.height][axis] - 2 * PAD));
  const isDim = (point) => seen.tables.length > 0 && !point.tables.some((table) => seen.tables.includes(table));

  let names = new Map(); // the label of each point that has one

  function draw() {
    if (!seen.width) return;
    svg.setAttribute("viewBox", `0 0 ${seen.width} ${seen.height}`);
    svg.classList.toggle("zoomed", seen.zoom > 1);
    marks.forEach((mark, i) => {
      const [x, y] = at(i);
      mark.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      mark.classList.toggle("dim", isDim(points[i]));
    });
    drawLabels();
    drawLook();
  }

  /** Names where there is room: first of what several tables have, as these are the landmarks; none over points or other names. */
  function drawLabels() {
    const room = makeRoom(seen.width, seen.height);
    const inside = points.map((point, i) => ({ point, xy: at(i) })).filter(({ xy }) => room.holds(xy));
    inside.forEach(({ xy }) => room.takePoint(xy));
    const shown = inside.filter(({ point }) => !isDim(point)).sort((a, b) => b.point.tables.length - a.point.tables.length);
    names = new Map(shown.map(({ point, xy }) => [point, room.place(xy, nameOf(point))]));
    fill(layers.labels, [...names.values()]);
  }

  /** The point that is looked at, its neighbours, and lines to them. */
  function drawLook() {
    const point = seen.looked ?? seen.selected;
    for (const mark of layers.marks.querySelectorAll(".near, .shown")) mark.classList.remove("near", "shown");
    for (const name of layers.labels.querySelectorAll(".doubled")) name.classList.remove("doubled");
    svg.classList.toggle("looking", point !== null);
    fill(layers.lines);
    fill(layers.over);
    if (point === null) return;
    const from = at(index.get(point));
    const near = nearest(point).map((one) => ({ ...one, xy: at(index.get(one.point)) }));
    const room = makeRoom(seen.width, seen.height);
    [from, ...near.map(({ xy }) => xy)].forEach((xy) => room.takePoint(xy));
    marks[index.get(point)].classList.add("shown");
    near.forEach((one) => marks[index.get(one.point)].classList.add("near"));
    [point, ...near.map((one) => one.point)].forEach((each) => names.get(each)?.classList.add("doubled"));
    fill(layers.lines, near.map((one) => drawLine(from, one)));
    fill(layers.over, room.place(from, nameOf(point), "strong"), near.map((one) => room.place(one.xy, `${one.point.feature} ${round(one.alike)}${one.sign < 0 ? ", turned over" : ""}`)));
  }

  function look(point) {
    if (point === seen.looked) return;
    seen.looked = point;
    drawLook();
    onlook(seen.looked ?? seen.selected);
  }

  /** Stay with a point (null: with none). With ``focus``, the keyboard goes on from it. */
  function select(point, focus = false) {
    if (seen.selected) marks[index.get(seen.selected)].setAttribute("aria-selected", "false");
    seen.selected = point;
    seen.looked = null;
    if (point) {
      for (const mark of layers.marks.querySelectorAll("[tabindex='0']")) mark.setAttribute("tabindex", "-1");
      const mark = marks[index.get(point)];
      // Written only now: the neighbours of thousands of points need not be known beforehand.
      mark.setAttribute("aria-label", `${describe(point)}. Nearest: ${nearest(point).map(tell).join("; ") || "none"}`);
      mark.setAttribute("aria-selected", "true");
      mark.setAttribute("tabindex", "0");
      if (!isInside(at(index.get(point)), seen)) moveTo(spots[index.get(point)]);
      if (focus) mark.focus({ preventScroll: true });
    }
    drawLook();
    onlook(seen.selected);
  }

  function moveTo(spot) {
    const half = 0.5 / seen.zoom;
    seen.centre = spot.map((part) => Math.min(1 - half, Math.max(half, part)));
    draw();
  }

  /** Nearer or farther, around what is looked at. */
  function zoom(factor) {
    seen.zoom = Math.min(MOST_ZOOM, Math.max(1, seen.zoom * factor));
    moveTo(seen.selected ? spots[index.get(seen.selected)] : seen.centre);
    closer.disabled = seen.zoom >= MOST_ZOOM;
    farther.disabled = whole.disabled = seen.zoom <= 1;
  }

  function pointNear(event) {
    const box = svg.getBoundingClientRect();
    const xy = [event.clientX - box.left, event.clientY - box.top];
    const far = points.map((_, i) => distance(at(i), xy));
    const best = far.reduce((least, each, i) => (each < far[least] ? i : least), 0);
    return far[best] <= REACH ? points[best] : null;
  }

  let drag = null;
  svg.addEventListener("pointerdown", (event) => (drag = { x: event.clientX, y: event.clientY, centre: seen.centre, moved: false }));
  svg.addEventListener("mousedown", (event) => event.preventDefault()); // the click chooses what gets the focus
  svg.addEventListener("pointermove", (event) => {
    if (drag && event.buttons && seen.zoom > 1) {
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag.moved ||= Math.hypot(dx, dy) > 4;
      if (drag.moved) return moveTo([drag.centre[0] - dx / (seen.width - 2 * PAD) / seen.zoom, drag.centre[1] - dy / (seen.height - 2 * PAD) / seen.zoom]);
    }
    look(pointNear(event));
  });
  svg.addEventListener("pointerleave", () => look(null));
  svg.addEventListener("click", (event) => {
    if (!drag?.moved) select(pointNear(event), true);
    drag = null;
  });
  svg.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const done = answerKey(event.key);
    if (done) event.preventDefault();
  });

  function answerKey(key) {
    const now = seen.selected ? index.get(seen.selected) : 0;
    if (key === "Escape") return select(null), true;
    if (key === "+" || key === "-") return zoom(key === "+" ? 2 : 0.5), true;
    const next = ARROWS[key] ? findTowards(points.map((_, i) => at(i)), now, ARROWS[key]) : findByName(points, now, key);
    if (next !== null) select(points[next], true);
    return next !== null || key in ARROWS;
  }

  const closer = h("button", { type: "button", class: "quiet", id: "map-closer", onclick: () => zoom(2) }, "Closer");
  const farther = h("button", { type: "button", class: "quiet", id: "map-farther", disabled: true, onclick: () => zoom(0.5) }, "Farther");
  const whole = h("button", { type: "button", class: "quiet", id: "map-whole", disabled: true, onclick: () => zoom(0) }, "Whole map");
  // Not on the drawing itself: one that listens for focus becomes a tab stop of its own in Chromium.
  const follow = ({ target }) => {
    const point = points[marks.indexOf(target)];
    if (point && point !== seen.selected) select(point);
  };
  const box = h("div", { class: "map-box", onfocusin: follow }, svg);
  const element = h(
    "div",
    {},
    box,
    h("p", { class: "actions map-actions" }, closer, farther, whole, h("span", { class: "note small", id: "map-help" }, "Point at a feature, or walk with the arrow keys; a letter jumps to a name; + and − zoom; drag when zoomed.")),
  );
  new ResizeObserver(() => {
    if (box.clientWidth === seen.width) return;
    seen.width = box.clientWidth;
    seen.height = Math.round(Math.min(560, Math.max(320, seen.width * 0.66)));
    draw();
  }).observe(box);
  return {
    element,
    select,
    emphasise(tables) {
      seen.tables = tables;
      draw();
    },
  };
}

/** A feature in a line: weight, numeric, in 4 tables: auto, mtcars, cars93, auto1978. */
export function describe({ feature, kind, tables }) {
  const where = tables.length ? `in ${count(tables.length, "table")}: ${tables.join(", ")}` : "in no table";
  return `${feature}, ${kind}, ${where}`;
}

/** A cosine as it is written everywhere in this view. */
export function round(cosine) {
  return cosine.toFixed(2).replace("-", "\u2212").replace(/^\u22120\.00$/, "0.00");
}

function tell({ point, alike, sign }) {
  return `${point.feature} ${round(alike)}${sign < 0 ? " turned over" : ""}`;
}

function nameOf({ feature, tables }) {
  return tables.length > 1 ? `${feature} (${tables.length})` : feature;
}

function drawMark(point, colours, isFirst) {
  const mark = s("path", { class: "point", d: shapeOf(point.kind), role: "option", "aria-selected": "false", tabindex: isFirst ? 0 : -1, "aria-label": describe(point), "data-feature": point.feature });
  return tint(mark, colourOf(point, colours));
}

/** From the edge of one point to that of the other. */
function drawLine(from, { xy, alike, sign, point }) {
  const short = Math.min(0.4, MARK / Math.max(distance(from, xy), 1));
  const [[x1, y1], [x2, y2]] = [short, 1 - short].map((part) => from.map((start, axis) => (start + part * (xy[axis] - start)).toFixed(1)));
  return s("line", { x1, y1, x2, y2, class: sign < 0 ? "turned" : null, "stroke-width": (1 + 2.5 * Math.max(0, alike)).toFixed(2), "data-to": point.feature });
}

/** Places between 0 and 1 on both axes, the second one upwards; what has no width lies in the middle. */
function normalise(points) {
  const ends = ["x", "y"].map((axis) => points.reduce(([low, high], point) => [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]));
  const part = (value, [low, high]) => (high > low ? (value - low) / (high - low) : 0.5);
  return points.map(({ x, y }) => [part(x, ends[0]), 1 - part(y, ends[1])]);
}

function isInside([x, y], { width, height }) {
  return !width || (x >= 0 && x <= width && y >= 0 && y <= height);
}

function distance([a, b], [c, d]) {
  return Math.hypot(a - c, b - d);
}

/** The nearest point in a direction: straight ahead counts, sideways costs. */
function findTowards(places, now, [dx, dy]) {
  let best = null;
  let least = Infinity;
  places.forEach(([x, y], i) => {
    const [right, down] = [x - places[now][0], y - places[now][1]];
    const ahead = right * dx + down * dy;
    const aside = Math.abs(right * dy) + Math.abs(down * dx);
    const cost = ahead + 2 * aside;
    if (i !== now && ahead > 0 && aside <= 2 * ahead && cost < least) [best, least] = [i, cost];
  });
  return best;
}

/** Home and End: the first and the last name; a letter: the next name that begins with it. So every point can be reached. */
function findByName(points, now, key) {
  const order = points.map((_, i) => i).sort((a, b) => BY_NAME.compare(points[a].feature, points[b].feature));
  if (key === "Home") return order[0];
  if (key === "End") return order.at(-1);
  if (key.length !== 1 || key === " ") return null;
  const after = order.indexOf(now) + 1;
  return [...order.slice(after), ...order.slice(0, after)].find((i) => points[i].feature.toLowerCase().startsWith(key.toLowerCase())) ?? null;
}

let pen = null;

/** How wide a label is, in pixels. */
function widthOf(text) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
  return pen.measureText(text).width * 1.04;
}

/** Room for labels: whoever comes first gets a place beside its point; who finds none stays without. */
function makeRoom(width, height) {
  const tiles = new Map();
  const around = ([x1, y1, x2, y2]) => {
    const keys = [];
    for (let i = Math.floor(x1 / TILE); i <= Math.floor(x2 / TILE); i++) for (let j = Math.floor(y1 / TILE); j <= Math.floor(y2 / TILE); j++) keys.push(`${i} ${j}`);
    return keys.map((key) => tiles.get(key) ?? tiles.set(key, []).get(key));
  };
  const take = (box) => around(box).forEach((tile) => tile.push(box));
  const isFree = (box) => box[0] >= 0 && box[1] >= 0 && box[2] <= width && box[3] <= height && !around(box).some((tile) => tile.some((other) => overlap(box, other)));
  return {
    holds: ([x, y]) => x >= 0 && y >= 0 && x <= width && y <= height,
    takePoint: ([x, y]) => take([x - MARK + 2, y - MARK + 2, x + MARK - 2, y + MARK - 2]),
    place([x, y], text, kind) {
      const long = widthOf(text) * (kind === "strong" ? 1.1 : 1);
      const starts = [[x + MARK + 2, y - LINE / 2], [x - MARK - 2 - long, y - LINE / 2], [x - long / 2, y - MARK - LINE], [x - long / 2, y + MARK], [x + 5, y - MARK - LINE + 3], [x + 5, y + MARK - 3], [x - 5 - long, y - MARK - LINE + 3], [x - 5 - long, y + MARK - 3]];
      const start = starts.find(([left, top]) => isFree([left, top, left + long, top + LINE]));
      if (!start) return null;
      take([start[0] - 3, start[1], start[0] + long + 3, start[1] + LINE]);
      return s("text", { x: start[0].toFixed(1), y: (start[1] + LINE - 4).toFixed(1), class: kind }, text);
    },
  };
}

function overlap([a1, b1, a2, b2], [c1, d1, c2, d2]) {
  return a1 < c2 && c1 < a2 && b1 < d2 && d1 < b2;
}
