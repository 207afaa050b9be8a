// How probable each value is, drawn.

import { cell, fromAxis, percent, toAxis } from "./format.js";
import { h, picture, roomFor, s } from "./dom.js";

const WIDEST = 560;
const HEIGHT = 150;
const BASE = 118;
const TOP = 22;
const N_BARS = 52;
// Tails that hold less than this are left out of the picture (not of the answer).
const TAIL = 0.01;
const MOST_SHARES = 8;

/** A number's distribution as bars of one width, with the interval behind them and the value marked. */
export function drawDistribution(one, target, interval, isDate) {
  const pieces = one.distribution.map(({ low, high, probability }) => ({ low: toAxis(low), high: toAxis(high), probability }));
  const value = toAxis(one.value);
  const [from, to] = one.interval.map(toAxis);
  const [low, high] = findRange(pieces, Math.min(from, value), Math.max(to, value));
  const mass = sortIntoBars(pieces, low, high);
  const width = roomFor(WIDEST);
  const peak = Math.max(...mass, 1e-9);
  const x = (at) => ((at - low) / (high - low)) * width;
  const show = (at) => fromAxis(at, isDate);
  const bars = mass.map((share, i) => {
    const height = (share / peak) * (BASE - TOP);
    return s("rect", { class: "mass bar", x: (i * width) / N_BARS + 0.5, y: BASE - height, width: width / N_BARS - 1, height });
  });
  const drawn = picture(
    width,
    HEIGHT,
    `Distribution of ${target}: ${show(value)} expected, ${percent(interval)} between ${show(from)} and ${show(to)}`,
    { class: "dist" },
    s("rect", { class: "band", x: x(from), y: TOP - 6, width: Math.max(x(to) - x(from), 1), height: BASE - TOP + 6 }),
    bars,
    s("line", { class: "axis", x1: 0, y1: BASE, x2: width, y2: BASE }),
    s("line", { class: "mark", x1: x(value), y1: TOP - 8, x2: x(value), y2: BASE }),
    label(x(value), 10, width, show(value), "strong"),
    placeApart([[x(from), show(from)], [x(to), show(to)]], width).map(([at, text]) => label(at, BASE + 16, width, text, "strong")),
    label(0, BASE + 30, width, show(low), "", "start"),
    label(width, BASE + 30, width, show(high), "", "end"),
  );
  return h("figure", { class: "figure" }, drawn, h("figcaption", { class: "note small" }, `The band holds ${percent(interval)}; the line is the expected value; median ${show(toAxis(one.median))}.`));
}

/** Words or levels: a bar each; the improbable ones together. */
export function showShares(choices) {
  const order = [...choices].sort((a, b) => b.probability - a.probability);
  const likely = new Set(choices.length <= MOST_SHARES + 4 ? choices : order.slice(0, MOST_SHARES));
  const shown = choices.filter((one) => likely.has(one)); // levels stay in their order
  const rest = choices.filter((one) => !likely.has(one));
  const lines = shown.map(({ value, probability }) => [cell(value), probability]);
  if (rest.length) lines.push([`${rest.length} others`, rest.reduce((sum, { probability }) => sum + probability, 0)]);
  return h(
    "dl",
    { class: "shares" },
    lines.map(([name, share]) => [
      h("dt", {}, name),
      h("dd", {}, h("meter", { min: 0, max: 1, value: share, "aria-label": `${name}: ${percent(share, 1)}` })),
      h("dd", {}, percent(share, 1)),
    ]),
  );
}

/** From where to where it is drawn: the interval and all but the thinnest tails. */
function findRange(pieces, from, to) {
  let below = 0;
  let low = from;
  let high = to;
  for (const piece of pieces) {
    const above = 1 - below - piece.probability;
    if (below + piece.probability > TAIL) low = Math.min(low, below >= TAIL ? piece.low : cut(piece, TAIL - below));
    if (above < TAIL && 1 - below > TAIL) high = Math.max(high, cut(piece, 1 - TAIL - below));
    below += piece.probability;
  }
  const room = (high - low || Math.abs(high) || 1) * 0.02;
  return [low - room, high + room];
}

/** Where in a piece so much of the whole has passed. */
function cut({ low, high, probability }, mass) {
  return low + (high - low) * Math.min(1, Math.max(0, mass / (probability || 1)));
}

function sortIntoBars(pieces, low, high) {
  const mass = new Array(N_BARS).fill(0);
  const place = (at) => ((at - low) / (high - low)) * N_BARS;
  for (const piece of pieces) {
    const [a, b] = [place(piece.low), place(piece.high)];
    if (b - a < 1e-9) {
      if (a >= 0 && a <= N_BARS) mass[Math.min(N_BARS - 1, Math.floor(a))] += piece.probability;
      continue;
    }
    for (let i = Math.max(0, Math.floor(a)); i < Math.min(N_BARS, Math.ceil(b)); i++) {
      const share = (Math.min(b, i + 1) - Math.max(a, i)) / (b - a);
      if (share > 0) mass[i] += share * piece.probability;
    }
  }
  return mass;
}

function label(x, y, width, text, kind, anchor) {
  return s("text", { x: anchor ? x : keepWithin(x, text, width), y, class: kind, "text-anchor": anchor ?? "middle" }, text);
}

/** About how wide a label is. */
function widthOf(text) {
  return 8.4 * text.length;
}

/** The middle of a label that stays within the drawing. */
function keepWithin(x, text, width) {
  return Math.max(widthOf(text) / 2, Math.min(x, width - widthOf(text) / 2));
}

/** Two labels that would run into each other are moved apart. */
function placeApart([[a, first], [b, second]], width) {
  const need = (widthOf(first) + widthOf(second)) / 2 + 6;
  const right = keepWithin(Math.max(b, keepWithin(a, first, width) + need), second, width);
  return [[Math.min(a, right - need), first], [right, second]];
}
