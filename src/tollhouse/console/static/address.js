// The state of a page is in its address, so that links, reload and back work.

/** The parameters of the address. */
export function state() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** All values of a parameter that can be repeated. */
export const values = (name) => new URLSearchParams(location.search).getAll(name);

/** The address with these parameters changed. An empty value removes a parameter, a list repeats it. */
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
export function onAddress(show) {
  addEventListener("addresschange", show);
  addEventListener("popstate", show);
  show();
}

/** Make a link that only changes the address of this page. */
export function pageLink(link, changes) {
  link.setAttribute("href", changed(changes));
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(changes);
  });
  return link;
}
