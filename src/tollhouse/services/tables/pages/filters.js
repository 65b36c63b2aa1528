// The filters of a table, one for each filtered field.
import { el } from "../dom.js";
import { choices, fillFilters, range } from "../list_filters.js";
import { money, number } from "../format.js";

const FIRST = 8;

export function showFilters(place, fields, facets) {
  const filtered = fields.filter((field) => field.is_filtered);
  const groups = filtered.map((field) => group(field, facets[field.name])).filter(Boolean);
  const rest = groups.slice(FIRST);
  const isOpen = place.querySelector("details.rest")?.open;
  fillFilters(place, filtered.flatMap(({ name }) => [name, `min_${name}`, `max_${name}`]), [...groups.slice(0, FIRST),
    rest.length > 0 && el("details", { class: "rest", open: isOpen }, el("summary", {}, `${rest.length} more filters`), rest)]);
}

function group(field, facet) {
  const counts = Array.isArray(facet) ? facet : [];
  if (field.is_ranged) return range(field.name, field.label, { spread: Array.isArray(facet) ? null : facet, unit: unitOf(field), isDay: ["date", "moment"].includes(field.type), reads: readingOf(field) });
  return counts.length > 0 ? choices(field.name, field.label, counts, field.type === "boolean" ? (value) => (value ? "yes" : "no") : String) : null;
}

/** Empty for a column whose header names the unit, such as "Price (€)". */
function unitOf(field) {
  return /\(.+\)$/.test(field.label) ? "" : field.unit;
}

const readingOf = (field) => (field.type === "money" && field.unit ? (value) => money(value, field.unit) : number);
