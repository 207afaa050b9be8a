// Models: what is served now, which versions there are, how good each is, and the switch between them.

import { get, send } from "./api.js";
import { tellServed } from "./app.js";
import { choice, fill, h, say, trouble } from "./dom.js";
import { cell, count, number, percent } from "./format.js";

export async function show(place) {
  const { models, active } = await get("models");
  const told = h("div", {});
  const details = h("div", { id: "model-details" });
  const title = h("h1", {}, "Models");
  if (!models.length) {
    return fill(place, title, h("p", { class: "note" }, "No model has been published yet. ", h("code", {}, "python -m service publish BUNDLE_DIR"), " publishes one; so does POST /models."));
  }
  const rows = models.map((model) => showLine(model, active, { use: () => use(model, active, place, told), see: () => showDetails(model, details) }));
  const head = ["model", "published", "fitted", "features", "preset", "seed", "beats the trivial guess in", ""].map((name) => h("th", {}, name));
  fill(
    place,
    title,
    h("p", {}, active ? ["Served now: ", h("b", { id: "active" }, active), "."] : "None of these is served now."),
    told,
    h("div", { class: "panel scroll", tabindex: 0, role: "region", "aria-label": "Published models" }, h("table", { id: "models" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))),
    details,
  );
  showDetails(models.find((model) => model.active) ?? models[0], details);
}

function showLine(model, active, { use, see }) {
  const measured = metricsOf(model);
  const better = measured.filter(isBetter).length;
  return h(
    "tr",
    { "data-model": model.model },
    h("th", { scope: "row" }, model.model, " ", model.active ? h("span", { class: "tag on" }, "served") : null),
    h("td", {}, when(model.published)),
    h("td", {}, when(model.created)),
    h("td", { class: "n" }, model.features.length),
    h("td", {}, model.preset),
    h("td", { class: "n" }, model.seed),
    h("td", {}, measured.length ? `${better} of ${measured.length} columns` : "not measured"),
    h(
      "td",
      { class: "acts" },
      model.active ? null : h("button", { type: "button", onclick: use }, verb(model, active)),
      h("button", { type: "button", class: "quiet", onclick: see, "aria-label": `Figures of ${model.model}` }, "Figures"),
    ),
  );
}

/** An older version of what is served is rolled back to; anything else is switched to. */
function verb(model, active) {
  const [name, version] = (active ?? "").split("@");
  return model.name === name && model.version < Number(version) ? "Roll back" : "Serve this";
}

async function use(model, active, place, told) {
  try {
    await send("models/active", { model: model.model }, "PUT");
    await tellServed();
    await show(place);
    say(`${model.model} is served now${active ? `, ${active} no more` : ""}.`);
  } catch (error) {
    fill(told, trouble(error));
  }
}

function metricsOf(model) {
  return model.metrics.held_out ?? [];
}

/** Errors shall be small, shares of right answers large. */
function isBetter({ metric, value, trivial }) {
  return metric === "accuracy" ? value > trivial : value < trivial;
}

function showDetails(model, place) {
  const measured = metricsOf(model);
  const title = h("h2", {}, `${model.model}: each column, on rows it was not fitted on`);
  if (!measured.length) return fill(place, h("section", { class: "panel" }, title, h("p", { class: "note" }, "The bundle has no figures.")));
  const tables = [...new Set(measured.map(({ table }) => table))];
  const body = h("tbody", {});
  const picked = choice("metrics-table", [{ value: "", label: "all tables" }, ...tables], "", () => draw());
  function draw() {
    const chosen = measured.filter(({ table }) => !picked.value || table === picked.value);
    fill(body, chosen.map(showMetric));
  }
  draw();
  const head = ["table", "column", "kind", "rows", "measure", "the model", "trivial guess", "how much better"].map((name, i) => h("th", { class: i === 3 || i === 5 || i === 6 ? "n" : "" }, name));
  return fill(
    place,
    h(
      "section",
      { class: "panel" },
      title,
      h("p", { class: "note small" }, "The trivial guess is the table's own mean, or its most frequent value. Numbers: root mean squared error, the smaller the better. Words and levels: the share of right answers. ", count(measured.filter((one) => !isBetter(one)).length, "column is", "columns are"), " not better than it."),
      h("p", {}, h("label", {}, "Table ", picked)),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures of each column" }, h("table", { id: "metrics" }, h("thead", {}, h("tr", {}, head)), body)),
    ),
  );
}

function showMetric(one) {
  const { table, column, kind, metric, value, trivial, rows } = one;
  const gain = metric === "accuracy" ? (trivial < 1 ? (value - trivial) / (1 - trivial) : 0) : trivial > 0 ? 1 - value / trivial : 0;
  const bar = h("i", {});
  bar.style.setProperty("--part", Math.max(0, Math.min(1, gain)));
  const show = (figure) => (metric === "accuracy" ? percent(figure, 1) : kind === "datetime" ? `${number(figure, 3)} days` : number(figure));
  return h(
    "tr",
    {},
    h("td", {}, table),
    h("td", {}, column),
    h("td", {}, kind),
    h("td", { class: "n" }, cell(rows)),
    h("td", {}, metric),
    h("td", { class: "n" }, show(value)),
    h("td", { class: "n" }, show(trivial)),
    h("td", {}, isBetter(one) ? [h("span", { class: "bars", "aria-hidden": "true" }, bar), ` ${percent(gain)} of the error gone`] : h("span", { class: "worse" }, "not better")),
  );
}

function when(text) {
  const moment = new Date(text);
  return Number.isNaN(moment.getTime()) ? text : moment.toISOString().slice(0, 16).replace("T", " ");
}
