// Tables on the front page: one of them at a time, a search with suggestions, and a few rows.
import { apiButton } from "../api_call.js";
import { combobox } from "../combobox.js";
import { announce, byId, el, fill, rooted } from "../dom.js";
import { counted, errorNotice } from "../format.js";
import { callOnce, facts, query } from "../server.js";
import { shortColumns } from "./cells.js";
import { showNames, showRows } from "./grid.js";
import { suggestions } from "./suggestions.js";

const SHOWN = 6;
const COLUMNS = 7;
const tables = Object.values(facts).filter((one) => one?.page?.startsWith("/tables/"));
let table = tables[0];
let words = "";
let latest = "";

byId("tables-api").append(apiButton(listCall));
combobox(byId("tables-q"), suggestions(() => table, (changes) => location.assign(rooted(table.page) + query(changes))));
byId("tables-search").addEventListener("submit", (event) => {
  event.preventDefault();
  words = byId("tables-q").value.trim();
  show({ isAsked: true });
});
show();

function listCall() {
  return { service: table.service, path: words ? "/api/search" : "/api/items", query: { q: words, limit: SHOWN } };
}

function choose(one) {
  [table, words] = [one, ""];
  byId("tables-q").value = "";
  show({ isAsked: true });
}

async function show({ isAsked = false } = {}) {
  const title = table.fields.find((field) => field.name === table.title_field);
  const columns = shortColumns(table, COLUMNS);
  fill(byId("tables-tabs"), tables.map((one) => el("button", { type: "button", "aria-pressed": String(one === table), onclick: () => choose(one) }, one.title)));
  byId("tables-tabs").hidden = tables.length < 2;
  byId("tables-all").href = rooted(table.page) + query({ q: words });
  showNames(byId("tables-head"), columns.length ? columns : [table.fields[0]]);
  const { service, path, query: given } = listCall();
  const wanted = latest = service + path + query(given);
  try {
    const { members } = await callOnce(service, path + query(given));
    if (latest !== wanted) return;
    const found = members.indexing ? `Indexing ${members.indexing.percent ?? 0}%, ${counted(members.total, "row")} ready` : counted(members.total, "row");
    showRows(byId("tables-rows"), columns.length ? columns : [table.fields[0]], members.items, { title, rowPath: (item) => `${table.page}/row${query({ id: item.id })}` });
    fill(byId("tables-trouble"), members.items.length === 0 && el("p", { class: "empty" }, "No row matches."));
    fill(byId("tables-about"), el("a", { id: "tables-all", href: table.page + query({ q: words }) }, `${found} in ${table.title}`), ` · Source: ${members.source}. Licence: ${members.licence}.`);
    if (isAsked) announce(found);
  } catch (error) {
    if (!error.problem) throw error;
    fill(byId("tables-rows"));
    fill(byId("tables-trouble"), errorNotice(error, () => show({ isAsked })));
  }
}
