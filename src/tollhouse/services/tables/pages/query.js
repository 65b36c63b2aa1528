// The state of a table's page: its parameters in the address, and the query of the API that they make.
import { state, values } from "../address.js";

export const PER_PAGE = 100;
export const LAST_OFFSET = 10_000;

/** The names of the parameters by which a field is filtered. */
export function parametersOf(field) {
  return [field.is_searched && `${field.name}__has`, field.is_filtered && field.name, field.is_ranged && `min_${field.name}`, field.is_ranged && `max_${field.name}`].filter(Boolean);
}

/** The words and filters in the address. */
export function filters(fields) {
  const given = state();
  const query = { q: given.q };
  for (const field of fields) {
    for (const name of parametersOf(field)) query[name] = name === field.name ? values(name) : given[name];
  }
  return query;
}

/** Changes of the address that remove every filter. */
export const withoutFilters = (fields) => Object.fromEntries(["q", "offset", ...fields.flatMap(parametersOf)].map((name) => [name, ""]));

export const isFiltered = (fields) => Object.values(filters(fields)).some((value) => (Array.isArray(value) ? value.length : value));

/** The call that lists one page of rows. */
export function listCall(service, fields, more = {}) {
  const given = filters(fields);
  return { service, path: given.q ? "/api/search" : "/api/items", query: { ...given, sort: state().sort, limit: PER_PAGE, offset: state().offset, ...more } };
}
