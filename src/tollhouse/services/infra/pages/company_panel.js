// The panel of one company, and of two side by side.
import { go, pageLink } from "../address.js";
import { bars, el, facts, fill } from "../dom.js";
import { errorNotice, number } from "../format.js";
import { callOnce, query } from "../server.js";
import { categories, companies, companyLink, countryName, edgesInto, edgesOutOf, evidenceOf, isSupply, nameOf, only, worded } from "./catalogue.js";

const EDGES_SHOWN = 6;

/** What is known of one company: who it depends on, who depends on it, and with what evidence. */
export function companyPanel(one) {
  const [into, out] = [edgesInto(one.id), edgesOutOf(one.id)];
  const exposure = el("div", { class: "exposure", "aria-busy": "true" }, el("p", { class: "dim small" }, "Counting everything upstream and downstream…"));
  showExposure(exposure, one.id);
  return el("section", { class: "panel", "aria-labelledby": "one", id: "company-panel" },
    el("h2", { id: "one" }, one.name),
    el("p", { class: "small dim" }, [one.ticker && `${one.ticker}${one.exchange ? ` (${one.exchange})` : ""}`, layerName(one), countryName(one.country)].filter(Boolean).join(" · ")),
    el("p", {}, one.description || "No description in the catalogue."),
    el("p", { class: "actions" },
      pageLink(el("a", { class: "button" }, `Take ${one.name} out`), only({ without: one.id })),
      pageLink(el("a", { class: "button quiet" }, `Take all of ${countryName(one.country)} out`), only({ country: one.country }))),
    exposure,
    edgeList("Suppliers", into.filter(isSupply), "source"),
    edgeList("Customers", out.filter(isSupply), "target"),
    edgeList("Ownership, investment and partnership, in", into.filter((edge) => !isSupply(edge)), "source", true),
    edgeList("Ownership, investment and partnership, out", out.filter((edge) => !isSupply(edge)), "target", true));
}

async function showExposure(place, id) {
  try {
    const [{ members: reach }, { members: loss }] = await Promise.all([callOnce("infra", `/api/exposure${query({ company: id, limit: 1000 })}`), callOnce("infra", `/api/chokepoints${query({ company: id })}`)]);
    const stops = loss.chokepoints[0]?.fails_count ?? 0;
    place.removeAttribute("aria-busy");
    fill(place,
      facts([["Upstream", atLeast(reach.upstream)], ["Downstream", atLeast(reach.downstream)], ["Stop without it", number(stops)]]),
      el("details", {}, el("summary", { class: "small" }, "Upstream and downstream by layer"),
        layerBars("Upstream", reach.upstream.by_category), layerBars("Downstream", reach.downstream.by_category),
        el("p", { class: "small dim" }, reach.caveat)));
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, errorNotice(error, () => showExposure(place, id)));
  }
}

const atLeast = (side) => `${number(side.total)}${side.is_cut ? "+" : ""}`;

function layerBars(title, counts) {
  const rows = [...categories.values()].filter((one) => counts[one.id]).map((one) => ({ name: one.name, value: counts[one.id], shown: number(counts[one.id]) }));
  return [el("h3", {}, title), rows.length ? bars(rows, { label: `${title} companies by layer` }) : el("p", { class: "dim small" }, "None known.")];
}

export const layerName = (one) => categories.get(one.category).name;

/** The edges at one end, each with its evidence. */
export function edgeList(title, edges, end, isOptional = false) {
  if (!edges.length) return isOptional ? null : [el("h3", {}, `${title} (0)`), el("p", { class: "dim small" }, "None in the catalogue. There may be some.")];
  const line = (edge) => el("li", {}, companyLink(edge[end]), el("span", { class: "dim" }, ` ${edge.product || ""}`),
    el("div", { class: "about" }, el("span", {}, worded(edge.kind)), evidenceOf(edge)));
  const [first, rest] = [edges.slice(0, EDGES_SHOWN), edges.slice(EDGES_SHOWN)];
  return [el("h3", {}, `${title} (${number(edges.length)})`), el("ul", { class: "list small" }, first.map(line)),
    rest.length > 0 && el("details", {}, el("summary", { class: "small" }, `${number(rest.length)} more`), el("ul", { class: "list small" }, rest.map(line)))];
}

