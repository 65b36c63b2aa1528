// The rows of a table as an HTML table: sort by header, a row of filters, and a link to each row.
import { changed, go, state, values } from "../address.js";
import { el, fill } from "../dom.js";
import { columnFormat, formatValue, heading, isNumeric, nameOf, namedHeading } from "./cells.js";
import { parametersOf } from "./query.js";

const SET = 100;

/** The header: names to sort by, then filters. `counts` are the facets, `invalid` the message of the parameter that is wrong. */
export function showHead(head, columns, { counts, invalid }) {
  const focused = document.activeElement?.id;
  fill(head, el("tr", {}, columns.map(sortHeader)), el("tr", { class: "filters" }, columns.map((field) => el("td", { class: kindOf(field) }, filterOf(field, counts[field.name], invalid)))));
  const again = focused && head.querySelector(`#${CSS.escape(focused)}`);
  if (again) again.focus();
}

/** A header that only names the columns. */
export function showNames(head, columns) {
  fill(head, el("tr", {}, columns.map((field) => el("th", { scope: "col", class: kindOf(field) }, el("span", { class: "name" }, namedHeading(field))))));
}

/** The rows. `rowPath(item, at)` is the address of a row's page. */
export function showRows(body, columns, items, { title, rowPath }) {
  const formats = new Map(columns.map((field) => [field, columnFormat(field, items)]));
  fill(body, items.map((item, at) => el("tr", {}, columns.map((field, column) => {
    const value = item[field.name];
    const text = value === null || value === undefined ? el("span", { class: "dim" }, "–") : formats.get(field)(value);
    if (column > 0) return el("td", { class: kindOf(field), title: typeof text === "string" && text.length > 28 ? text : null }, text);
    const name = field === title || value === undefined ? nameOf(item, title) : text;
    return el("th", { scope: "row", class: kindOf(field), title: typeof name === "string" && name.length > 28 ? name : null }, el("a", { href: rowPath(item, at) }, name));
  }))));
}

const kindOf = (field) => (isNumeric(field) ? "number" : ["date", "moment"].includes(field.type) ? "time" : null);

function sortHeader(field) {
  if (!field.is_ordered) return el("th", { scope: "col", class: kindOf(field) }, el("span", { class: "name" }, namedHeading(field)));
  const sort = state().sort;
  const order = sort === field.name ? "ascending" : sort === `-${field.name}` ? "descending" : null;
  const next = order === null ? field.name : order === "ascending" ? `-${field.name}` : "";
  return el("th", { scope: "col", class: kindOf(field), "aria-sort": order },
    el("button", { type: "button", class: "name", id: `sort-${field.name}`, onclick: () => go({ sort: next, offset: "" }) }, namedHeading(field),
      el("span", { class: "arrow", "aria-hidden": "true" }, { ascending: "↑", descending: "↓" }[order] || "")));
}

function filterOf(field, counts, invalid) {
  const { label } = heading(field);
  if (field.is_ranged) return ["min", "max"].flatMap((end) => input(`${end}_${field.name}`, `${label}: ${end === "min" ? "from" : "to"}`, { placeholder: end === "min" ? "from" : "to", read: ["date", "moment"].includes(field.type) ? (text) => wholeDay(text, end) : plainNumber, invalid }));
  const chosen = values(field.name);
  const isSet = Array.isArray(counts) && (chosen.length > 0 || (counts.length > 0 && counts.length <= SET));
  if (field.is_filtered && isSet) return setOf(field, label, counts, chosen);
  const [name] = parametersOf(field);
  return name ? input(name, `${label}: ${name === field.name ? "is" : "has"}`, { placeholder: name === field.name ? "is" : "has", invalid }) : null;
}

function setOf(field, label, counts, chosen) {
  const several = chosen.length > 1 && el("option", { value: "", selected: true }, `${chosen.length} values`);
  const same = (value) => chosen.length === 1 && chosen[0].toLowerCase() === String(value).toLowerCase();
  return el("select", { id: `filter-${field.name}`, "aria-label": `${label}: one of`, onchange: (event) => go({ [field.name]: event.target.value, offset: "" }) },
    several, el("option", { value: "" }, "any"), counts.map(({ value, count }) => el("option", { value: String(value), selected: same(value) }, `${formatValue({ ...field, type: field.type === "list" ? "keyword" : field.type }, value)} (${count})`)));
}

/** A filter as text: a mistyped one stays, with its message beside it. */
function input(name, label, { placeholder, invalid, read = (text) => text }) {
  const message = invalid?.parameter === name ? invalid.message : "";
  const id = `filter-${name}`;
  const made = el("input", { id, type: "text", value: state()[name] || "", "aria-label": label, placeholder, "aria-invalid": message ? "true" : null, "aria-describedby": message ? `${id}-message` : null });
  made.addEventListener("change", () => go({ [name]: read(made.value.trim()), offset: "" }));
  return message ? [made, el("span", { class: "wrong", id: `${id}-message` }, message)] : made;
}

/** 1,200 is 1200; what is no number stays as it is. */
const plainNumber = (text) => (/^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text) ? text.replaceAll(",", "") : text);

/** A year or a month as its first or last day. */
function wholeDay(text, end) {
  const [, year, month] = /^(\d{4})(?:-(\d{2}))?$/.exec(text) || [];
  if (!year) return text;
  if (end === "min") return `${year}-${month || "01"}-01`;
  return new Date(Date.UTC(Number(year), month ? Number(month) : 12, 0)).toISOString().slice(0, 10);
}

/** The address of a row's page, with the state of this one, so that it knows the order and the way back. */
export const rowAddress = (base, item, at) => `${base}/row${changed({ id: item.id, _at: String(at), _view: "" }).replace(/^[^?]*/, "")}`;
