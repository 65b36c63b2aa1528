// The value chain: the graph and the panel beside it. What they show is in the address.
import { go, onAddress, pageLink, state } from "../address.js";
import { apiButton } from "../api_call.js";
import { combobox } from "../combobox.js";
import { announce, bars, byId, el, fill } from "../dom.js";
import { counted, errorNotice, number } from "../format.js";
import { callOnce, query } from "../server.js";

const loaded = await loadAll();
const { catalogue, categories, companies, companyLink, countryName, idOf, nameOf, only, suggestCompanies } = loaded.words;
const { companyPanel, comparePanel, comparison, edgeList, pathWords } = loaded.panels;
const { knockOut, lostWith, stopPlaying } = loaded.knockout;
const side = byId("side");
const player = byId("player");
const graph = loaded.drawLayers(byId("graph"), catalogue, { choose });
let inView = { on: null, edges: null };
let shown = "";

for (const id of ["company", "other"]) suggestIn(byId(id), () => byId("find").requestSubmit());
fill(byId("view-tools"), loaded.exportMenu(() => inView), apiButton(callsInView));
byId("stage-bar").append(graph.controls);
byId("find").addEventListener("submit", find);
byId("whole").addEventListener("click", () => go(only({})));
loaded.connectAssistant((ids, edges) => emphasize({ on: new Set(ids), edges: edges.length ? new Set(edges.map((edge) => edge.id)) : null }));
onAddress(show);

/** The modules need the catalogue: without it the page says what failed, and loads again on request. */
async function loadAll() {
  try {
    const [words, panels, knockout, layers, exports, assistant] = await Promise.all(["catalogue", "company_panel", "knockout", "layers", "export", "assistant"].map((name) => import(`./${name}.js`)));
    return { words, panels, knockout, drawLayers: layers.drawLayers, exportMenu: exports.exportMenu, connectAssistant: assistant.connectAssistant };
  } catch (error) {
    fill(byId("side"), errorNotice(error, () => location.reload()));
    throw error;
  }
}

function emphasize(view) {
  inView = { on: view.on || null, edges: view.edges || null };
  graph.show(view);
}

/** The calls whose answers are in view. */
function callsInView() {
  const { company, with: other, from, to, without, country, category } = state();
  const one = (title, path, given) => ({ title, service: "infra", path, query: given });
  const about = (id) => [one(nameOf(id), `/api/companies/${id}`), one(`Exposure of ${nameOf(id)}`, "/api/exposure", { company: id })];
  if (from && to) return [one("Paths", "/api/paths", { from: idOf(from), to: idOf(to), limit: 10 })];
  if (without || country) return [one("What stops", "/api/chokepoints", { company: without && idOf(without), country })];
  if (company) return [company, other].filter(Boolean).flatMap((id) => about(idOf(id)));
  if (category) return [one("Companies of the layer", "/api/products", { category })];
  return [one("The whole catalogue", "/infra-catalog.json"), one("Chokepoints", "/api/chokepoints", { limit: 10 })];
}

/** Suggest companies in a text field; `then` runs when one is chosen. */
function suggestIn(input, then = () => {}) {
  combobox(input, { suggest: suggestCompanies, label: "Companies", choose: ({ text }) => { input.value = text; then(); } });
}

function find(event) {
  event.preventDefault();
  const [first, second] = [byId("company").value.trim(), byId("other").value.trim()];
  if (!first) return byId("company").focus();
  go(only({ company: idOf(first) || first, with: second && (idOf(second) || second) }));
}

function choose(id) {
  const { company } = state();
  go(only({ company: id }));
  if (company !== id && matchMedia("(max-width: 60rem)").matches) side.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
}

