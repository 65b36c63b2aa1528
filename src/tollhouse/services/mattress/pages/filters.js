// The filters of the mattress search, each value with its count under the other filters.
import { go, state } from "../address.js";
import { el } from "../dom.js";
import { money, number } from "../format.js";
import { choices, fillFilters, range } from "../list_filters.js";
import { withFilter } from "./chips.js";
import { FILTERS, LISTS } from "./parameters.js";
import { shopName } from "./shops.js";

export const COUNTED = [...LISTS, "price", "firmness", "cooling", "availability"].join(",");
const NAMES = { size: "Size", material: "Material", sleep_position: "Sleep position", brand: "Brand", retailer: "Shop" };
// In the order of their width, not of their counts.
const SIZES = ["Single", "King Single", "Double", "Queen", "King", "Super King"];
const SCALES = { firmness: ["Firmness", 10, "1 soft, 10 firm"], cooling: ["Cooling", 5, "5 coolest"] };

/** The filters, with those that were read from the search text set as well; changing one makes parameters of them all. */
export function showFacets(place, members) {
  const { facets, applied_filters: applied } = members;
  fillFilters(place, FILTERS, [
    range("price", "Price", { spread: facets.price, unit: "AUD", reads: money }), listing("size", offered(facets, "size")), switches(facets.availability || []), scale("firmness", facets.firmness),
    listing("material", facets.material), scale("cooling", facets.cooling), listing("sleep_position", facets.sleep_position), listing("retailer", facets.retailer), listing("brand", facets.brand),
  ]);
  for (const name of Object.keys(applied.understood?.words || {})) {
    if (LISTS.includes(name)) setList(place, members, name);
    else if (FILTERS.includes(name)) setSingle(place, name, applied[name]);
  }
}

function setList(place, members, name) {
  const chosen = members.applied_filters[name].map((value) => value.toLowerCase());
  const boxes = [...place.querySelectorAll(`[id^="${name}-"]`)];
  boxes.forEach((box, at) => {
    const { value } = offered(members.facets, name)[at];
    box.checked = chosen.includes(value.toLowerCase());
    box.addEventListener("change", (event) => {
      event.stopImmediatePropagation();
      go(withFilter(members, name, offered(members.facets, name).filter((_, other) => boxes[other].checked).map((one) => one.value)));
    }, { capture: true });
  });
}

function setSingle(place, name, value) {
  const [base, end] = name.endsWith("_price") ? name.split("_").reverse() : [];
  const field = place.querySelector(`#${base ? `${end}-${base}` : name}`);
  if (field?.type === "checkbox") field.checked = value === true;
  else if (field) field.value = String(value);
}

const offered = (facets, name) => (name === "size" ? (facets.size || []).toSorted((one, other) => SIZES.indexOf(one.value) - SIZES.indexOf(other.value)) : facets[name]);

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
