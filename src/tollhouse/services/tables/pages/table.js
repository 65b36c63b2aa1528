// A declared table: rows in a grid, on a map or as a chart, with filters. The page's facts describe the fields.
import { go, onAddress, pageLink, state } from "../address.js";
import { apiButton } from "../api_call.js";
import { combobox } from "../combobox.js";
import { announce, byId, el, fill } from "../dom.js";
import { counted, errorNotice, number } from "../format.js";
import { addressOf, call, callOnce, facts, query } from "../server.js";
import { showChart } from "./chart_view.js";
import { showFacets } from "./filters.js";
import { rowAddress, showHead, showRows } from "./grid.js";
import { heading } from "./cells.js";
import { LAST_OFFSET, PER_PAGE, filters, isFiltered, listCall, withoutFilters } from "./query.js";
import { followIndexing } from "./indexing.js";
import { suggestions } from "./suggestions.js";

const MAX_FACETS = 12;
const MAX_COLUMNS = 12;
const { service, fields, page } = facts;
const shown = fields.filter((field) => field.is_shown);
const title = fields.find((field) => field.name === facts.title_field);
const inOrder = title ? [title, ...shown.filter((field) => field !== title)] : shown;
const usual = inOrder.filter((field) => field.type !== "json").slice(0, MAX_COLUMNS);
const facetNames = fields.filter((field) => field.is_counted).slice(0, MAX_FACETS).map((field) => field.name);
const views = [["", "Table"], facts.position && ["map", "Map"], facts.has_chart && ["chart", "Chart"]].filter(Boolean);
let latest = "";

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ q: byId("q").value.trim(), offset: "" });
});
byId("q").addEventListener("search", () => byId("q").value || go({ q: "", offset: "" }));
combobox(byId("q"), suggestions(() => facts, (changes) => go({ q: "", ...changes, offset: "" })));
byId("api").append(apiButton(describe));
byId("filters").open = matchMedia("(min-width: 60rem)").matches;
for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}
showColumnChoice();
onAddress(() => show());

/** The columns that the address names, or the usual ones. */
function columns() {
  const named = (state()._columns || "").split(",");
  const chosen = inOrder.filter((field) => named.includes(field.name));
  return chosen.length > 0 ? chosen : usual.length > 0 ? usual : inOrder;
}

function describe() {
  const view = state()._view;
  if (view === "map") return { service, path: "/api/points", query: filters(fields) };
  const chart = view === "chart" && state()._chart;
  if (chart && fields.some((field) => field.name === chart && field.is_ranged)) return { service, path: `/api/histogram/${chart}`, query: filters(fields) };
  return listCall(service, fields);
}

async function show({ isAgain = false } = {}) {
  const view = views.some(([name]) => name === state()._view) ? state()._view : "";
  byId("q").value = state().q || "";
  fill(byId("views"), views.map(([name, text]) => pageLink(el("a", { "aria-current": view === name ? "true" : null }, text), { _view: name })));
  for (const [name] of views) byId(`${name || "table"}-view`).hidden = name !== view;
  byId("columns-menu").hidden = view !== "";
  const { path, query: given } = listCall(service, fields, { facets: facetNames.join(","), ...(view && { limit: 1, offset: "" }) });
  const wanted = path + query(given);
  if (wanted === latest && !isAgain) return showOther(view);
  latest = wanted;
  if (!isAgain) byId("grid").setAttribute("aria-busy", "true");
  if (!byId("head").children.length) showHead(byId("head"), columns(), { counts: {} });
  try {
    const { members } = await (isAgain ? call(service, wanted) : callOnce(service, wanted));
    if (latest !== wanted) return;
    showPage(members, view, isAgain);
    followIndexing(byId("progress"), service, members.indexing, () => show({ isAgain: true }));
  } catch (error) {
    if (!error.problem) throw error;
    if (latest === wanted) showTrouble(error);
  }
  showOther(view);
}

