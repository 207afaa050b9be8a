// Elements without markup in strings: nothing that a table holds can become part of the page's code.

const SVG = "http://www.w3.org/2000/svg";

/** An element: h("p", { class: "note", onclick: f }, "text", otherElement). Null and false children are left out. */
export function h(name, attributes = {}, ...children) {
  return put(document.createElement(name), attributes, children);
}

/** The same for a part of a drawing. */
export function s(name, attributes = {}, ...children) {
  return put(document.createElementNS(SVG, name), attributes, children);
}

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put these in the place of all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Say something to those who do not see the page change. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** A drawing that is read out as one picture, with its description. */
export function picture(width, height, description, attributes, ...children) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description, ...attributes }, ...children);
}

/** How wide a drawing can be: as wide as wished, or as the screen has room for, so that its letters keep their size. */
export function roomFor(most, margin = 60) {
  return Math.max(260, Math.min(most, document.getElementById("main").clientWidth - margin));
}

/** A select of these options; an option is a text, or { value, label }. */
export function choice(id, options, chosen, onchange) {
  const made = options.map((option) => {
    const { value, label } = typeof option === "object" ? option : { value: option, label: option };
    return h("option", { value, selected: value === chosen }, label);
  });
  return h("select", { id, onchange }, made);
}

/** Do the work now; if asked again meanwhile, once more afterwards, and no more often than that. */
export function latest(work) {
  let running = false;
  let again = false;
  return async function go() {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await work();
      }
    } finally {
      running = false;
    }
  };
}

/** What every view that needs a model says where there is none. */
export function noModel() {
  return h("p", { class: "note" }, "No model is served yet. Publish a bundle, then come back.");
}

/** What went wrong, readable, with the cells it is about. */
export function trouble(error) {
  const cells = (error.errors ?? []).slice(0, 10).map(({ row, column, message }) => {
    const where = [row === null ? null : `row ${row + 1}`, column ? `column ${column}` : null].filter(Boolean).join(", ");
    return h("li", {}, where ? h("b", {}, `${where}: `) : null, message);
  });
  const more = (error.total ?? cells.length) - cells.length;
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("p", {}, h("b", {}, error.title ?? "That did not work"), ". ", cells.length ? null : error.message),
    cells.length ? h("ul", {}, cells, more > 0 ? h("li", {}, `and ${more} more`) : null) : null,
  );
}
