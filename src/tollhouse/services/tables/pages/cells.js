// Values of a table as text or links, by the type of their column, and what a column is called.
import { day, hostOf, moment, money, number } from "../format.js";
import { el, externalLink } from "../dom.js";

const RIGHT = ["integer", "number", "money"];

const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 15 });
const SYMBOLS = { EUR: "€", GBP: "£", USD: "$", JPY: "¥", INR: "₹" };

const READS = {
  boolean: (value) => (value ? "yes" : "no"),
  list: (value) => value.join(", "),
  // With all its decimals: it may be a coordinate.
  number: (value) => exact.format(value),
  // No thousands separator: it may be a year.
  integer: (value) => String(value),
  money: (value, field) => (field.unit ? money(value, field.unit) : number(value)),
  date: (value) => day(value),
  moment: (value) => moment(value),
  url: (value) => externalLink(value, hostOf(value)),
  // An image of another site would reveal the visitor to that site, so it is a link.
  image: (value) => externalLink(value, "Picture"),
  point: (value) => `${value.latitude}, ${value.longitude}`,
  json: (value) => JSON.stringify(value),
};

/** A value as text or a link. */
export function formatValue(field, value) {
  return (READS[field.type] || String)(value, field);
}

/** Formats of the cells of one column in these items: numbers have the same decimals, so that they align. */
export function columnFormat(field, items) {
  if (!RIGHT.includes(field.type) || field.type === "integer") return (value) => formatValue(field, value);
  const decimals = Math.min(6, Math.max(0, ...items.map((item) => String(item[field.name] ?? "").split(".")[1]?.length ?? 0)));
  const digits = field.type === "money" && decimals > 0 ? Math.max(2, decimals) : decimals;
  const currency = field.type === "money" && field.unit ? { style: "currency", currency: field.unit } : {};
  const format = new Intl.NumberFormat("en", { ...currency, minimumFractionDigits: digits, maximumFractionDigits: digits });
  return (value) => format.format(value);
}

export const isNumeric = (field) => RIGHT.includes(field.type);

/** The name of a column without the unit that its header may have, in brackets or as a currency, and the unit. */
export function heading(field) {
  const signs = [field.unit, SYMBOLS[field.unit]].filter(Boolean);
  const words = field.label.split(" ").filter((word) => !signs.includes(word));
  if (field.unit && words.length > 0 && words.length < field.label.split(" ").length) return { label: words.join(" "), unit: field.unit };
  const [, label, inBrackets] = /^(.*?)\s*[([]([^)\]]{1,12})[)\]]\s*$/.exec(field.label) || [null, field.label, ""];
  return { label: label || field.label, unit: field.unit || inBrackets };
}

/** The title of an item: its naming field, or its id. */
export function nameOf(item, title) {
  return String((title && item[title.name]) ?? item.id);
}

/** The name of a column with its unit; amounts with a currency carry it themselves. */
export function namedHeading(field) {
  const { label, unit } = heading(field);
  return [label, unit && !(field.type === "money" && field.unit) && el("span", { class: "unit" }, ` ${unit}`)].filter(Boolean);
}

/** At most `count` columns with short values, the one that names a row first. */
export function shortColumns({ fields, title_field: named, position }, count) {
  const isShort = ({ name, type, is_shown: isShown }) => isShown && name !== named && !["text", "json", "url", "image", "point"].includes(type) && ![position?.latitude, position?.longitude].includes(name);
  return [...fields.filter(({ name }) => name === named), ...fields.filter(isShort)].slice(0, count);
}