function showPage(members, view, isAgain) {
  fill(byId("trouble"));
  const corrected = Object.keys(members.applied_filters.understood?.corrected || {}).length > 0;
  const found = [`${members.total_relation === "gte" ? "at least " : ""}${counted(members.total, "row")}`, corrected && "spelling corrected"].filter(Boolean).join(" · ");
  byId("found").textContent = found;
  if (!isAgain) announce(found);
  showFacets(byId("facets"), fields, members.facets || {});
  showFiles(members);
  byId("grid").removeAttribute("aria-busy");
  if (view) return;
  showHead(byId("head"), columns(), { counts: members.facets || {} });
  showRows(byId("rows"), columns(), members.items, { title, rowPath: (item, at) => rowAddress(page, item, members.offset + at) });
  fill(byId("nothing"), members.items.length === 0 && el("p", { class: "empty" }, members.indexing ? "No row that is ready matches yet." : "No row matches. ",
    isFiltered(fields) && pageLink(el("a", {}, "Remove all filters"), withoutFilters(fields))));
  if (!isAgain) byId("grid").scrollTop = 0;
  showPages(members);
}

/** A filter that is wrong stays where it is, with the message beside it; no rows are shown for it. */
function showTrouble(error) {
  latest = "";
  const wrong = error.status === 400 && error.problem.parameter;
  byId("grid").removeAttribute("aria-busy");
  showHead(byId("head"), columns(), { counts: {}, invalid: wrong && { parameter: wrong, message: error.message.replaceAll("`", "") } });
  fill(byId("rows"));
  fill(byId("pages"));
  byId("found").textContent = "";
  fill(byId("nothing"), wrong && el("p", { class: "empty" }, "Correct the filter to see rows."));
  fill(byId("trouble"), wrong ? el("div", { class: "notice", role: "alert" }, el("p", {}, `The filter ${wrong.replace("__has", "")} cannot be used: ${error.message.replaceAll("`", "")} `,
    pageLink(el("a", {}, "Remove it"), { [wrong]: "", offset: "" }))) : errorNotice(error, () => show()));
}

async function showOther(view) {
  if (view === "chart") showChart(byId("chart-view"), service, fields);
  if (view === "map") (await import("./map_view.js")).showMap(byId("map-view"), facts, title);
}

function showPages(members) {
  const to = (offset, text) => pageLink(el("a", { class: "button quiet" }, text), { offset: offset > 0 ? String(offset) : "" });
  const next = members.offset + PER_PAGE;
  const isBeyond = next > LAST_OFFSET && members.offset + members.count < members.total;
  fill(byId("pages"), members.offset > 0 && to(members.offset - PER_PAGE, "← Previous"),
    members.count > 0 && el("span", { class: "dim" }, `${number(members.offset + 1)} to ${number(members.offset + members.count)} of ${number(members.total)}`),
    members.offset + members.count < members.total && !isBeyond && to(next, "Next →"),
    isBeyond && el("span", { class: "dim" }, "For more rows, sort or filter."));
}

function showFiles({ total, indexing }) {
  byId("files-menu").hidden = !facts.has_files || !total || Boolean(indexing);
  const link = (ending) => el("a", { href: `${addressOf(service)}/api/items.${ending}${query(filters(fields))}`, download: `${service}.${ending}` }, ending.toUpperCase());
  fill(byId("files"), el("p", { class: "small dim" }, `${counted(total, "row")}, one request`), ["csv", "ndjson", "json"].map(link));
}

function showColumnChoice() {
  const name = (field) => `column-${field.name}`;
  const choose = () => {
    const chosen = inOrder.filter((field) => byId(name(field)).checked).map((field) => field.name);
    const isUsual = chosen.length === usual.length && usual.every((field) => chosen.includes(field.name));
    go({ _columns: isUsual ? "" : chosen.join(",") });
    show({ isAgain: true });
  };
  fill(byId("columns"), inOrder.map((field) => el("label", { class: "choice", for: name(field) }, el("input", { type: "checkbox", id: name(field), onchange: choose }), heading(field).label)));
  onAddress(() => { for (const field of inOrder) byId(name(field)).checked = columns().includes(field); });
}
