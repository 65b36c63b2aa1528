// A table of any kind: what the address asks for, as cards; one item over them. What its fields are, the page says.
import { here, state, values } from "../address.js";
import { byId, el, fill } from "../dom.js";
import { asking, showListPage } from "../list_page.js";
import { addressOf, facts, query } from "../server.js";
import { showFilters } from "./filters.js";
import { itemInside, told } from "./item.js";

const MOST_COUNTED = 12;
const MOST_TOLD = 5;
const LONGEST_TOLD = 120;
const { service, fields } = facts;
const counts = fields.filter((field) => field.is_counted).slice(0, MOST_COUNTED);
const title = fields.find((field) => field.name === facts.title_field);

for (const field of fields.filter((one) => one.is_ordered)) {
  byId("sort").append(el("option", { value: field.name }, `${field.label}, smallest first`), el("option", { value: `-${field.name}` }, `${field.label}, largest first`));
}
showListPage({
  service, noun: "item", name: "item", asked,
  list: (members) => {
    showFilters(byId("facets"), fields, members.facets || {});
    showFiles(members.total);
    return members.items.map(card);
  },
  inside: (id) => itemInside(service, id, fields, { title, nameOf }),
});

/** What stands in the address, as parameters of the operation. */
function filters() {
  const given = state();
  const ends = fields.filter((field) => field.is_ranged).flatMap(({ name }) => [`min_${name}`, `max_${name}`]);
  return { q: given.q, ...Object.fromEntries(fields.filter((field) => field.is_filtered).map(({ name }) => [name, values(name)])),
    ...Object.fromEntries(ends.map((name) => [name, given[name]])) };
}

function asked() {
  const { path, page } = asking("/api/items");
  return path + query({ ...filters(), ...page, facets: counts.map((field) => field.name).join(",") });
}

function card(item) {
  const isTold = (field) => field !== title && field.is_shown && field.type !== "json" && item[field.name] !== null && String(item[field.name]).length < LONGEST_TOLD;
  return el("li", { class: "card" }, el("h3", {}, here(el("a", {}, nameOf(item)), { item: item.id })),
    fields.filter(isTold).slice(0, MOST_TOLD).map((field) => el("p", { class: "small" }, el("span", { class: "dim" }, `${field.label}: `), told(field, item[field.name]))));
}

function nameOf(item) {
  return String((title && item[title.name]) ?? item.id);
}

function showFiles(total) {
  if (!facts.has_files || !total) return fill(byId("files"));
  const link = (ending) => el("a", { href: `${addressOf(service)}/api/items.${ending}${query(filters())}`, download: `${service}.${ending}` }, ending.toUpperCase());
  return fill(byId("files"), "All that these filters leave, as a file (one request): ", ["csv", "ndjson", "json"].flatMap((ending, at) => [at > 0 && " · ", link(ending)]));
}
