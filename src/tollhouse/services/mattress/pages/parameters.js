// The filters that the address of the page may carry, and how each reads.
import { state, values } from "../address.js";
import { money } from "../format.js";
import { shopName } from "./shops.js";

/** Filters with several values that the page offers with counts. */
export const LISTS = ["size", "material", "sleep_position", "brand", "retailer"];
/** Filters that only a search text or a link sets. */
const OTHERS = [...LISTS, "tag", "availability"].map((name) => `${name}_not`).concat("tag", "availability", "text", "text_not", "sleep_position_all");
const SINGLE = ["min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "cooling_max", "in_stock", "on_sale"];
export const FILTERS = [...LISTS, ...OTHERS, ...SINGLE];

const RANGES = {
  min_price: (value) => `from ${money(value)}`, max_price: (value) => `up to ${money(value)}`,
  firmness_min: (value) => `firmness from ${value}`, firmness_max: (value) => `firmness up to ${value}`,
  cooling_min: (value) => `cooling from ${value}`, cooling_max: (value) => `cooling up to ${value}`,
  in_stock: (value) => (value ? "in stock" : "not in stock"), on_sale: (value) => (value ? "on sale" : "not on sale"),
};

/** The search in the address as parameters of the API: words, filters, order and page. */
export function asked() {
  const given = state();
  const several = Object.fromEntries([...LISTS, ...OTHERS].map((name) => [name, values(name).filter(Boolean)]));
  const single = Object.fromEntries([...SINGLE, "q", "sort", "offset"].map((name) => [name, given[name] || ""]));
  return Object.fromEntries(Object.entries({ ...several, ...single }).filter(([, value]) => value.length));
}

/** A filter as a person reads it: `max_price`, 900 is "up to $900". */
export function reading(name, value) {
  if (RANGES[name] && (name.startsWith("in_") || name.startsWith("on_") || Number.isFinite(Number(value)))) return RANGES[name](value);
  if (RANGES[name]) return `${name.replace("_", " ")}: ${value}`;
  const [base, isNot] = name.endsWith("_not") ? [name.slice(0, -4), true] : [name, false];
  return `${isNot ? "not " : ""}${base === "retailer" ? shopName(value) : value}`;
}
