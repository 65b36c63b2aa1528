// Suggestions for a search text: values of filters, then products.
import { call, query } from "../server.js";
import { number } from "../format.js";
import { loadShops, shopName } from "./shops.js";

const KINDS = { brand: "Brand", retailer: "Shop", size: "Size", material: "Material", sleep_position: "Sleep position", tags: "Feature", availability: "Availability" };

/** The parameter of the list for a field of a suggestion. */
export const parameterOf = (field) => (field === "tags" ? "tag" : field);

export async function suggestions(text) {
  const [{ members }] = await Promise.all([call("mattress", `/api/suggest${query({ q: text.slice(0, 500), limit: 8 })}`), loadShops()]);
  return members.suggestions.map(({ text: value, id, field, count }) => ({
    id, field, value, text: field === "retailer" ? shopName(value) : value, note: id ? "" : `${KINDS[field] || field} · ${number(count)}`,
  }));
}
