// Building the page out of elements. Text from anywhere only ever becomes text, never markup.

/** An element with attributes, listeners (`onclick: f`) and children; null and false children are left out. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const byId = (id) => document.getElementById(id);

/** Put these children in place of what is there. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
}

/** Tell a screen reader what happened. */
export function say(text) {
  byId("said").textContent = text;
}

/** A link to another site: it learns nothing of where the reader came from. Anything but http(s) is plain text. */
export function outside(url, text) {
  if (!/^https?:\/\//i.test(url)) return el("span", {}, text || url);
  return el("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, text || url);
}

/** A button that copies what `text()` gives, and says so. */
export function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", async () => {
    await copy(text());
    button.textContent = "Copied";
    say("Copied");
    setTimeout(() => { button.textContent = label; }, 1800);
  });
  return button;
}

async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      return await navigator.clipboard.writeText(text);
    } catch {
      // Refused by the browser: the way of old.
    }
  }
  const box = el("textarea", { class: "unseen" }, text);
  document.body.append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}

/** A command to paste, with its copy button. */
export function snippet(text, label) {
  return el("div", { class: "snippet" }, el("pre", { tabindex: "0", "aria-label": label }, el("code", {}, text)), copyButton(() => text));
}

/** Show these children in a dialog; `onclose` runs once when it goes away, however that happens. */
export function showDialog(title, children, onclose = () => {}) {
  closeDialog();
  const heading = el("h2", { id: "dialog-title", tabindex: "-1" }, title);
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" },
    el("button", { type: "button", class: "quiet close", onclick: () => dialog.close() }, "Close"),
    el("div", { class: "inside" }, heading, children));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (!dialog.dataset.replaced) onclose();
  });
  document.body.append(dialog);
  dialog.showModal();
  heading.focus();
  return dialog;
}

/** Take the open dialog away, if there is one, as a part of showing something else. */
export function closeDialog() {
  const open = document.querySelector("dialog[open]");
  if (!open) return;
  open.dataset.replaced = "yes";
  open.close();
  open.remove();
}

/** Name and number facts in a row. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value, kind]) =>
    el("div", {}, el("dt", {}, name), el("dd", { class: kind || null }, value))));
}

/** Horizontal bars, longest first as given: `{name, value, shown, kind, chosen, onclick}`. A bar with onclick is a button; one of `most` is a full one. */
export function bars(rows, { wide = false, label, most = Math.max(...rows.map((row) => row.value), 1e-9) } = {}) {
  return el("ul", { class: wide ? "bars wide" : "bars", "aria-label": label }, rows.map((row) => {
    const fillBar = el("div", { class: `fill ${row.kind || ""}` });
    fillBar.style.width = `${(100 * row.value) / most}%`;
    const parts = [el("span", {}, row.name), el("span", { class: "track", "aria-hidden": "true" }, fillBar),
      el("span", { class: "amount" }, row.shown ?? String(row.value))];
    const line = row.onclick
      ? el("button", { type: "button", "aria-pressed": String(Boolean(row.chosen)), onclick: row.onclick }, parts)
      : el("div", {}, parts);
    return el("li", {}, line);
  }));
}
