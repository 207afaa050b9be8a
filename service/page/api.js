// Calls of the service this page came from, and of no other place.

const KEY = "tabglot-key";
let asking = null;

/** An answer that is a problem (RFC 9457), or no answer at all. */
class Problem extends Error {
  constructor(status, { title, detail, errors, errors_in_all: total } = {}) {
    super(detail ?? "");
    this.status = status;
    this.title = title ?? "The service did not answer";
    this.errors = errors ?? [];
    this.total = total ?? this.errors.length;
  }
}

/** GET as JSON; undefined parameters are left out. */
export function get(path, parameters = {}) {
  return json(withQuery(path, parameters), {});
}

/** POST or PUT an object, get one back. */
export function send(path, body, method = "POST") {
  return json(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** POST a file's bytes; the answer as it is. */
export function sendFile(path, parameters, body, mediaType, accept, signal) {
  const headers = { "content-type": mediaType, accept };
  return ask(withQuery(path, parameters), { method: "POST", headers, body, signal });
}

function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

async function json(path, options) {
  return (await ask(path, options)).json();
}

async function ask(path, options) {
  const response = await reach(path, options);
  if (response.status === 401) {
    await askForKey(Boolean(key()));
    return ask(path, options);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function reach(path, options) {
  const headers = { ...options.headers, ...(key() ? { authorization: `Bearer ${key()}` } : {}) };
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "It cannot be reached. Is it still running?" });
  }
}

async function problemOf(response) {
  try {
    return new Problem(response.status, await response.json());
  } catch {
    return new Problem(response.status, { title: `The service answered ${response.status}` });
  }
}

function key() {
  return sessionStorage.getItem(KEY);
}

/** Ask for a key, once for all calls that wait for one. */
export function askForKey(wasRefused = false) {
  asking ??= new Promise((resolve, reject) => {
    const dialog = document.getElementById("ask-key");
    const text = document.getElementById("key-text");
    if (wasRefused) document.getElementById("ask-key-why").textContent = "The service did not accept this key. Try another.";
    text.value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        if (dialog.returnValue !== "ok") return reject(new Problem(401, { title: "A key is needed", detail: "Without one there is no answer." }));
        // A header takes no other characters: such a key cannot be the right one, and is sent as none.
        sessionStorage.setItem(KEY, /^[\x21-\x7e]+$/.test(text.value.trim()) ? text.value.trim() : "-");
        document.getElementById("key").hidden = false;
        document.getElementById("api").hidden = true; // a link sends no key
        resolve();
      },
      { once: true },
    );
  });
  return asking;
}
