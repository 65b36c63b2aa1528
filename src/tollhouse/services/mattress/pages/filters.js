// The filters of the mattress search, each value with its count.
import { go, state } from "../address.js";
import { el } from "../dom.js";
import { choices, fillFilters, range } from "../list_filters.js";
import { money } from "../format.js";

export const LISTS = ["size", "material", "sleep_position", "brand", "retailer"];
/** Filters that only a search text or a link sets. */
export const OTHERS = [...LISTS, "tag", "availability"].map((name) => `${name}_not`).concat("tag", "availability", "text", "text_not", "sleep_position_all");
export const NUMBERS = ["min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "cooling_max", "in_stock", "on_sale"];
const NAMES = { size: "Size", material: "Material", sleep_position: "Sleeps on", brand: "Brand", retailer: "Retailer" };
const TENTHS = Array.from({ length: 10 }, (_, at) => at + 1);

export function showFacets(place, facets) {
  fillFilters(place, [...LISTS, ...OTHERS, ...NUMBERS], [range("price", "Price", { spread: facets.price, reads: money }), firmness(), cooling(), stock(),
    LISTS.filter((name) => (facets[name] || []).length).map((name) => choices(name, NAMES[name], facets[name], name === "retailer" ? shopName : String))].flat());
}

/** `coastal-kip` -> Coastal Kip: facets contain only the retailer's id. */
export function shopName(id) {
  return id.split("-").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join(" ");
}

function firmness() {
  return el("fieldset", {}, el("legend", {}, "Firmness (1 soft, 10 firm)"),
    el("div", { class: "row" }, [["min", "at least"], ["max", "at most"]].map(([end, text]) => pick(`firmness_${end}`, text, TENTHS, { "aria-label": `Firmness: ${text}` }))));
}

function cooling() {
  return el("div", { class: "field" }, el("label", { for: "cooling_min" }, "Cooling, at least (5 coolest)"), pick("cooling_min", "any", TENTHS.slice(0, 5)));
}

function pick(name, none, numbers, attributes = {}) {
  return el("select", { id: name, ...attributes, onchange: (event) => go({ [name]: event.target.value, offset: "" }) },
    el("option", { value: "" }, none), numbers.map((value) => el("option", { value, selected: state()[name] === String(value) }, value)));
}

function stock() {
  return el("label", { class: "choice", for: "in-stock" }, el("input", { type: "checkbox", id: "in-stock", checked: state().in_stock === "true",
    onchange: (event) => go({ in_stock: event.target.checked ? "true" : "", offset: "" }) }), "In stock only");
}
