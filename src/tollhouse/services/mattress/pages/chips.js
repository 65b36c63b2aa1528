// The filters that apply, from the address and from the search text, each with a button that removes it.
import { changed, go, pageLink, state } from "../address.js";
import { el, fill } from "../dom.js";
import { FILTERS, LISTS, reading } from "./parameters.js";

/**
 * A chip for each value of each filter, with the words it was read from; for each filter that could not be applied
 * (`refused`: a message by parameter), a chip with the reason; and the words of the search that were not used.
 * `move(changes)` goes to another state of the page.
 */
export function showChips(place, { applied_filters: applied, facets = {}, query }, refused = {}, move = go) {
  const { understood = {}, q = query, id: _, ...filters } = applied;
  const conditions = understood.conditions || [];
  fill(place,
    Object.entries(filters).flatMap(([name, value]) => [value].flat().map((one) => {
      const rest = { ...filters, [name]: Array.isArray(value) ? value.filter((other) => other !== one) : "" };
      return chip(reading(name, one), () => move(address(rest, q, understood, conditions)), { from: understood.words?.[name], problem: missing(name, one, facets) });
    })),
    conditions.map((words) => chip(words, () => move(address(filters, q, understood, conditions.filter((other) => other !== words))))),
    Object.entries(refused).map(([name, message]) => chip(`${name.replaceAll("_", " ")}: ${state()[name]}`, () => move({ [name]: "", offset: "" }), { problem: `${message.replaceAll("`", "")} Not applied.` })),
    notes(understood).map(([kind, text]) => el("span", { class: `small note ${kind}` }, text)));
}

/** The state in which a filter has this value, and all that was read from the text are parameters. */
export function withFilter({ applied_filters: { understood = {}, q, id: _, ...filters }, query = q }, name, value) {
  return address({ ...filters, [name]: value }, query, understood, understood.conditions || []);
}

function chip(text, remove, { from, problem } = {}) {
  const isOwn = !from || from.toLowerCase() === text.toLowerCase();
  return el("span", { class: problem ? "chip wrong" : "chip" }, el("b", {}, text), !isOwn && el("span", { class: "from" }, `from “${from}”`),
    el("button", { type: "button", "aria-label": `Remove filter: ${text}`, onclick: remove }, "×"), problem && el("span", { class: "problem", role: "alert" }, problem));
}

/** The state with these filters as parameters; of a text that was read as filters, what they cannot express stays. */
function address(filters, q, understood, conditions) {
  const isRead = understood.words || understood.conditions;
  const none = Object.fromEntries(FILTERS.map((name) => [name, ""]));
  return { ...none, ...filters, q: isRead ? conditions.join(", ") : q, sort: understood.sort || state().sort, offset: "" };
}

/** A value that no product has: the nearest that some have, as a link. */
function missing(name, value, facets) {
  const counts = LISTS.includes(name) && facets[name];
  if (!counts) return null;
  const near = counts.filter((one) => one.count > 0).map((one) => [distance(String(one.value).toLowerCase(), String(value).toLowerCase()), one.value]).sort((one, other) => one[0] - other[0])[0];
  if (near?.[0] === 0) return null;
  if (!near || near[0] > Math.max(2, value.length / 3)) return "No match.";
  return ["No match. Did you mean ", pageLink(el("a", { href: changed({}) }, reading(name, near[1])), { [name]: near[1], offset: "" }), "?"];
}

/** How many letters differ (Levenshtein). */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1));
    row = next;
  }
  return row[other.length];
}

function notes({ relaxed = [], unused = [], corrected = {}, refused = "" }) {
  return [
    refused && ["refused", refused === "not_in_data" ? "The products say nothing about this." : `This asks for ${refused === "prediction" ? "a forecast" : refused === "opinion" ? "an opinion" : "advice"}, not for a mattress.`],
    relaxed.length > 0 && ["relaxed", `Nothing matches everything, so these were left out: ${relaxed.map((name) => name.replace("_", " ")).join(", ")}`],
    unused.length > 0 && ["unused", `Not used: ${unused.map((words) => `“${words}”`).join(", ")}`],
    Object.keys(corrected).length > 0 && ["corrected", Object.entries(corrected).map(([typed, meant]) => `“${typed}” read as “${meant}”`).join(", ")],
  ].filter(Boolean);
}
