// The filters beside a table's items: values with how many items each would leave, ranges with their distribution.
import { go, state, values } from "./address.js";
import { el, fill } from "./dom.js";
import { number } from "./words.js";

const SHOWN = 8;
const MOST = 60;
const FIRST = 8;
const SVG = "http://www.w3.org/2000/svg";

export function showFilters(place, fields, facets) {
  const focused = document.activeElement && document.activeElement.id;
  const groups = fields.filter((field) => field.is_filtered).map((field) => group(field, facets[field.name])).filter(Boolean);
  const names = fields.filter((field) => field.is_filtered).flatMap(({ name }) => [name, `min_${name}`, `max_${name}`]);
  const isFiltered = names.some((name) => values(name).length > 0);
  const rest = groups.slice(FIRST);
  fill(place, isFiltered && el("button", { type: "button", class: "quiet", onclick: () => go(Object.fromEntries([...names, "offset"].map((name) => [name, ""]))) }, "Clear filters"),
    groups.slice(0, FIRST), rest.length > 0 && el("details", { open: place.querySelector("details.rest")?.open }, el("summary", {}, `${rest.length} more filters`), rest));
  const more = place.lastElementChild;
  if (rest.length > 0) more.classList.add("rest");
  // The list is made anew with every answer; whoever was at a filter stays there.
  const again = focused && document.getElementById(focused);
  if (again && place.contains(again)) again.focus();
}

function group(field, facet) {
  const counts = Array.isArray(facet) ? facet : [];
  if (field.is_ranged) return range(field, Array.isArray(facet) ? null : facet);
  return counts.length > 0 ? choices(field, counts) : null;
}

function choices(field, counts) {
  const chosen = values(field.name);
  const same = (one, value) => one.toLowerCase() === String(value).toLowerCase();
  const isChosen = (value) => chosen.some((one) => same(one, value));
  const line = ({ value, count }) => {
    const id = `${field.name}-${String(value).replace(/[^\p{L}\p{N}]+/gu, "-")}`;
    return el("label", { class: "choice", for: id },
      el("input", { type: "checkbox", id, checked: isChosen(value), onchange: (event) => go({ [field.name]: event.target.checked ? [...chosen, String(value)] : chosen.filter((one) => !same(one, value)), offset: "" }) }),
      field.type === "boolean" ? (value ? "yes" : "no") : String(value), el("span", { class: "count" }, number(count)));
  };
  const [first, rest] = [counts.slice(0, SHOWN), counts.slice(SHOWN, MOST)];
  return el("fieldset", {}, el("legend", {}, field.label), first.map(line),
    rest.length > 0 && el("details", { open: rest.some((one) => isChosen(one.value)) }, el("summary", { class: "small" }, `${rest.length} more`), rest.map(line)),
    counts.length > MOST && el("p", { class: "small dim" }, `The ${MOST} most frequent of ${number(counts.length)}.`));
}

function range(field, spread) {
  const given = state();
  const isDay = ["date", "moment"].includes(field.type);
  const input = (end, label) => el("input", { id: `${end}-${field.name}`, type: isDay ? "date" : "number", step: isDay ? null : "any", value: given[`${end}_${field.name}`] || "",
    "aria-label": `${field.label}: ${label}`, placeholder: label });
  const [low, high] = [input("min", "from"), input("max", "to")];
  const unit = field.unit ? ` (${field.unit})` : "";
  return el("form", { onsubmit: (event) => { event.preventDefault(); go({ [`min_${field.name}`]: low.value, [`max_${field.name}`]: high.value, offset: "" }); } },
    el("fieldset", {}, el("legend", {}, field.label + unit), spread && spread.histogram.length > 1 && histogram(field, spread),
      el("div", { class: "row" }, el("div", { class: "grow" }, low), el("div", { class: "grow" }, high), el("button", { class: "quiet", "aria-label": `Set ${field.label}` }, "Set"))));
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function histogram(field, { histogram: bars, min, max }) {
  const most = Math.max(...bars.map((bar) => bar.count));
  const width = 240 / bars.length;
  const svg = drawn("svg", { class: "chart", viewBox: "0 0 240 62", role: "img", "aria-label": `${field.label} from ${number(min)} to ${number(max)}` });
  bars.forEach((bar, at) => {
    const height = (46 * bar.count) / most;
    svg.append(drawn("rect", { class: "bar", x: at * width + 0.5, y: 48 - height, width: Math.max(1, width - 1), height }));
  });
  svg.append(drawn("text", { x: 0, y: 60 }, number(min)), drawn("text", { x: 240, y: 60, "text-anchor": "end" }, number(max)));
  return svg;
}
