// The filters of the board: a search, facets with counts under the other filters, and the reason a value cannot be read.
import { go, pageLink } from "../address.js";
import { el, fill } from "../dom.js";
import { clockTime, number } from "../format.js";
import * as feed from "./feeds.js";

const FACETS = [["category", "Category"], ["severity_tier", "Severity"], ["country", "Country"], ["region", "Region"]];
const REGIONS_SHOWN = 60;

/** Fill `form` for the values of the address. `page` has the counts; `problem` is about a value that was refused. */
export function fillFilters(form, given, page, problem = null) {
  const focused = document.activeElement?.closest("form") === form ? document.activeElement.id : "";
  const words = el("input", { id: "q", type: "search", value: given.q || "", maxlength: "100", placeholder: "Search headlines", "aria-label": "Search headlines", "aria-keyshortcuts": "/" });
  const others = feed.OTHER_FILTERS.map((one) => other(one, given, problem));
  const isFiltered = Object.keys(feed.filtersOf(given)).length > 0;
  const areOthersSet = feed.OTHER_FILTERS.some(({ name }) => given[name]);
  form.onsubmit = (event) => {
    event.preventDefault();
    go({ q: words.value.trim(), ...Object.fromEntries(feed.OTHER_FILTERS.map(({ name }) => [name, valueOf(form.querySelector(`#${name}`))])) });
  };
  fill(form, words,
    FACETS.filter(([name]) => name !== "region" || given.country || given.region).map(([name, label]) => facet(name, label, given, page?.facets[name] || [], problem)),
    chip("bbox", "Area of the map", given, { bbox: "" }), (given.since || given.until) && chip("since", timeOf(given), { since: "1" }, { since: "", until: "" }),
    el("details", { class: "board-others", open: areOthersSet || feed.OTHER_FILTERS.some(({ name }) => name === problem?.parameter) }, el("summary", {}, "More"), el("div", {}, others, el("button", { class: "quiet" }, "Apply"))),
    isFiltered && pageLink(el("a", { class: "board-clear" }, "Clear"), Object.fromEntries(feed.FILTER_NAMES.map((name) => [name, ""]))),
    ["q", "bbox", "since", "until"].includes(problem?.parameter) && said(problem.parameter, problem, given));
  if (focused) form.querySelector(`#${focused}`)?.focus();
}

/** A filter without a control of its own: a box to tick where only one value is possible. */
function other({ name, type, step, min, max, example, description, only_value: only }, given, problem) {
  const words = name.replace(/^min_/, "minimum_").replaceAll("_", " ");
  const label = words[0].toUpperCase() + words.slice(1);
  const about = el("p", { class: "small dim", id: `${name}-about` }, description.replaceAll("`", ""));
  const shared = { id: name, "aria-describedby": `${name}-about` };
  const control = only
    ? el("label", { class: "choice", for: name }, el("input", { ...shared, type: "checkbox", value: only, checked: given[name] === only }), `${label}: ${only}`)
    : [el("label", { for: name }, label), el("input", { ...shared, type, step: type === "number" ? step : null, min, max, value: given[name] || "", placeholder: String(example) })];
  return el("div", { class: "field" }, control, about, said(name, problem, given));
}

const valueOf = (input) => (input.type !== "checkbox" ? input.value.trim() : input.checked ? input.value : "");

function facet(name, label, given, counts, problem) {
  const chosen = given[name] || "";
  const shown = name === "region" ? counts.slice(0, REGIONS_SHOWN) : counts;
  const same = shown.find(({ value }) => value.toLowerCase() === chosen.toLowerCase());
  const rows = name === "country" ? [...shown].sort((one, other) => one.value.localeCompare(other.value)) : shown;
  const isWrong = problem?.parameter === name;
  const box = el("select", { id: name, "aria-label": label, "aria-invalid": isWrong || null, "aria-describedby": isWrong ? `${name}-said` : null, class: chosen ? "is-set" : null, onchange: (event) => go({ [name]: event.target.value, ...(name === "country" ? { region: "" } : {}) }) },
    el("option", { value: "" }, chosen ? `${label}: all` : label),
    chosen && !same && el("option", { value: chosen, selected: true }, isWrong ? `${chosen}: unknown` : `${chosen} (${number(0)})`),
    rows.map(({ value, count }) => el("option", { value, selected: value === same?.value }, `${value} (${number(count)})`)));
  return el("div", { class: "board-facet" }, box, said(name, problem, given));
}

function said(name, problem, given) {
  if (problem?.parameter !== name) return null;
  const near = (problem.allowed || []).slice(0, 5);
  return el("p", { class: "board-said", role: "alert", id: `${name}-said` }, `“${given[name]}”: ${problem.detail} `,
    near.length > 0 && ["Did you mean ", ...near.flatMap((one, at) => [at ? ", " : "", pageLink(el("a", {}, one), { [name]: one })]), "?"],
    " ", pageLink(el("a", {}, "Remove the filter"), { [name]: "" }));
}

function chip(name, text, given, changes) {
  return given[name] ? pageLink(el("a", { class: "board-chip", "aria-label": `Remove the filter ${text}` }, text, " ×"), changes) : null;
}

function timeOf({ since, until }) {
  const at = (iso) => (Number.isNaN(Date.parse(iso)) ? iso : clockTime(iso));
  return [since && `after ${at(since)}`, until && `until ${at(until)}`].filter(Boolean).join(" ");
}
