// Builds elements. Text always becomes text, never markup.

const root = document.documentElement.dataset.root;

/** A path of this host, below the path at which its root is mounted. */
export const rooted = (path) => (root && /^\/(?!\/)/.test(path) && path !== root && !path.startsWith(`${root}/`) ? root + path : path);

/** An element with attributes, listeners (`onclick: f`) and children; null and false children are skipped. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : LINKS.has(name) ? rooted(value) : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

const LINKS = new Set(["href", "src", "action"]);

export const byId = (id) => document.getElementById(id);

/** Replace the children of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
}

/** Announce a text to screen readers. */
export function announce(text) {
  byId("said").textContent = text;
}

/** A link to another site, without a referrer. Any scheme except http(s) becomes plain text. */
export function externalLink(url, text) {
  if (!/^https?:\/\//i.test(url)) return el("span", {}, text || url);
  return el("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, text || url);
}

/** A button that copies the result of `text()`. */
export function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", async () => {
    await copy(text());
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => { button.textContent = label; }, 1800);
  });
  return button;
}

async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      return await navigator.clipboard.writeText(text);
    } catch {
      // Not permitted: use the older API.
    }
  }
  const box = el("textarea", { class: "unseen" }, text);
  // Outside the drawer that is open, nothing can be selected.
  ([...document.querySelectorAll("dialog[open]")].at(-1) || document.body).append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}

/** A block of code with a copy button. */
export function snippet(text, label) {
  return el("div", { class: "snippet" }, el("pre", { tabindex: "0", "aria-label": label }, el("code", {}, text)), copyButton(() => text));
}

/** Pairs of a name and a value, in a row. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value, kind]) =>
    el("div", {}, el("dt", {}, name), el("dd", { class: kind || null }, value))));
}

/** Horizontal bars, longest first as given: `{name, value, shown, kind, chosen, onclick}`. A bar with onclick is a button; one of `most` is a full one. */
export function bars(rows, { wide = false, label, most = Math.max(...rows.map((row) => row.value), 1e-9) } = {}) {
  return el("ul", { class: wide ? "bars wide" : "bars", "aria-label": label }, rows.map((row) => {
    const fillBar = el("div", { class: `fill ${row.kind || ""}`, hidden: row.value === 0 });
    fillBar.style.width = `${(100 * row.value) / most}%`;
    const parts = [el("span", {}, row.name), el("span", { class: "track", "aria-hidden": "true" }, fillBar),
      el("span", { class: "amount" }, row.shown ?? String(row.value))];
    const line = row.onclick
      ? el("button", { type: "button", "aria-pressed": String(Boolean(row.chosen)), onclick: row.onclick }, parts)
      : el("div", {}, parts);
    return el("li", {}, line);
  }));
}
