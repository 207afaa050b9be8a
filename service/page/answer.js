// One answer: the value, how sure it is, its distribution, and what every column added to it.

import { drawDistribution, showShares } from "./distribution.js";
import { drawSum } from "./experts.js";
import { cell, percent } from "./format.js";
import { h } from "./dom.js";

export function showAnswer(told, row, interval) {
  const [one] = told.predictions;
  const isDate = told.kind === "datetime";
  const isNumber = one.distribution.length > 0 && "low" in one.distribution[0];
  const isContinuous = isNumber && told.kind !== "ordinal";
  return [
    h("h2", {}, told.target),
    h("p", { class: "value", id: "value" }, cell(one.value), " ", h("small", {}, describe(one, interval, isContinuous))),
    warn(told.warnings.map((text) => text.replace(/, in row 0$/, ""))), // there is but one row
    isContinuous ? drawDistribution(one, told.target, interval, isDate) : showShares(inOrder(one, isNumber)),
    one.experts
      ? drawSum(one, row, { target: told.target, isDate, isNumber: isContinuous })
      : h("p", { class: "note small" }, "This network's answers are not exact sums of what the columns say, so there are no reasons to show."),
    h("p", { class: "note small" }, `Answered by ${told.model}.`),
  ];
}

function describe(one, interval, isContinuous) {
  if (!isContinuous) return percent(one.probability, 1);
  const [low, high] = one.interval.map(cell);
  return `${percent(interval)} between ${low} and ${high}`;
}

/** Levels in their order, words with the most probable first (as they come). */
function inOrder(one, isNumber) {
  return isNumber ? one.distribution.map(({ low, probability }) => ({ value: low, probability })) : one.distribution;
}

/** What the service has to remark, if anything. */
export function warn(warnings) {
  const most = 8;
  if (!warnings.length) return null;
  const shown = warnings.slice(0, most).map((text) => h("li", {}, text));
  const more = warnings.length - most;
  return h("div", { class: "warnings" }, h("ul", {}, shown, more > 0 ? h("li", {}, `and ${more} more`) : null));
}
