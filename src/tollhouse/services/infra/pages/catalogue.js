// The catalogue of companies and edges, and words for them.
import { pageLink } from "../address.js";
import { el, externalLink } from "../dom.js";
import { day, share } from "../format.js";
import { callOnce } from "../server.js";

// What the address says about the view; a link to another view clears the rest.
const VIEW = { company: "", with: "", from: "", to: "", without: "", country: "", step: "", category: "" };
const CLASSES = { company_filing: "Company filing", company_announcement: "Company announcement", widely_reported: "Widely reported", same_category: "Same layer" };
const SUGGESTED = 8;
const NOT_SUPPLY = new Set(["invests_in", "partners_with", "owns", "competes_with"]);
const regions = new Intl.DisplayNames("en", { type: "region" });

export const catalogue = (await callOnce("infra", "/infra-catalog.json")).members;
export const companies = new Map(catalogue.companies.map((one) => [one.id, one]));
export const categories = new Map(catalogue.categories.map((one) => [one.id, one]));

/** The changes to the address for a view, and for nothing else. */
export const only = (changes) => ({ ...VIEW, ...changes });
export const nameOf = (id) => companies.get(id)?.name ?? id;
export const isSupply = (edge) => !NOT_SUPPLY.has(edge.kind);
export const edgesInto = (id) => catalogue.edges.filter((edge) => edge.target === id);
export const edgesOutOf = (id) => catalogue.edges.filter((edge) => edge.source === id);
export const companyLink = (id) => pageLink(el("a", {}, nameOf(id)), only({ company: id }));

/** Germany for DE. */
export function countryName(code) {
  try {
    return regions.of(code) || code;
  } catch {
    return code;
  }
}

/** The id that a text names, or nothing. */
export function idOf(text) {
  const typed = (text || "").trim().toLowerCase();
  const matches = (one) => [one.id, one.name, one.ticker, ...one.aliases].some((name) => name && name.toLowerCase() === typed);
  const found = catalogue.companies.find(matches) || catalogue.companies.find((one) => typed && one.name.toLowerCase().startsWith(typed));
  return found ? found.id : "";
}

/** `hbm_base_die` -> HBM base die */
export function worded(id) {
  return id.replaceAll("_", " ").replace(/\b(ip|hbm|euv|duv|eda|amd|nvidia|gpu|cpu|abf)(s?)\b/g, (_word, short, plural) => short.toUpperCase() + plural);
}

/** The class of each piece of evidence, with the page and its date where one was opened. */
export function evidenceOf(edge) {
  return el("span", { class: "evidence" }, edge.evidence.flatMap((one) => [
    el("span", { class: "badge" }, CLASSES[one.class] || worded(one.class)),
    " ", one.url ? externalLink(one.url) : "no page was opened", one.date && (one.url ? ` (${day(one.date)})` : `; dated ${day(one.date)}`),
    ` · confidence ${share(edge.confidence)}`,
  ]));
}

/** Companies whose name, ticker or alias contains what is typed; beginnings first. */
export async function suggestCompanies(text) {
  const typed = text.trim().toLowerCase();
  if (!typed) return [];
  const rank = (one) => Math.min(...[one.name, one.ticker, one.id, ...one.aliases].filter(Boolean).map((name) => name.toLowerCase().indexOf(typed)).map((at) => (at < 0 ? Infinity : at)));
  return catalogue.companies.map((one) => [rank(one), one]).filter(([at]) => at < Infinity).sort((a, b) => a[0] - b[0]).slice(0, SUGGESTED)
    .map(([, one]) => ({ text: one.name, note: [one.ticker, categories.get(one.category).name].filter(Boolean).join(" · ") }));
}
