// One piece of long work at a time: another one, another view, or its Stop button ends it.

import { h, say } from "./dom.js";

let current = null;

/** Begin work; what was under way ends. Gives { signal, isCurrent, progress }. */
export function beginWork() {
  endWork();
  const control = new AbortController();
  current = control;
  return { signal: control.signal, isCurrent: () => current === control, progress: makeProgress(control) };
}

function endWork() {
  const control = current;
  current = null;
  control?.abort();
}

window.addEventListener("leave", endWork);

/** A bar, what is being done, and a button that stops it. */
function makeProgress(control) {
  const bar = h("progress", { max: 1, "aria-label": "Progress" });
  const words = h("span", {}, "");
  const stop = h("button", { type: "button", class: "quiet", onclick: () => control.abort() }, "Stop");
  const element = h("div", { class: "panel working" }, bar, h("p", { class: "actions" }, words, stop));
  return {
    element,
    /** ``share`` from 0 to 1; null where nobody can tell. */
    tell(share, text) {
      if (share === null) bar.removeAttribute("value");
      else bar.value = share;
      words.textContent = text;
    },
    end(text) {
      element.remove();
      if (text) say(text);
    },
  };
}
