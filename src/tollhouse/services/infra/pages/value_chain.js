// The value chain: the graph, one company's neighbours, paths between two, and what fails when one is lost.
import { onAddress, go, pageLink, state } from "../address.js";
import { byId, el, fill, announce } from "../dom.js";
import { drawGraph } from "./graph.js";
import { connectAssistant } from "./assistant.js";
import { callOnce, query } from "../server.js";
import { counted, number, errorNotice, share } from "../format.js";

const EDGES_SHOWN = 8;
const catalogue = await load();
const companies = new Map(catalogue.companies.map((one) => [one.id, one]));
const categories = new Map(catalogue.categories.map((one) => [one.id, one]));
const graph = drawGraph(byId("graph"), catalogue, (id) => go({ company: id, from: "", to: "", without: "" }));

fill(byId("companies"), catalogue.companies.map((one) => el("option", { value: one.name }, [one.ticker, one.country].filter(Boolean).join(", "))));
byId("legend").textContent = `${counted(companies.size, "company", "companies")} and ${counted(catalogue.edges.length, "link")}, in the order of the chain from ${catalogue.categories[0].name} to ${catalogue.categories.at(-1).name}. A larger circle has more customers. Drag to move, pinch or scroll to zoom, choose a circle to see its neighbours. Names stand where there is room for them: zoom in for more.`;
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = idOf(byId("company").value);
  if (id) go({ company: id, from: "", to: "", without: "" });
  else announce("The catalogue has no such company.");
});
byId("whole").addEventListener("click", () => go({ company: "", from: "", to: "", without: "", category: "" }));
connectAssistant(byId("ask"), byId("answers"), (ids) => graph.show({ on: new Set(ids) }), (id) => nameOf(id));
onAddress(show);

async function load() {
  try {
    return (await callOnce("infra", "/infra-catalog.json")).members;
  } catch (error) {
    fill(byId("side"), errorNotice(error, () => location.reload()));
    throw error;
  }
}

async function show() {
  const { company, from, to, without } = state();
  byId("company").value = company ? nameOf(company) : "";
  const side = byId("side");
  try {
    if (from && to) await showPaths(side, from, to);
    else if (without) await showWithout(side, without);
    else if (company) showCompany(side, idOf(company));
    else await showWhole(side);
  } catch (error) {
    if (!error.problem) throw error;
    graph.show({});
    fill(side, errorNotice(error), pathForm());
  }
}

function idOf(text) {
  const typed = (text || "").trim().toLowerCase();
  const match = catalogue.companies.find((one) => [one.id, one.name, one.ticker, ...one.aliases].some((name) => name && name.toLowerCase() === typed))
    || catalogue.companies.find((one) => typed && one.name.toLowerCase().startsWith(typed));
  return match ? match.id : "";
}

function nameOf(id) {
  return companies.has(id) ? companies.get(id).name : id;
}

function companyLink(id) {
  return pageLink(el("a", {}, nameOf(id)), { company: id, from: "", to: "", without: "" });
}

function showCompany(side, id) {
  const one = companies.get(id);
  if (!one) {
    graph.show({});
    return fill(side, el("p", { class: "notice" }, "The catalogue has no such company."), pathForm());
  }
  const into = catalogue.edges.filter((edge) => edge.target === id);
  const out = catalogue.edges.filter((edge) => edge.source === id);
  graph.show({ chosen: id, on: new Set([...into.map((edge) => edge.source), ...out.map((edge) => edge.target), id]), edges: new Set([...into, ...out].map((edge) => edge.id)) });
  announce(`${one.name}: ${counted(into.length, "link")} in, ${counted(out.length, "link")} out`);
  fill(side, el("section", { class: "panel", "aria-labelledby": "one", id: "company-panel" }, el("h2", { id: "one" }, one.name),
    el("p", { class: "small dim" }, [one.ticker, categories.get(one.category).name, one.country].filter(Boolean).join(" · ")),
    el("p", {}, one.description),
    edgeList("Suppliers", into, "source"), edgeList("Customers", out, "target"),
    el("p", { class: "actions" }, pageLink(el("a", { class: "button quiet" }, "What fails without it?"), { without: id, company: "" }))),
  pathForm(id));
}

function edgeList(title, edges, end) {
  if (!edges.length) return el("p", { class: "dim" }, `${title}: none known`);
  const [first, rest] = [edges.slice(0, EDGES_SHOWN), edges.slice(EDGES_SHOWN)];
  const line = (edge) => el("li", {}, companyLink(edge[end]), el("div", { class: "about" }, el("span", {}, kindOf(edge)), el("span", {}, edge.product), el("span", {}, `confidence ${share(edge.confidence)}`)));
  return [el("h3", {}, `${title} (${edges.length})`), el("ul", { class: "list small" }, first.map(line)),
    rest.length > 0 && el("details", {}, el("summary", { class: "small" }, `${number(rest.length)} more`), el("ul", { class: "list small" }, rest.map(line)))];
}

