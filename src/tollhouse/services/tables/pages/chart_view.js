// The chart of one column under the filters: a histogram of numbers, counts over time, or bars of values.
import { go, state, values } from "../address.js";
import { chart } from "../chart.js";
import { bars, el, fill } from "../dom.js";
import { counted, day, errorNotice, money, number } from "../format.js";
import { callOnce, query } from "../server.js";
import { heading } from "./cells.js";
import { filters } from "./query.js";

const HEIGHT = 340;
const MOST_BARS = 30;

export async function showChart(place, service, fields) {
  const offered = fields.filter((field) => field.is_shown && ((field.is_ranged && field.is_filtered) || (field.is_counted && field.is_filtered)));
  const preferred = offered.find((field) => ["date", "moment"].includes(field.type)) || offered.find((field) => field.is_ranged) || offered[0];
  const field = offered.find((one) => one.name === state()._chart) || preferred;
  const select = el("select", { id: "chart-column", onchange: (event) => go({ _chart: event.target.value }) },
    offered.map((one) => el("option", { value: one.name, selected: one === field }, heading(one).label)));
  const figure = place.querySelector(".figure") || el("div", { class: "figure" });
  if (!figure.isConnected) fill(place, el("div", { class: "row" }, el("div", { class: "field" }, el("label", { for: "chart-column" }, "Rows by"), el("span", { id: "chart-choice" }))), figure);
  fill(place.querySelector("#chart-choice"), select);
  try {
    fill(figure, field.is_ranged ? await distribution(service, fields, field) : await valueBars(service, fields, field));
  } catch (error) {
    if (!error.problem) throw error;
    fill(figure, errorNotice(error, () => showChart(place, service, fields)));
  }
}

async function distribution(service, fields, field) {
  const { members } = await callOnce(service, `/api/histogram/${field.name}${query(filters(fields))}`);
  if (members.bars.length === 0) return el("p", { class: "empty" }, members.total ? "No matching row has a value." : "No row matches.");
  const { label, unit } = heading(field);
  const reads = field.type === "money" && field.unit ? (value) => money(value, field.unit) : number;
  const isTime = members.unit !== null;
  const points = members.bars.map((bar) => ({ x: bar.from, until: bar.to, y: bar.count }));
  const [first, last] = [members.bars[0].from, members.bars.at(-1).to];
  const span = isTime ? `${day(first)} to ${day(last)}, by ${members.unit}` : `${reads(first)} to ${reads(last)}`;
  return [chart({ label: `Rows by ${label}${unit && !isTime ? ` (${unit})` : ""}: ${span}`, series: [{ name: "Rows", kind: "bar", points }], height: HEIGHT, x: isTime ? {} : { format: reads }, y: { title: "Rows", from: 0 } }),
    el("p", { class: "small dim" }, [counted(members.total, "row"), isTime && `one bar per ${members.unit}`, members.missing > 0 && `${number(members.missing)} without a value are left out`].filter(Boolean).join(" · "))];
}

async function valueBars(service, fields, field) {
  const given = filters(fields);
  const { members } = await callOnce(service, `${given.q ? "/api/search" : "/api/items"}${query({ ...given, limit: 1, facets: field.name })}`);
  const counts = members.facets[field.name];
  if (counts.length === 0) return el("p", { class: "empty" }, "No matching row has a value.");
  const chosen = values(field.name);
  const rows = counts.slice(0, MOST_BARS).map(({ value, count }) => {
    const isChosen = chosen.some((one) => one.toLowerCase() === String(value).toLowerCase());
    return { name: field.type === "boolean" ? (value ? "yes" : "no") : String(value), value: count, shown: number(count), chosen: isChosen,
      onclick: () => go({ [field.name]: isChosen ? chosen.filter((one) => one.toLowerCase() !== String(value).toLowerCase()) : [...chosen, String(value)], offset: "" }) };
  });
  return [bars(rows, { wide: true, label: `Rows by ${heading(field).label}` }),
    el("p", { class: "small dim" }, `Each value is counted as if no ${heading(field).label} were chosen.${counts.length > MOST_BARS ? ` The ${MOST_BARS} most frequent of ${number(counts.length)}.` : ""}`)];
}
