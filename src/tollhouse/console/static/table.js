// A table of any kind: words, filters and order in the address; one item over the list. What its fields are, the page says.
import { following, go, here, state, values } from "./address.js";
import { byId, closeDialog, el, fill, say, showDialog } from "./dom.js";
import { addressOf, callOnce, facts, query } from "./server.js";
import { showFilters } from "./table_filters.js";
import { itemInside, told } from "./table_item.js";
import { counted, number, refusal } from "./words.js";

const PER_PAGE = 24;
const MOST_COUNTED = 12;
const MOST_TOLD = 5;
const { service, fields } = facts;
const counts = fields.filter((field) => field.is_counted).slice(0, MOST_COUNTED);
const title = fields.find((field) => field.name === facts.title_field);
let shown = "";

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ q: byId("q").value.trim(), sort: byId("sort").value, offset: "" });
});
for (const field of fields.filter((one) => one.is_ordered)) {
  byId("sort").append(el("option", { value: field.name }, `${field.label}, smallest first`), el("option", { value: `-${field.name}` }, `${field.label}, largest first`));
}
byId("sort").addEventListener("change", () => go({ sort: byId("sort").value, offset: "" }));
byId("filters").open = matchMedia("(min-width: 60rem)").matches;
following(show);

/** What stands in the address, as parameters of the operation. */
function filters() {
  const given = state();
  const ends = fields.filter((field) => field.is_ranged).flatMap(({ name }) => [`min_${name}`, `max_${name}`]);
  return { q: given.q, ...Object.fromEntries(fields.filter((field) => field.is_filtered).map(({ name }) => [name, values(name)])),
    ...Object.fromEntries(ends.map((name) => [name, given[name]])) };
}

function asked() {
  const given = state();
  const more = { sort: given.sort, offset: given.offset, limit: PER_PAGE, facets: counts.map((field) => field.name).join(",") };
  return (given.q ? "/api/search" : "/api/items") + query({ ...filters(), ...more });
}

async function show() {
  const given = state();
  byId("q").value = given.q || "";
  byId("sort").value = given.sort || "";
  if (asked() !== shown) await showList(asked());
  if (given.item) openItem(given.item);
  else closeDialog();
}

async function showList(path) {
  shown = path;
  try {
    const { members, headers } = await callOnce(service, path);
    if (shown !== path) return;
    fill(byId("trouble"));
    byId("found").textContent = summary(members, headers);
    say(counted(members.total, "item"));
    showFilters(byId("facets"), fields, members.facets || {});
    fill(byId("goods"), members.items.map(card));
    showPages(members);
    showFiles();
  } catch (error) {
    if (!error.problem) throw error;
    shown = "";
    fill(byId("goods"));
    fill(byId("trouble"), error.status === 402 ? allowanceUsed(error) : refusal(error, show));
  }
}

function summary(page, headers) {
  const left = headers.get("x-ratelimit-remaining");
  const isCorrected = Boolean(page.applied_filters.understood);
  return [counted(page.total, "item"), isCorrected && "spelling corrected", left !== null && `${number(Number(left))} free requests left today`].filter(Boolean).join(" · ");
}

function allowanceUsed(error) {
  const isSold = (error.problem.accepts || []).length > 0;
  return el("div", { class: "notice", role: "alert" }, el("p", {}, error.message),
    isSold && el("p", {}, "A program can go on by paying for each request (x402): the answer 402 says how much, to whom and on which chain."),
    el("p", {}, "In these pages it goes on at midnight UTC."),
    el("p", { class: "small" }, el("a", { href: "/problems/payment-required" }, "About this answer")));
}

function card(item) {
  const said = fields.filter((field) => field !== title && field.is_shown && field.type !== "json" && item[field.name] !== null && String(item[field.name]).length < 120).slice(0, MOST_TOLD);
  return el("li", { class: "card" }, el("h3", {}, here(el("a", {}, nameOf(item)), { item: item.id })),
    said.map((field) => el("p", { class: "small" }, el("span", { class: "dim" }, `${field.label}: `), told(field, item[field.name]))));
}

const nameOf = (item) => String((title && item[title.name]) ?? item.id);

function showPages(page) {
  const to = (offset, text) => here(el("a", { class: "button quiet" }, text), { offset: offset > 0 ? String(offset) : "" });
  fill(byId("pages"), page.offset > 0 && to(page.offset - PER_PAGE, "← Earlier"),
    page.count > 0 && el("span", { class: "dim" }, `${number(page.offset + 1)} to ${number(page.offset + page.count)} of ${number(page.total)}`),
    page.offset + page.count < page.total && page.offset + PER_PAGE <= 10000 && to(page.offset + PER_PAGE, "More →"));
}

function showFiles() {
  if (!facts.has_files) return;
  const link = (ending) => el("a", { href: `${addressOf(service)}/api/items.${ending}${query(filters())}`, download: `${service}.${ending}` }, ending.toUpperCase());
  fill(byId("files"), "All that these filters leave, as a file (one request): ", ["csv", "ndjson", "json"].flatMap((ending) => [link(ending), " "]));
}

async function openItem(id) {
  const place = el("div", {}, el("p", {}, "Loading…"));
  const dialog = showDialog("Item", place, () => go({ item: "" }));
  try {
    const { item, children } = await itemInside(service, id, fields, nameOf);
    dialog.querySelector("h2").textContent = nameOf(item);
    fill(place, children);
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, error.status === 402 ? allowanceUsed(error) : refusal(error));
  }
}
