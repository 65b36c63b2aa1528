// What the parts of the operator's page share: their requests, tables and errors.
import { byId, el, fill } from "./dom.js";
import { errorNotice, lasted } from "./format.js";
import { call } from "./server.js";

export const fetchPart = async (path, options = {}) => (await call("", `/operator/api/${path}`, options)).members;

/** A duration in its largest unit, from seconds on. */
export const seconds = (value) => (value < 120 ? `${Math.round(value)} s` : lasted(value));

/** A caller's name for a list: a key's label, a wallet's shortened address, an id, or a network. */
export const callerName = (one) => (/^0x[0-9a-fA-F]{40}$/.test(one.name) ? `${one.name.slice(0, 6)}…${one.name.slice(-4)}` : one.name || one.caller);

/** Show a part, or its error with a button to try again in its place. */
export async function part(id, show) {
  try {
    await show();
  } catch (error) {
    if (!error.problem) throw error;
    fill(byId(id), errorNotice(error, () => part(id, show)));
  }
}

/** A table that scrolls by itself. A head is `[text, class of its cells]`. */
export function table(label, heads, rows, none = "Nothing yet.", kind = "") {
  if (!rows.length) return el("p", { class: "dim small" }, none);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, el("table", { class: `op-table ${kind}` },
    el("thead", {}, el("tr", {}, heads.map(([text, name]) => el("th", { scope: "col", class: name || null }, text || el("span", { class: "unseen" }, "Action"))))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, at) => el("td", { class: heads[at][1] || null }, cell || cell === 0 ? cell : "")))))));
}
