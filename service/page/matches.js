// Two tables side by side: which of their columns mean the same, how sure that is, and why.

import { get } from "./api.js";
import { swatch } from "./colours.js";
import { fill, h, latest, say, trouble } from "./dom.js";
import { count, number, percent, signed } from "./format.js";
import { round } from "./map.js";

// What each piece of evidence looks at. Those of ODDS are added up; those of SHOWN are not.
const ODDS = {
  values: "the values themselves: how they are spread, or which words occur",
  equal: "values that are exactly the same in both",
  repeats: "how often values repeat, and where",
  shared: "how both go with the columns that the two tables share",
  company: "how both go with the other columns that likely match",
  names: "the words in the two columns’ names",
};
const SHOWN = {
  encoding: "cosine of the two encodings",
  predictions: "how far the model’s expectations for both agree over the same rows",
};
// From here on it does not matter how much likelier: the figure would only be long.
const MOST_TIMES = 1e6;

/**
 * The matches of two tables ({ table, columns } each). ``wish`` is { names, least }: what was last asked for, kept by the caller
 * for the next two tables; ``colours`` are the tables'.
 */
export function makeMatches(left, right, wish, colours) {
  const result = h("div", { id: "matches", "aria-busy": "true" }, h("p", { class: "note" }, "One moment…"));
  const seen = { left, right, colours, chosen: null };
  const ask = latest(() => askMatches(seen, wish, result));
  const told = h("output", { for: "least" }, percent(wish.least));
  const names = h("input", { id: "names", type: "checkbox", onchange: () => ((wish.names = names.checked), ask()) });
  names.checked = wish.names;
  const least = h("input", { id: "least", type: "range", min: 0, max: 1, step: 0.05, oninput: () => ((wish.least = least.valueAsNumber), change(), ask()) });
  least.value = String(wish.least);
  const change = () => {
    told.textContent = percent(wish.least);
    least.setAttribute("aria-valuetext", `at least ${percent(wish.least)} sure`);
  };
  change();
  ask();
  return h(
    "section",
    { class: "panel", id: "compare", "aria-labelledby": "compare-title" },
    h("h2", { id: "compare-title" }, `Columns of ${left.table} and ${right.table} that mean the same`),
    h(
      "div",
      { class: "options" },
      h("label", {}, names, " names of columns count"),
      h("label", { class: "least", for: "least" }, "At least so sure: ", told, least),
    ),
    result,
  );
}

async function askMatches(seen, wish, result) {
  result.setAttribute("aria-busy", "true");
  try {
    const asked = { left: seen.left.table, right: seen.right.table, names: wish.names, least: wish.least };
    showMatches(seen, await get("encodings/matches", asked), wish.least, result);
  } catch (error) {
    fill(result, trouble(error));
  }
  result.removeAttribute("aria-busy");
}

function showMatches(seen, { matches, unmatched }, least, result) {
  const evidence = h("section", { id: "evidence", class: "evidence", "aria-label": "Evidence" });
  const same = (one) => one.left === seen.chosen?.left && one.right === seen.chosen?.right;
  // What had to be found out tells more than what is shared anyway.
  const first = matches.find(same) ?? matches.find(isFound) ?? matches[0];
  const buttons = new Map(matches.map((match) => [match, makePair(seen, match, () => (choose(match), say(tellEvidence(match))))]));
  function choose(match) {
    seen.chosen = match;
    for (const [each, button] of buttons) button.setAttribute("aria-pressed", String(each === match));
    fill(evidence, showEvidence(seen, match));
  }
  const sums = `${matches.length ? count(matches.length, "match", "matches") : "No match"} between ${seen.left.table} and ${seen.right.table}`;
  fill(
    result,
    matches.length
      ? h("div", { class: "compared" }, h("div", {}, showHead(seen), h("ol", { class: "pairs", "aria-label": sums }, [...buttons.values()].map((button) => h("li", {}, button)))), evidence)
      : h("p", { id: "no-match" }, `No column of ${seen.left.table} is ${percent(least)} sure to mean the same as one of ${seen.right.table}.`, least > 0 ? " Ask for less certainty to see the likeliest pairs." : ""),
    h("div", { class: "unmatched" }, showUnmatched(seen.left, seen.right, unmatched.left, "left"), showUnmatched(seen.right, seen.left, unmatched.right, "right")),
  );
  if (first) choose(first);
  say(sums);
}

function isFound({ evidence }) {
  return Object.keys(ODDS).some((name) => name in evidence);
}

function showHead({ left, right, colours }) {
  return h("p", { class: "pair pair-head", "aria-hidden": "true" }, h("b", {}, left.table, " ", swatch(colours.get(left.table))), h("span", { class: "note small" }, "how sure"), h("b", {}, swatch(colours.get(right.table)), " ", right.table));
}

/** A match as a line between two names: the surer, the thicker; dashed where turned over. */
function makePair(seen, match, onclick) {
  const sure = percent(match.similarity);
  const unit = tellUnit(seen, match);
  const turned = match.sign < 0 ? "turned over" : "";
  const tie = h("span", { class: turned ? "tie turned" : "tie" }, h("span", { class: "sure" }, sure));
  tie.style.setProperty("--sure", match.similarity.toFixed(3));
  return h(
    "button",
    { type: "button", class: "pair", "aria-pressed": "false", "aria-controls": "evidence", "aria-label": [`${match.left} and ${match.right}: ${sure} sure`, turned, unit].filter(Boolean).join(", "), "data-left": match.left, "data-right": match.right, onclick },
    h("span", { class: "from" }, breakable(match.left)),
    tie,
    h("span", { class: "to" }, breakable(match.right)),
    unit || turned ? h("span", { class: "unit small" }, [turned, unit].filter(Boolean).join("; ")) : null,
  );
}

