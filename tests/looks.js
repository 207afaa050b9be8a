// What test_page_looks.py measures in the page; each function gives a list, empty if all is well.

const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], ground) => [r, g, b].map((part, i) => part * a + ground[i] * (1 - a));
const light = (colour) => {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => {
  const [high, low] = [light(a), light(b)].sort((one, other) => other - one);
  return (high + 0.05) / (low + 0.05);
};
const groundOf = (element) => {
  if (!element) return [255, 255, 255];
  const colour = rgba(getComputedStyle(element).backgroundColor);
  return colour[3] === 1 ? colour.slice(0, 3) : over(colour, groundOf(element.parentElement));
};
const opacityOf = (element) => (element ? Number(getComputedStyle(element).opacity) * opacityOf(element.parentElement) : 1);
const check = (element, colour, text) => {
  if (!element.checkVisibility({ visibilityProperty: true }) || element.closest(":disabled, .unseen, .skip, option, title, datalist")) return null;
  const style = getComputedStyle(element);
  const size = parseFloat(style.fontSize);
  const [r, g, b, a] = rgba(colour);
  const ground = groundOf(element);
  const found = ratio(over([r, g, b, a * opacityOf(element)], ground), ground);
  const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  return found < least ? `${found.toFixed(2)} ${text.trim().slice(0, 40)}` : null;
};

/** Text too near in colour to its ground: WCAG's ratio, 4.5, for large text 3; what is disabled may be pale. */
function pale() {
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) => (node.data.trim() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP));
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    found.add(check(element, element instanceof SVGElement ? style.fill : style.color, walker.currentNode.data));
  }
  for (const field of document.querySelectorAll("input, select")) {
    const isEmpty = field.value === "" && field.placeholder;
    found.add(check(field, getComputedStyle(field, isEmpty ? "::placeholder" : null).color, `${field.id} ${isEmpty ? field.placeholder : field.value}`));
  }
  found.delete(null);
  return [...found];
}

function headings() {
  return [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]));
}

/** What sticks out of the window to the right, but for what can be scrolled there. */
function wide() {
  const isOut = (one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, .unseen, .skip, svg");
  return [...document.querySelectorAll("body *")].filter(isOut).map((one) => `${one.tagName} ${one.className}: ${one.textContent.slice(0, 40)}`);
}

/** Letters in drawings, as tall as they come out on the screen, that nobody can read. */
function tiny() {
  const size = (one) => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a;
  const shown = [...document.querySelectorAll("main svg text")].filter((one) => one.checkVisibility() && one.textContent);
  return shown.filter((one) => size(one) > 0 && size(one) < 10).map((one) => `${size(one)} ${one.textContent}`);
}

/** Letters that reach beyond their drawing. */
function cut() {
  return [...document.querySelectorAll("main svg text")].filter((one) => {
    const [own, box] = [one.getBoundingClientRect(), one.ownerSVGElement.getBoundingClientRect()];
    return own.width && (own.left < box.left - 1 || own.right > box.right + 1);
  }).map((one) => one.textContent);
}