async function show() {
  const given = state();
  const { company, with: other, from, to, without, country, category, step } = given;
  // A step changes what the graph shows, not what is loaded.
  const key = JSON.stringify({ ...given, step: without || country ? null : step });
  if (key === shown) return;
  shown = key;
  byId("company").value = company ? nameOf(idOf(company) || company) : "";
  byId("other").value = other ? nameOf(idOf(other) || other) : "";
  stopPlaying();
  player.hidden = true;
  const unknown = [company, other, from, to, without].filter((text) => text && !idOf(text));
  if (category && !categories.has(category)) unknown.push(category);
  try {
    if (unknown.length) showUnknown(unknown);
    else if (from && to) await showPaths(idOf(from), idOf(to));
    else if (without || country) await showWithout({ company: without && idOf(without), country });
    else if (company && other) showComparison(idOf(company), idOf(other));
    else if (company) showCompany(idOf(company));
    else if (category) showCategory(categories.get(category));
    else await showWhole();
  } catch (error) {
    if (!error.problem) throw error;
    emphasize({});
    shown = "";
    fill(side, errorNotice(error, show), pathForm());
  }
}

function showUnknown(names) {
  emphasize({});
  announce(`Not in the catalogue: ${names.join(", ")}`);
  fill(side, el("div", { class: "notice", role: "alert" }, el("p", {}, "Not in the catalogue: ", names.flatMap((name, at) => [at ? ", " : "", el("code", {}, name)]), "."),
    el("p", {}, "Use a name, ticker or id from the list. The address keeps what you typed.")), pathForm());
}

function showCompany(id) {
  const edges = catalogue.edges.filter((edge) => edge.source === id || edge.target === id);
  emphasize({ chosen: id, on: new Set([id, ...edges.flatMap((edge) => [edge.source, edge.target])]), edges: new Set(edges.map((edge) => edge.id)) });
  announce(`${nameOf(id)}: ${counted(edges.length, "link")}`);
  fill(side, companyPanel(companies.get(id)), pathForm(id));
}

function showComparison(a, b) {
  const { suppliers, customers } = comparison(a, b);
  const marks = new Map([[a, "first"], [b, "second"]]);
  for (const [name, mark] of [["first", "first"], ["second", "second"], ["shared", "shared"]]) for (const id of [...suppliers[name], ...customers[name]]) if (id !== a && id !== b) marks.set(id, marks.has(id) && marks.get(id) !== mark ? "shared" : mark);
  const ends = new Set([a, b]);
  emphasize({ on: new Set(marks.keys()), marks, edges: new Set(catalogue.edges.filter((edge) => (ends.has(edge.source) || ends.has(edge.target)) && marks.has(edge.source) && marks.has(edge.target)).map((edge) => edge.id)) });
  announce(`${nameOf(a)} and ${nameOf(b)}: ${counted(suppliers.shared.length, "shared supplier")}, ${counted(customers.shared.length, "shared customer")}`);
  fill(side, comparePanel(a, b));
}

function showCategory(one) {
  const inside = catalogue.companies.filter((each) => each.category === one.id);
  const ids = new Set(inside.map((each) => each.id));
  const edges = catalogue.edges.filter((edge) => ids.has(edge.source) || ids.has(edge.target));
  emphasize({ on: new Set([...ids, ...edges.flatMap((edge) => [edge.source, edge.target])]), edges: new Set(edges.map((edge) => edge.id)) });
  fill(side, el("section", { class: "panel", "aria-labelledby": "layer", id: "layer-panel" }, el("h2", { id: "layer" }, one.name),
    el("p", { class: "small dim" }, `Layer ${one.order} of ${categories.size}: ${counted(inside.length, "company", "companies")}, ${counted(edges.length, "link")}.`),
    el("ul", { class: "list small" }, inside.map((each) => el("li", {}, companyLink(each.id), el("span", { class: "dim" }, ` ${countryName(each.country)} · ${number(each.suppliers)} suppliers, ${number(each.customers)} customers`)))),
    edgeList("Links into the layer", edges.filter((edge) => !ids.has(edge.source)), "source", true), edgeList("Links out of the layer", edges.filter((edge) => !ids.has(edge.target)), "target", true)), layers());
}

