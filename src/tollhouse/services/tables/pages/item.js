// One item of a table, whole, and what is like it; and how a value of each type reads.
import { here } from "../address.js";
import { el, facts, outside } from "../dom.js";
import { callOnce } from "../server.js";
import { day, hostOf, moment, money, number } from "../format.js";

const READS = {
  boolean: (value) => (value ? "yes" : "no"),
  list: (value) => value.join(", "),
  number: (value) => number(value),
  // A year of 1,998 would not be one.
  integer: (value) => String(value),
  money: (value, field) => (field.unit ? money(value, field.unit) : number(value)),
  date: (value) => day(value),
  moment: (value) => moment(value),
  url: (value) => outside(value, hostOf(value)),
  // A picture of elsewhere would tell that site who is looking: it is linked to, not shown.
  image: (value) => outside(value, "Picture"),
  json: (value) => JSON.stringify(value),
};

/** A value as text or a link. */
export function told(field, value) {
  return (READS[field.type] || String)(value, field);
}

/** One item whole; `title` is the field that names it, if there is one. */
export async function itemInside(service, id, fields, { title, nameOf }) {
  const path = `/api/items/${encodeURIComponent(id)}`;
  const [{ members }, { members: similar }] = await Promise.all([callOnce(service, path), callOnce(service, `${path}/similar?limit=5`)]);
  const { item } = members;
  const isLong = (field) => String(item[field.name] ?? "").length > 80 && !["url", "image"].includes(field.type);
  const known = fields.filter((field) => field.is_shown && field !== title && item[field.name] !== null && item[field.name] !== undefined);
  const isIdTold = known.some((field) => String(item[field.name]) === item.id);
  const children = [
    facts([...(isIdTold ? [] : [["Id", item.id, "plain"]]), ...known.filter((field) => !isLong(field)).map((field) => [field.label, told(field, item[field.name]), "plain"])]),
    ...known.filter(isLong).flatMap((field) => [el("h3", {}, field.label), el("p", {}, told(field, item[field.name]))]),
    similar.items.length > 0 && el("h3", {}, "Like this one"),
    similar.items.length > 0 && el("ul", {}, similar.items.map((one) => el("li", {}, here(el("a", {}, nameOf(one)), { item: one.id })))),
    el("p", { class: "small dim" }, `Source: ${members.source}. Licence: ${members.licence}.`),
  ];
  return { title: nameOf(item), children };
}
