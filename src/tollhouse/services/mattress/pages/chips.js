// The filters that apply, from the address and from the search text, each with a button that removes it.
import { go, state } from "../address.js";
import { el, fill } from "../dom.js";
import { money } from "../format.js";
import { shopName } from "./filters.js";

const RANGES = {
  min_price: (value) => `from ${money(value, "AUD")}`, max_price: (value) => `up to ${money(value, "AUD")}`,
  firmness_min: (value) => `firmness from ${value}`, firmness_max: (value) => `firmness up to ${value}`,
  cooling_min: (value) => `cooling from ${value}`, cooling_max: (value) => `cooling up to ${value}`,
  in_stock: (value) => (value ? "in stock" : "not in stock"), on_sale: (value) => (value ? "on sale" : "not on sale"),
};

/** A button for each value of each filter, and what was not used of the text. */
export function showChips(place, note, applied) {
  const { understood = {}, q: _, ...filters } = applied;
  const conditions = understood.conditions || [];
  const chip = (text, without) => el("button", { type: "button", class: "quiet small", "aria-label": `Remove filter: ${text}`, onclick: () => go(without) }, `${text} ×`);
  fill(place, Object.entries(filters).flatMap(([name, value]) => [value].flat().map((one) =>
    chip(label(name, one), address({ ...filters, [name]: Array.isArray(value) ? value.filter((other) => other !== one) : "" }, understood, conditions)))),
  conditions.map((words) => chip(words, address(filters, understood, conditions.filter((other) => other !== words)))));
  fill(note, notes(understood).join(" · "));
}

/** The address with these filters as parameters; of a text that was read as filters, what they cannot express stays. */
function address(filters, understood, conditions) {
  const isRead = understood.words || understood.conditions;
  return { ...filters, q: isRead ? conditions.join(", ") : state().q, sort: understood.sort || state().sort, offset: "" };
}

function label(name, value) {
  if (RANGES[name]) return RANGES[name](value);
  const [base, isNot] = name.endsWith("_not") ? [name.slice(0, -4), true] : [name, false];
  return `${isNot ? "not " : ""}${base === "retailer" ? shopName(value) : value}`;
}

function notes({ relaxed = [], unused = [], corrected = {} }) {
  return [
    relaxed.length > 0 && `Nothing matches everything, so these were left out: ${relaxed.map((name) => name.replace("_", " ")).join(", ")}`,
    unused.length > 0 && `Not used: ${unused.join(", ")}`,
    Object.keys(corrected).length > 0 && Object.entries(corrected).map(([typed, meant]) => `${typed} read as ${meant}`).join(", "),
  ].filter(Boolean);
}
