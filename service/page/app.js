// The page: five views, one at a time, chosen by the address after #.

import { askForKey, get } from "./api.js";
import { forget } from "./catalogue.js";
import { fill, h, say, trouble } from "./dom.js";

const VIEWS = {
  try: ["Try it", () => import("./try.js")],
  fill: ["Fill a file", () => import("./fill.js")],
  audit: ["Audit", () => import("./audit.js")],
  features: ["Features", () => import("./features.js")],
  models: ["Models", () => import("./models.js")],
};
const main = document.getElementById("main");
let shown = 0;
let served = null;

async function show() {
  const name = location.hash.replace(/^#\/?/, "").split("/")[0];
  const [title, load] = Object.hasOwn(VIEWS, name) ? VIEWS[name] : VIEWS.try;
  const turn = ++shown;
  document.title = `${title} · Tabglot`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.textContent === title) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  window.dispatchEvent(new Event("leave")); // work of the view before ends
  const place = h("div", { class: `view view-${name || "try"}`, "aria-busy": "true" }, h("p", { class: "note" }, "One moment…"));
  fill(main, place);
  try {
    const [view] = await Promise.all([load(), tellServed()]);
    if (turn === shown) await view.show(place);
  } catch (error) {
    fill(place, h("h1", {}, title), trouble(error), h("p", {}, h("button", { onclick: show }, "Try again")));
  }
  place.removeAttribute("aria-busy");
  return turn === shown;
}

/** Say at the top of the page which model answers. */
export async function tellServed() {
  const { active } = await get("models");
  if (active !== served) forget(); // what was known of tables and columns was the other model's
  served = active;
  document.getElementById("serving").textContent = active ? `Serving ${active}` : "No model is active";
  return active;
}

window.addEventListener("hashchange", () => {
  if (location.hash === "#main") return; // a place on the page, not another view
  show().then((isStill) => {
    if (!isStill) return; // yet another one was opened meanwhile
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    say(document.title);
  });
});
// A file that is let go beside its place would take the place of the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
document.getElementById("key").addEventListener("click", () => askForKey().then(() => location.reload(), () => null));
document.getElementById("key").hidden = !sessionStorage.getItem("tabglot-key");
document.getElementById("api").hidden = Boolean(sessionStorage.getItem("tabglot-key")); // a link sends no key
show();
