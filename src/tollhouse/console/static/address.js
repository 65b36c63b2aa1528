// What the page shows stands in its address, so that it can be linked to, reloaded and gone back from.

/** The parameters now, as texts. */
export function state() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** All values of a parameter that may stand there more than once. */
export const values = (name) => new URLSearchParams(location.search).getAll(name);

/** The address with these changed; an empty value takes a parameter away, a list repeats it. */
export function changed(changes) {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined && one !== "") next.append(name, one);
  }
  const text = next.toString();
  return location.pathname + (text ? `?${text}` : "");
}

/** Go there without loading the page again. */
export function go(changes, { replace = false } = {}) {
  const url = changed(changes);
  if (url === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  dispatchEvent(new Event("addresschange"));
}

/** Run this now, and whenever the address changes. */
export function following(show) {
  addEventListener("addresschange", show);
  addEventListener("popstate", show);
  show();
}

/** Links inside this page that only change its address. */
export function here(link, changes) {
  link.setAttribute("href", changed(changes));
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(changes);
  });
  return link;
}
