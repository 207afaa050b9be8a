// What the service remarks on a file that was sent in parts, told once, by rows that count from 1 as people count.

const ROWS = /^(.*, in )(\d+ rows?: |rows? )(\d[\d, ]*)(.*)$/s;

/** Gathers remarks: ``add`` those of a part that so many rows stand before, ``list`` them all. */
export function gatherRemarks() {
  const first = new Map();
  const again = new Set();
  return {
    add(warnings, rowsBefore = 0) {
      for (const text of warnings) {
        const [key, shown] = countFromOne(text, rowsBefore);
        if (first.has(key)) again.add(key);
        else first.set(key, shown);
      }
    },
    list: () => [...first].map(([key, text]) => (again.has(key) ? `${text}; and further on` : text)),
  };
}

function countFromOne(text, rowsBefore) {
  const found = ROWS.exec(text);
  if (!found) return [text, text];
  const [, what, how, rows, rest] = found;
  return [what, what + how + rows.replace(/\d+/g, (row) => String(Number(row) + rowsBefore + 1)) + rest];
}