/** Suppliers and customers of two companies: shared, and of one only. */
export function comparison(a, b) {
  const ends = (id) => ({ suppliers: unique(edgesInto(id).filter(isSupply).map((edge) => edge.source)), customers: unique(edgesOutOf(id).filter(isSupply).map((edge) => edge.target)) });
  const [first, second] = [ends(a), ends(b)];
  const parts = (name) => ({ shared: first[name].filter((id) => second[name].includes(id)), first: first[name].filter((id) => !second[name].includes(id)), second: second[name].filter((id) => !first[name].includes(id)) });
  return { suppliers: parts("suppliers"), customers: parts("customers") };
}

const unique = (ids) => [...new Set(ids)];

/** Two companies side by side. */
export function comparePanel(a, b) {
  const { suppliers, customers } = comparison(a, b);
  const table = el("div", { class: "scroll", "aria-busy": "true" });
  fillTable(table, a, b, { suppliers, customers });
  const group = (title, ids) => [el("h3", {}, `${title} (${number(ids.length)})`), ids.length ? el("p", { class: "names" }, ids.flatMap((id, at) => [at ? ", " : "", companyLink(id)])) : el("p", { class: "dim small" }, "None in the catalogue.")];
  return el("section", { class: "panel", "aria-labelledby": "two", id: "compare-panel" },
    el("h2", { id: "two" }, `${nameOf(a)} and ${nameOf(b)}`),
    el("p", { class: "small dim" }, `In the graph, squares are ${nameOf(a)} and what only it deals with, half-rounded squares ${nameOf(b)} and what only it deals with; circles are what both deal with.`),
    table,
    group("Shared suppliers", suppliers.shared), group("Shared customers", customers.shared),
    group(`Suppliers of ${nameOf(a)} only`, suppliers.first), group(`Suppliers of ${nameOf(b)} only`, suppliers.second),
    group(`Customers of ${nameOf(a)} only`, customers.first), group(`Customers of ${nameOf(b)} only`, customers.second),
    el("p", { class: "actions" }, pageLink(el("a", { class: "button quiet" }, "Paths between them"), only({ from: a, to: b })), el("button", { type: "button", class: "quiet", onclick: () => go({ company: b, with: a }) }, "Swap")));
}

async function fillTable(place, a, b, { suppliers, customers }) {
  const of = (id) => companies.get(id);
  const put = (reach, loss) => {
    const row = (name, values) => el("tr", {}, el("th", { scope: "row" }, name), values.map((value) => el("td", { class: "number" }, value)));
    const layers = [...categories.values()].filter((one) => reach?.some((side) => side.upstream.by_category[one.id]));
    fill(place, el("table", { class: "compare" },
      el("thead", {}, el("tr", {}, el("td"), [a, b].map((id) => el("th", { scope: "col", class: "number" }, companyLink(id))))),
      el("tbody", {},
        row("Layer", [a, b].map((id) => layerName(of(id)))), row("Country", [a, b].map((id) => countryName(of(id).country))),
        row("Suppliers, direct", [suppliers.shared.length + suppliers.first.length, suppliers.shared.length + suppliers.second.length].map(number)),
        row("Customers, direct", [customers.shared.length + customers.first.length, customers.shared.length + customers.second.length].map(number)),
        row("All upstream", reach ? reach.map((one) => atLeast(one.upstream)) : ["…", "…"]),
        row("All downstream", reach ? reach.map((one) => atLeast(one.downstream)) : ["…", "…"]),
        row("Stop without it", loss ? loss.map((one) => number(one.chokepoints[0]?.fails_count ?? 0)) : ["…", "…"]),
        layers.length > 0 && el("tr", {}, el("th", { scope: "rowgroup", colspan: 3 }, "Upstream by layer")),
        layers.map((one) => row(one.name, reach.map((side) => number(side.upstream.by_category[one.id] || 0)))))));
  };
  put();
  try {
    const both = (path) => Promise.all([a, b].map(async (id) => (await callOnce("infra", `${path}${query({ company: id })}`)).members));
    put(await both("/api/exposure"), await both("/api/chokepoints"));
    place.removeAttribute("aria-busy");
  } catch (error) {
    if (!error.problem) throw error;
    place.append(errorNotice(error));
  }
}

/** The words of a path, company by company. */
export function pathWords(path) {
  return [companyLink(path.companies[0]), path.edges.map((edge) => [el("span", { class: "dim small" }, ` ${worded(edge.kind)} → `), companyLink(edge.target)])].flat(3);
}
