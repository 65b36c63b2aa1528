// Filters of a list: values with their counts, and ranges with their distribution.
import { chart } from "./chart.js";
import { go, state, values } from "./address.js";
import { el, fill } from "./dom.js";
import { number } from "./format.js";

const SHOWN = 8;
const MOST = 60;
const same = (one, value) => one.toLowerCase() === String(value).toLowerCase();

/** Put the groups into `place`, a way to clear what is set above them; `names` are their parameters in the address. */
export function fillFilters(place, names, groups) {
  const focused = document.activeElement && document.activeElement.id;
  const isFiltered = names.some((name) => values(name).length > 0);
  const clear = () => go(Object.fromEntries([...names, "offset"].map((name) => [name, ""])));
  fill(place, isFiltered && el("button", { type: "button", class: "quiet", onclick: clear }, "Clear filters"), groups);
  // The filters are rebuilt with every response; the focused one keeps the focus.
  const again = focused && document.getElementById(focused);
  if (again && place.contains(again)) again.focus();
}

/** Values to tick, the most frequent first; `reads(value)` is how one is shown. */
export function choices(name, label, counts, reads = String) {
  const chosen = values(name);
  const isChosen = (value) => chosen.some((one) => same(one, value));
  const line = ({ value, count }) => {
    const id = `${name}-${String(value).replace(/[^\p{L}\p{N}]+/gu, "-")}`;
    return el("label", { class: "choice", for: id },
      el("input", { type: "checkbox", id, checked: isChosen(value), onchange: (event) => go({ [name]: event.target.checked ? [...chosen, String(value)] : chosen.filter((one) => !same(one, value)), offset: "" }) }),
      reads(value), el("span", { class: "count" }, number(count)));
  };
  const [first, rest] = [counts.slice(0, SHOWN), counts.slice(SHOWN, MOST)];
  return el("fieldset", {}, el("legend", {}, label), first.map(line),
    rest.length > 0 && el("details", { open: rest.some((one) => isChosen(one.value)) }, el("summary", { class: "small" }, `${rest.length} more`), rest.map(line)),
    counts.length > MOST && el("p", { class: "small dim" }, `The ${MOST} most frequent of ${number(counts.length)}.`));
}

/** From and to of `min_…` and `max_…`, under the distribution of what is there, where it is known. */
export function range(name, label, { spread, unit = "", isDay = false, reads = number } = {}) {
  const given = state();
  const input = (end, text) => el("input", { id: `${end}-${name}`, type: isDay ? "date" : "number", step: isDay ? null : "any", value: given[`${end}_${name}`] || "",
    "aria-label": `${label}: ${text}`, placeholder: text });
  const [low, high] = [input("min", "from"), input("max", "to")];
  return el("form", { onsubmit: (event) => { event.preventDefault(); go({ [`min_${name}`]: low.value, [`max_${name}`]: high.value, offset: "" }); } },
    el("fieldset", {}, el("legend", {}, unit ? `${label} (${unit})` : label), spread && spread.histogram.length > 1 && distribution(label, spread, reads),
      el("div", { class: isDay ? "row days" : "row" }, el("div", { class: "grow" }, low), el("div", { class: "grow" }, high), el("button", { class: "quiet", "aria-label": `Set ${label}` }, "Set"))));
}

function distribution(label, { histogram, min, max }, reads) {
  const points = histogram.map((bar) => ({ x: bar.from, until: bar.to, y: bar.count }));
  return chart({ label: `${label} from ${reads(min)} to ${reads(max)}`, series: [{ name: "Count", kind: "bar", points }], height: 64, table: false, x: { format: reads, ends: true }, y: { isHidden: true } });
}
