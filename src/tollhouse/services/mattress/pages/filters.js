// The filters of the mattress search, each value with its count under the other filters.
import { go, state } from "../address.js";
import { el } from "../dom.js";
import { money, number } from "../format.js";
import { choices, fillFilters, range } from "../list_filters.js";
import { FILTERS, LISTS } from "./parameters.js";
import { shopName } from "./shops.js";

export const COUNTED = [...LISTS, "price", "firmness", "cooling", "availability"].join(",");
const NAMES = { size: "Size", material: "Material", sleep_position: "Sleep position", brand: "Brand", retailer: "Shop" };
// In the order of their width, not of their counts.
const SIZES = ["Single", "King Single", "Double", "Queen", "King", "Super King"];
const SCALES = { firmness: ["Firmness", 10, "1 soft, 10 firm"], cooling: ["Cooling", 5, "5 coolest"] };

export function showFacets(place, facets) {
  const sizes = (facets.size || []).toSorted((one, other) => SIZES.indexOf(one.value) - SIZES.indexOf(other.value));
  fillFilters(place, FILTERS, [
    range("price", "Price", { spread: facets.price, unit: "AUD", reads: money }), listing("size", sizes), switches(facets.availability || []), scale("firmness", facets.firmness),
    listing("material", facets.material), scale("cooling", facets.cooling), listing("sleep_position", facets.sleep_position), listing("retailer", facets.retailer), listing("brand", facets.brand),
  ]);
}

const listing = (name, counts) => Boolean(counts?.length) && choices(name, NAMES[name], counts, name === "retailer" ? shopName : String);

/** At least and at most on a scale, with how many products each step adds. */
function scale(name, counts = []) {
  const [label, most, meaning] = SCALES[name];
  const count = (from, to) => counts.filter(({ value }) => value >= from && value <= to).reduce((sum, one) => sum + one.count, 0);
  const pick = (end, text, shown) => {
    const id = `${name}_${end}`;
    return el("select", { id, "aria-label": `${label}: ${text}`, onchange: (event) => go({ [id]: event.target.value, offset: "" }) }, el("option", { value: "" }, text),
      Array.from({ length: most }, (_, at) => at + 1).map((value) => el("option", { value, selected: state()[id] === String(value) }, `${end === "min" ? "≥" : "≤"} ${value} (${number(shown(value))})`)));
  };
  return el("fieldset", {}, el("legend", {}, label, el("span", { class: "dim unit" }, ` ${meaning}`)),
    el("div", { class: "row" }, pick("min", "at least", (value) => count(value, most)), pick("max", "at most", (value) => count(1, value))));
}

function switches(availability) {
  const inStock = availability.filter(({ value }) => value === "in stock" || value === "low stock").reduce((sum, one) => sum + one.count, 0);
  const line = (name, text, count) => el("label", { class: "choice", for: name }, el("input", { type: "checkbox", id: name, checked: state()[name] === "true",
    onchange: (event) => go({ [name]: event.target.checked ? "true" : "", offset: "" }) }), text, count !== undefined && el("span", { class: "count" }, number(count)));
  return el("fieldset", {}, el("legend", {}, "Offer"), line("in_stock", "In stock", inStock), line("on_sale", "Reduced price"));
}
