// Numbers, dates and shares as people read them.

const DAY = 86_400;

/** A number with about so many digits that mean something, and no needless zeros. */
export function number(value, digits = 4) {
  if (!Number.isFinite(value)) return String(value);
  if (value < 0) return `\u2212${number(-value, digits)}`;
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(digits - 1);
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const rounded = Number(value.toFixed(Math.min(decimals, 10)));
  return rounded.toLocaleString("en", { maximumFractionDigits: 10, useGrouping: rounded >= 10_000 });
}

/** A value of the model's as it is shown: numbers rounded, dates with their time if they have one. */
export function cell(value) {
  if (value === null || value === undefined || value === "") return "";
  return typeof value === "number" ? number(value) : asSent(value);
}

/** A cell that was there: all of its digits. */
export function asSent(value) {
  if (value === null || value === undefined) return "";
  return String(value).replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d(:\d\d)?)/, "$1 $2").replace(/^-(?=\d)/, "\u2212");
}

export function signed(value, digits = 4) {
  return (value < 0 ? "\u2212" : "+") + number(Math.abs(value), digits);
}

/** A way to write the terms of a sum: all with as many decimals as the largest needs for four digits. */
export function alike(terms) {
  const largest = Math.max(...terms.map(Math.abs), 1e-9);
  const decimals = Math.max(0, Math.min(8, 3 - Math.floor(Math.log10(largest))));
  const show = (value) => Math.abs(value).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals, useGrouping: largest >= 10_000 });
  return { plain: (value) => (value < 0 ? "\u2212" : "") + show(value), signed: (value) => (value < 0 ? "\u2212" : "+") + show(value) };
}

export function percent(share, digits = 0) {
  if (share < 1 && share > 1 - 0.5 / 10 ** (digits + 2)) return `> ${(100 - 10 ** -digits).toFixed(digits)}\u00a0%`;
  if (share > 0 && share < 0.5 / 10 ** (digits + 2)) return `< ${number(10 ** -digits)}\u00a0%`;
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

/** How rare something is at least: 1 in 250. */
export function rarity(surprise) {
  const one = Math.exp(Math.max(0, surprise));
  if (one > 1e6) return "rarer than 1 in a million";
  return `1 in ${number(Number(one.toPrecision(2)))}`;
}

export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

export function bytes(n) {
  const unit = n < 1e3 ? 0 : n < 1e6 ? 1 : n < 1e9 ? 2 : 3;
  return `${number(n / 1000 ** unit, 3)} ${["bytes", "kB", "MB", "GB"][unit]}`;
}

/** Dates stand on an axis as seconds; numbers as they are. */
export function toAxis(value) {
  return typeof value === "number" ? value : Date.parse(value.length === 10 ? `${value}T00:00Z` : `${value}Z`) / 1000;
}

export function fromAxis(value, isDate) {
  return isDate ? new Date(value * 1000).toISOString().slice(0, 10) : number(value);
}

/** A part of a score as it is read: dates move by days. */
export function inUnit(value, isDate) {
  return isDate ? value / DAY : value;
}
