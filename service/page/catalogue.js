// What the service knows: its tables and what their columns may hold. Asked for once, and again after a switch of models.

import { get } from "./api.js";

let tables = null;
let columns = new Map();

export function forget() {
  tables = null;
  columns = new Map();
}

/** All tables: [{ table, columns: { name: { feature, kind, ... } }, origin }]. */
export function listTables() {
  tables ??= get("schemas").then((answer) => answer.tables);
  tables.catch(() => (tables = null));
  return tables;
}

/** The columns of a table, or, without one, all features. */
export function listColumns(table) {
  const name = table ?? "";
  if (!columns.has(name)) {
    const asked = get("columns", { table }).then((answer) => answer.columns);
    asked.catch(() => columns.delete(name));
    columns.set(name, asked);
  }
  return columns.get(name);
}

/** The table whose columns a file's header fits best; null if none fits at all. */
export function guessTable(header, known) {
  const share = ({ columns: own }) => header.filter((name) => Object.hasOwn(own, name)).length / Math.max(header.length, 1);
  const best = [...known].sort((a, b) => share(b) - share(a))[0];
  return best && share(best) > 0 ? best.table : null;
}
