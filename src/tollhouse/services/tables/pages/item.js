// One item of a table, similar items, and the format of each type of value.
import { pageLink } from "../address.js";
import { el, facts, externalLink } from "../dom.js";
import { callOnce } from "../server.js";
import { day, hostOf, moment, money, number } from "../format.js";

const READS = {
  boolean: (value) => (value ? "yes" : "no"),
  list: (value) => value.join(", "),
  number: (value) => number(value),
  // No thousands separator: it may be a year.
  integer: (value) => String(value),
  money: (value, field) => (field.unit ? money(value, field.unit) : number(value)),
  date: (value) => day(value),
  moment: (value) => moment(value),
  url: (value) => externalLink(value, hostOf(value)),
  // An image of another site would reveal the visitor to that site, so it is a link.
  image: (value) => externalLink(value, "Picture"),
  json: (value) => JSON.stringify(value),
};

/** A value as text or a link. */
export function formatValue(field, value) {
  return (READS[field.type] || String)(value, field);
}

/** All of one item. `title` is the field that names it, if there is one. */
export async function itemDetails(service, id, fields, { title, nameOf }) {
  const path = `/api/items/${encodeURIComponent(id)}`;
  const [{ members }, { members: similar }] = await Promise.all([callOnce(service, path), callOnce(service, `${path}/similar?limit=5`)]);
  const { item } = members;
  const isLong = (field) => String(item[field.name] ?? "").length > 80 && !["url", "image"].includes(field.type);
  const known = fields.filter((field) => field.is_shown && field !== title && item[field.name] !== null && item[field.name] !== undefined);
  const isIdListed = known.some((field) => String(item[field.name]) === item.id);
  const children = [
    facts([...(isIdListed ? [] : [["Id", item.id, "plain"]]), ...known.filter((field) => !isLong(field)).map((field) => [field.label, formatValue(field, item[field.name]), "plain"])]),
    ...known.filter(isLong).flatMap((field) => [el("h3", {}, field.label), el("p", {}, formatValue(field, item[field.name]))]),
    similar.items.length > 0 && el("h3", {}, "Similar items"),
    similar.items.length > 0 && el("ul", {}, similar.items.map((one) => el("li", {}, pageLink(el("a", {}, nameOf(one)), { item: one.id })))),
    el("p", { class: "small dim" }, `Source: ${members.source}. Licence: ${members.licence}.`),
  ];
  return { title: nameOf(item), children };
}