async function showPaths(from, to) {
  const { members } = await callOnce("infra", `/api/paths${query({ from, to, limit: 10 })}`);
  const draw = (path) => emphasize({ chosen: from, on: new Set(path.companies), edges: new Set(path.edges.map((edge) => edge.id)) });
  if (members.paths.length) draw(members.paths[0]);
  else emphasize({ chosen: from, on: new Set([from, to]), edges: new Set() });
  const title = `${nameOf(from)} to ${nameOf(to)}`;
  announce(`${title}: ${counted(members.paths.length, "path")}`);
  fill(side, el("section", { class: "panel", "aria-labelledby": "paths", id: "paths-panel" }, el("h2", { id: "paths" }, title),
    members.paths.length ? el("p", { class: "small dim" }, `The ${counted(members.paths.length, "shortest path", "shortest paths")}${members.is_cut ? "; there are more" : ""}. The first is shown.`)
      : el("p", {}, "No path along supply links is known."),
    el("ol", { class: "list" }, members.paths.map((path) => el("li", {}, pathWords(path),
      el("p", {}, el("button", { type: "button", class: "quiet small", onclick: () => { draw(path); announce("Shown in the graph"); } }, "Show in the graph")))))),
  pathForm(from, to));
}

async function showWithout(given) {
  fill(side, el("div", { class: "panel waiting-panel", "aria-busy": "true" }, el("p", { class: "dim" }, "Counting what stops…")));
  const { members } = await callOnce("infra", `/api/chokepoints${query(given)}`);
  const [chokepoint] = members.chokepoints;
  fill(side, knockOut({ player, graph: { show: emphasize }, chokepoint, caveat: members.caveat, lost: lostWith({ ...given, country: given.country && chokepoint.country }) }), pathForm());
}

async function showWhole() {
  emphasize({});
  const { members } = await callOnce("infra", `/api/chokepoints${query({ limit: 10 })}`);
  // The one with the most links among those whose loss stops most, and the worst.
  const links = ({ id }) => companies.get(id).suppliers + companies.get(id).customers;
  const offered = new Set([...members.chokepoints].sort((a, b) => links(b) - links(a)).slice(0, 1).concat(members.chokepoints.slice(0, 1)).map((one) => one.id));
  fill(side, el("section", { class: "panel", "aria-labelledby": "choke", id: "chokepoints" }, el("h2", { id: "choke" }, "What if one is lost?"),
    el("p", { class: "small dim" }, "Companies that stop when one is taken out, by the links in this catalogue. Structure, not a forecast."),
    el("p", { class: "actions" }, [...offered].map((id) => pageLink(el("a", { class: "button" }, `Take ${nameOf(id)} out`), only({ without: id })))),
    bars(members.chokepoints.map((one) => ({ name: one.name, value: one.fails_count, shown: number(one.fails_count), onclick: () => go(only({ without: one.id })) })), { label: "Companies that stop without each" })),
  layers(), pathForm());
}

/** Every company by layer: the list that says the same as the graph. */
function layers() {
  const open = state().category;
  return el("section", { class: "panel", "aria-labelledby": "layers", id: "layers-panel" }, el("h2", { id: "layers" }, "Layers"),
    catalogue.categories.map((one) => {
      const inside = catalogue.companies.filter((each) => each.category === one.id);
      return el("details", { open: open === one.id }, el("summary", {}, one.name, el("span", { class: "dim" }, ` ${number(inside.length)}`)),
        el("p", { class: "small names" }, inside.flatMap((each, at) => [at ? ", " : "", companyLink(each.id)]), " · ", pageLink(el("a", {}, "show in the graph"), only({ category: one.id }))));
    }));
}

function pathForm(from = "", to = "") {
  const box = (id, text, value) => el("div", { class: "field" }, el("label", { for: id }, text), el("input", { id, value: value ? nameOf(value) : "", autocomplete: "off", required: true }));
  const form = el("form", { class: "panel paths", onsubmit: (event) => {
    event.preventDefault();
    const [start, end] = ["#from", "#to"].map((id) => form.querySelector(id).value);
    go(only({ from: idOf(start) || start, to: idOf(end) || end }));
  } }, el("h2", {}, "Paths between two companies"), el("div", { class: "pair-up" }, box("from", "From", from), box("to", "To", to)), el("p", { class: "actions" }, el("button", { class: "quiet" }, "Find paths")));
  for (const id of ["from", "to"]) suggestIn(form.querySelector(`#${id}`));
  return form;
}