/**
 * How the left column is had from the right one, where it is not the same number. The answer's scale takes the right
 * column to the feature; the left column may itself be in another unit than the feature.
 */
function tellUnit({ left, right }, match) {
  if (match.scale === null || match.offset === null) return "";
  const own = left.columns[match.left] ?? {};
  const [ownScale, ownOffset] = [own.scale ?? 1, own.offset ?? 0];
  const scale = match.scale / ownScale;
  const offset = (match.offset - ownOffset) / ownScale;
  if (Math.abs(scale - 1) < 1e-9 && Math.abs(offset) < 1e-9) return "";
  const [one, other] = match.left === match.right ? [`${match.left} (${left.table})`, `${match.right} (${right.table})`] : [match.left, match.right];
  const times = Math.abs(scale - 1) < 1e-9 ? other : `${number(scale)} × ${other}`;
  const plus = Math.abs(offset) < 1e-9 ? "" : ` ${signed(offset).replace(/^(.)/, "$1 ")}`;
  return `${one} = ${times}${plus}`;
}

function showUnmatched(own, other, names, side) {
  const words = names.length ? `${count(names.length, "column")} of ${own.table} without a match in ${other.table}:` : `Every column of ${own.table} has a match in ${other.table}.`;
  return h("div", { id: `unmatched-${side}` }, h("p", { class: "small" }, words), names.length ? h("ul", { class: "tags" }, names.map((name) => h("li", { class: "tag" }, name))) : null);
}

/** A long name may be broken where its words end. */
function breakable(name) {
  return name.split(/(?<=[._\- ])/).flatMap((part) => [part, h("wbr")]);
}

/** In a sentence, for those who hear it. */
function tellEvidence({ left, right, similarity, evidence }) {
  const that = (speaks) => Object.keys(ODDS).filter((name) => speaks(evidence[name] ?? 0)).join(", ") || "nothing";
  return `${left} and ${right}, ${percent(similarity)} sure. For it: ${that((value) => value > 0.05)}. Against it: ${that((value) => value < -0.05)}.`;
}

function showEvidence(seen, match) {
  const { left, right, evidence, sign, similarity } = match;
  const odds = Object.keys(ODDS).filter((name) => typeof evidence[name] === "number").map((name) => [name, evidence[name]]);
  const most = Math.max(1, ...odds.map(([, value]) => Math.abs(value)));
  const groups = [
    ["Speaks for it", odds.filter(([, value]) => value > 0.05).sort((a, b) => b[1] - a[1])],
    ["Speaks against it", odds.filter(([, value]) => value < -0.05).sort((a, b) => a[1] - b[1])],
    ["Says nothing", odds.filter(([, value]) => Math.abs(value) <= 0.05)],
  ];
  const shown = Object.keys(SHOWN).filter((name) => typeof evidence[name] === "number").map((name) => [name, evidence[name]]);
  const feature = seen.left.columns[left]?.feature;
  const unit = tellUnit(seen, match);
  return [
    h("h3", {}, `${left} and ${right}`),
    h("p", {}, h("b", {}, `${percent(similarity)} sure`), ` that both mean the same${sign < 0 ? ", turned over: the one falls as the other rises" : ""}.`, unit ? ` ${unit}.` : ""),
    odds.length ? null : h("p", { class: "note" }, `Both columns are the same feature, ${feature}: that was known beforehand, so nothing had to be weighed.`),
    groups.map(([title, lines]) => (lines.length ? [h("h4", {}, title), lines.map(([name, value]) => showBar(name, ODDS[name], value, value / most, tellSigned(value), tellOdds(value)))] : null)),
    odds.length && shown.length ? h("h4", {}, "Shown, not counted") : null,
    odds.length ? shown.map(([name, value]) => showBar(name, SHOWN[name], value, value, round(value), `from −1 to 1${name === "predictions" && sign < 0 ? ", and below 0 agrees, as one is turned over" : ""}`)) : null,
    odds.length ? h("p", { class: "note small" }, "Figures are logarithms of odds. They are added up, and weighed against every other partner that either column could have.") : null,
  ];
}

/** One piece of evidence: a bar to the right where it speaks for the match, to the left where against. */
function showBar(name, means, value, part, figure, words) {
  const bar = h("span", { class: value < 0 ? "odds against" : "odds", "aria-hidden": "true" }, h("i", { class: "bar" }));
  bar.style.setProperty("--part", Math.min(1, Math.abs(part)).toFixed(3));
  return h("div", { class: "proof", "data-evidence": name }, h("b", {}, name), bar, h("span", { class: "figure" }, figure), h("span", { class: "note small" }, `${means}; ${words}`));
}

function tellSigned(value) {
  return (value > 0 ? "+" : "") + value.toFixed(1).replace("-", "\u2212");
}

/** Logarithms of odds as people say them. */
function tellOdds(value) {
  const times = Math.exp(Math.abs(value));
  if (times < 1.05) return "as likely either way";
  const often = times > MOST_TIMES ? "over a million" : number(Number(times.toPrecision(2)));
  return `${often} times likelier if they ${value > 0 ? "are" : "are not"} the same`;
}
