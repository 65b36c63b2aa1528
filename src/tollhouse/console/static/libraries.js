// Loads vendored libraries and data when a page needs them, after its first paint.
import { filesAt } from "./server.js";

const loading = new Map();

/** Load a classic script of this server once; resolves when it has run. `name` is its file without `.min.js`. */
export function loadLibrary(name) {
  return once(name, () => new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = `${filesAt}/${name}.min.js`;
    script.addEventListener("load", done);
    script.addEventListener("error", () => fail(new Error(`${name} could not be loaded`)));
    document.head.append(script);
  }));
}

/** A vendored JSON file, loaded once. */
export const loadData = (name) => once(name, () => fetch(`${filesAt}/${name}`).then((response) => response.json()));

function once(name, start) {
  if (!loading.has(name)) {
    const started = start();
    started.catch(() => loading.delete(name));
    loading.set(name, started);
  }
  return loading.get(name);
}
