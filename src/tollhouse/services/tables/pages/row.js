// One row of a table: its values, the rows before and after it in the order it was reached by, and similar ones.
import { changed, state } from "../address.js";
import { apiButton } from "../api_call.js";
import { byId, copyButton, el, fill, rooted } from "../dom.js";
import { errorNotice, number } from "../format.js";
import { callOnce, facts, query } from "../server.js";
import { formatValue, heading, nameOf, namedHeading, shortColumns } from "./cells.js";
import { rowAddress, showNames, showRows } from "./grid.js";
import { LAST_OFFSET, listCall } from "./query.js";

const LONG = 80;
const SIMILAR = 6;
const SIMILAR_COLUMNS = 6;
const { service, fields, page } = facts;
const title = fields.find((field) => field.name === facts.title_field);
const shown = fields.filter((field) => field.is_shown);
const { id, _at: at } = state();
const path = `/api/items/${encodeURIComponent(id || "")}`;
const back = `${page}${changed({ id: "", _at: "" }).replace(/^[^?]*/, "")}`;

fill(byId("way"), el("a", { href: back }, `← ${facts.title}`));
byId("api").append(apiButton(() => [{ title: "This row", service, path }, { title: "Similar rows", service, path: `${path}/similar`, query: { limit: SIMILAR } }]));
show();

async function show() {
  if (!id) return fail("No row", el("p", { class: "empty" }, "This address names no row. ", el("a", { href: page }, "See all rows")));
  try {
    const { item, licence, source } = (await callOnce(service, path)).members;
    const name = nameOf(item, title);
    document.title = `${name} · ${facts.title} · Tollhouse`;
    byId("name").textContent = name;
    showValues(item, licence, source);
  } catch (error) {
    if (!error.problem) throw error;
    return fail(error.status === 404 ? "No such row" : "The row could not be loaded", errorNotice(error, error.status === 404 ? null : show));
  }
  showSimilar();
  showNeighbours();
}

function fail(name, notice) {
  byId("name").textContent = name;
  fill(byId("row"), notice).removeAttribute("aria-busy");
}

function showValues(item, licence, source) {
  const has = (field) => item[field.name] !== null && item[field.name] !== undefined;
  const isLong = (field) => String(item[field.name]).length > LONG && !["url", "image"].includes(field.type);
  const known = shown.filter((field) => field !== title && has(field));
  const missing = shown.filter((field) => field !== title && !has(field));
  const pair = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  fill(byId("row"), el("dl", { class: "values" },
    known.some((field) => String(item[field.name]) === item.id) ? null : pair("Id", item.id),
    known.filter((field) => !isLong(field)).map((field) => pair(namedHeading(field), formatValue(field, item[field.name])))),
  known.filter(isLong).map((field) => [el("h2", {}, namedHeading(field)), el("p", { class: "said" }, formatValue(field, item[field.name]))]).flat(),
  missing.length > 0 && el("p", { class: "small dim" }, `No value: ${missing.map((field) => heading(field).label).join(", ")}.`),
  el("p", { class: "small dim" }, `Source: ${source}. Licence: ${licence}. `, copyButton(() => `${location.origin}${rooted(page)}/row${query({ id })}`, "Copy the permanent link")),
  el("nav", { class: "actions", id: "neighbours", "aria-label": "Rows beside this one" })).removeAttribute("aria-busy");
}

async function showSimilar() {
  byId("similar-rows").hidden = false;
  try {
    const { members } = await callOnce(service, `${path}/similar?limit=${SIMILAR}`);
    const columns = shortColumns(facts, SIMILAR_COLUMNS);
    if (members.items.length === 0 || columns.length === 0) return fill(byId("similar"), el("p", { class: "empty" }, "No other row is similar."));
    showNames(byId("head"), columns);
    showRows(byId("rows"), columns, members.items, { title, rowPath: (item) => `${page}/row${query({ id: item.id })}` });
  } catch (error) {
    if (!error.problem) throw error;
    fill(byId("similar"), errorNotice(error, showSimilar));
  }
}

/** The rows before and after this one; only where the address says at which place of a list it is. */
async function showNeighbours() {
  const place = Number(at);
  if (at === undefined || !Number.isInteger(place) || place < 0 || place > LAST_OFFSET) return;
  const first = Math.max(0, place - 1);
  const { path: list, query: given } = listCall(service, fields, { limit: 3, offset: first });
  try {
    const { members } = await callOnce(service, list + query(given));
    const link = (item, offset, text) => item && el("a", { class: "button quiet", href: rowAddress(page, item, offset) }, text(nameOf(item, title)));
    if (members.items[place - first]?.id !== id) return;
    fill(byId("neighbours"), place > 0 && link(members.items[0], place - 1, (name) => `← ${name}`), el("span", { class: "dim" }, `${number(place + 1)} of ${number(members.total)}`),
      link(members.items[place - first + 1], place + 1, (name) => `${name} →`));
  } catch (error) {
    if (!error.problem) throw error;
  }
}
