// A declared table: matching items as cards, and a dialog with one. The page's facts describe the fields.
import { pageLink, state, values } from "../address.js";
import { byId, el, fill } from "../dom.js";
import { listRequest, showListPage } from "../list_page.js";
import { addressOf, facts, query } from "../server.js";
import { showFilters } from "./filters.js";
import { formatValue, itemDetails } from "./item.js";

const MAX_FACETS = 12;
const MAX_LISTED = 5;
const MAX_LISTED_LENGTH = 120;
const { service, fields } = facts;
const counts = fields.filter((field) => field.is_counted).slice(0, MAX_FACETS);
const title = fields.find((field) => field.name === facts.title_field);

for (const field of fields.filter((one) => one.is_ordered)) {
  byId("sort").append(el("option", { value: field.name }, `${field.label}, ascending`), el("option", { value: `-${field.name}` }, `${field.label}, descending`));
}
showListPage({
  service, noun: "item", name: "item", listPath,
  list: (members) => {
    showFilters(byId("facets"), fields, members.facets || {});
    showFiles(members.total);
    return members.items.map(card);
  },
  details: (id) => itemDetails(service, id, fields, { title, nameOf }),
});

/** The filters in the address, as parameters of the endpoint. */
function filters() {
  const given = state();
  const ends = fields.filter((field) => field.is_ranged).flatMap(({ name }) => [`min_${name}`, `max_${name}`]);
  return { q: given.q, ...Object.fromEntries(fields.filter((field) => field.is_filtered).map(({ name }) => [name, values(name)])),
    ...Object.fromEntries(ends.map((name) => [name, given[name]])) };
}

function listPath() {
  const { path, page } = listRequest("/api/items");
  return path + query({ ...filters(), ...page, facets: counts.map((field) => field.name).join(",") });
}

function card(item) {
  const isListed = (field) => field !== title && field.is_shown && field.type !== "json" && item[field.name] !== null && String(item[field.name]).length < MAX_LISTED_LENGTH;
  return el("li", { class: "card" }, el("h3", {}, pageLink(el("a", {}, nameOf(item)), { item: item.id })),
    fields.filter(isListed).slice(0, MAX_LISTED).map((field) => el("p", { class: "small" }, el("span", { class: "dim" }, `${field.label}: `), formatValue(field, item[field.name]))));
}

function nameOf(item) {
  return String((title && item[title.name]) ?? item.id);
}

function showFiles(total) {
  if (!facts.has_files || !total) return fill(byId("files"));
  const link = (ending) => el("a", { href: `${addressOf(service)}/api/items.${ending}${query(filters())}`, download: `${service}.${ending}` }, ending.toUpperCase());
  return fill(byId("files"), "Download all matching items (one request): ", ["csv", "ndjson", "json"].flatMap((ending, at) => [at > 0 && " · ", link(ending)]));
}