/** `hbm_base_die` -> HBM base die */
function worded(id) {
  return id.replaceAll("_", " ").replace(/\b(ip|hbm)\b/, (short) => short.toUpperCase());
}

function kindOf(edge) {
  return worded(edge.kind);
}

function pathForm(from = "", to = "") {
  const box = (id, text, value) => el("div", { class: "field grow" }, el("label", { for: id }, text), el("input", { id, list: "companies", value: value ? nameOf(value) : "", autocomplete: "off", required: true }));
  const form = el("form", { class: "panel", onsubmit: (event) => {
    event.preventDefault();
    const [start, end] = [form.querySelector("#from").value, form.querySelector("#to").value];
    go({ from: idOf(start) || start, to: idOf(end) || end, company: "", without: "" });
  } }, el("h2", {}, "Paths between two companies"), el("div", { class: "row" }, box("from", "From", from), box("to", "To", to), el("button", {}, "Find paths")));
  return form;
}

async function showPaths(side, from, to) {
  const { members } = await callOnce("infra", `/api/paths${query({ from, to, limit: 10 })}`);
  const draw = (path) => graph.show({ on: new Set(path.companies), edges: new Set(path.edges.map((edge) => edge.id)), chosen: from });
  if (members.paths.length) draw(members.paths[0]);
  else graph.show({ on: new Set([from, to]) });
  const title = `${nameOf(members.from)} to ${nameOf(members.to)}`;
  announce(`${title}: ${counted(members.paths.length, "path")}`);
  fill(side, el("section", { class: "panel", "aria-labelledby": "paths", id: "paths-panel" }, el("h2", { id: "paths" }, title),
    members.paths.length ? el("p", { class: "small dim" }, `The ${counted(members.paths.length, "shortest path", "shortest paths")}${members.is_cut ? "; there are more" : ""}. The first is shown.`)
      : el("p", {}, "No path along supply links is known."),
    el("ol", { class: "list" }, members.paths.map((path) => el("li", {}, pathWords(path),
      el("p", {}, el("button", { type: "button", class: "quiet small", onclick: () => { draw(path); announce("Shown in the graph"); } }, "Show in the graph")))))),
  pathForm(from, to));
}

function pathWords(path) {
  return [companyLink(path.companies[0]), path.edges.map((edge) => [el("span", { class: "dim small" }, ` ${kindOf(edge)} → `), companyLink(edge.target)])].flat(3);
}

async function showWithout(side, id) {
  const { members } = await callOnce("infra", `/api/chokepoints${query({ company: id })}`);
  const [chokepoint] = members.chokepoints;
  const fails = chokepoint ? chokepoint.fails : [];
  graph.show({ chosen: id, fails: new Set(fails.map((one) => one.id)), on: new Set([id, ...fails.map((one) => one.id)]) });
  const rounds = Map.groupBy ? Map.groupBy(fails, (one) => one.round) : grouped(fails);
  announce(`Without ${nameOf(id)} ${counted(fails.length, "company fails", "companies fail")}`);
  fill(side, el("section", { class: "panel", "aria-labelledby": "fails", id: "fails-panel" }, el("h2", { id: "fails" }, `Without ${nameOf(id)}`),
    el("p", {}, fails.length ? `${counted(fails.length, "company fails", "companies fail")}, according to the catalogue.` : "No other company fails, according to the catalogue."),
    [...rounds].map(([round, ones]) => el("details", { open: round === 1 }, el("summary", {}, `Round ${round} (${ones.length})`),
      el("ul", {}, ones.map((one) => el("li", {}, companyLink(one.id), el("span", { class: "dim small" }, ` has no ${worded(one.slot)}`)))))),
    el("p", { class: "small dim" }, members.caveat || "A product with one supplier in the catalogue may have others.")), pathForm());
}

function grouped(fails) {
  const rounds = new Map();
  for (const one of fails) rounds.set(one.round, [...(rounds.get(one.round) || []), one]);
  return rounds;
}

async function showWhole(side) {
  graph.show({});
  const { members } = await callOnce("infra", `/api/chokepoints${query({ limit: 12 })}`);
  fill(side, el("section", { class: "panel", "aria-labelledby": "choke", id: "chokepoints" }, el("h2", { id: "choke" }, "Chokepoints"),
    el("p", { class: "small dim" }, "How many companies fail when one is lost, according to the catalogue."),
    el("ol", { class: "list small" }, members.chokepoints.map((one) => el("li", {}, pageLink(el("a", {}, one.name), { without: one.id }),
      el("span", { class: "dim" }, ` ${one.fails_count} fail`))))), pathForm());
}
