// The facets of a table beside its rows: values with their counts, and the spread of numbers, each under the other filters.
import { el } from "../dom.js";
import { choices, fillFilters, range } from "../list_filters.js";
import { money, number } from "../format.js";
import { heading } from "./cells.js";
import { parametersOf } from "./query.js";

const FIRST = 6;

export function showFacets(place, fields, facets) {
  const groups = fields.map((field) => group(field, facets[field.name])).filter(Boolean);
  const rest = groups.slice(FIRST);
  const isOpen = place.querySelector("details.rest")?.open;
  fillFilters(place, ["q", ...fields.flatMap(parametersOf)], [...groups.slice(0, FIRST),
    rest.length > 0 && el("details", { class: "rest", open: isOpen }, el("summary", {}, `${rest.length} more filters`), rest)]);
}

function group(field, facet) {
  const { label, unit } = heading(field);
  if (!facet) return null;
  if (Array.isArray(facet)) return facet.length > 0 ? choices(field.name, label, facet, field.type === "boolean" ? (value) => (value ? "yes" : "no") : String) : null;
  return field.is_ranged ? range(field.name, label, { spread: facet, unit, reads: field.type === "money" && field.unit ? (value) => money(value, field.unit) : number }) : null;
}
