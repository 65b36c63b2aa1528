// Downloads of the part of the graph in view: JSON, CSV and GraphML with the members of the exports of the API.
import { el } from "../dom.js";
import { number } from "../format.js";
import { catalogue, companies } from "./catalogue.js";

const NODE_KEYS = ["name", "ticker", "country", "category", "listing", "website", "description"];
const EDGE_KEYS = { kind: "string", product: "string", slots: "string", evidence_class: "string", evidence_date: "string", confidence: "double" };
const WRITERS = { json: [asJson, "application/json"], csv: [asCsv, "text/csv"], graphml: [asGraphml, "application/graphml+xml"] };

/** A menu of downloads of what `inView()` returns: the ids of `companies` and `edges`, each null for all. */
export function exportMenu(inView) {
  const about = el("p", { class: "small dim" });
  const save = (format) => {
    const [write, type] = WRITERS[format];
    const link = el("a", { href: URL.createObjectURL(new Blob([write(part(inView()))], { type })), download: `value-chain.${format}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href));
  };
  const menu = el("details", { class: "menu", ontoggle: () => { const { nodes, edges } = part(inView()); about.textContent = `${number(nodes.length)} companies and ${number(edges.length)} links in view`; } },
    el("summary", { class: "button quiet" }, "Export"),
    el("div", { class: "panel" }, about, ["JSON", "CSV", "GraphML"].map((name) => el("button", { type: "button", class: "quiet", onclick: () => save(name.toLowerCase()) }, name))));
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; menu.querySelector("summary").focus(); } });
  return menu;
}

function part({ on, edges }) {
  const nodes = catalogue.companies.filter((one) => !on || on.has(one.id));
  return { nodes, edges: catalogue.edges.filter((edge) => (edges ? edges.has(edge.id) : !on || (on.has(edge.source) && on.has(edge.target)))) };
}

function asJson({ nodes, edges }) {
  const used = new Set(nodes.map((one) => one.category));
  return JSON.stringify({ generated_at: catalogue.generated_at, categories: catalogue.categories.filter((one) => used.has(one.id)), companies: nodes, edges }, null, 1);
}

function asCsv({ edges }) {
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const rows = edges.map((edge) => [edge.source, edge.target, edge.kind, edge.product ?? "", edge.confidence, edge.evidence[0].class]);
  return [["source", "target", "kind", "product", "confidence", "evidence_class"], ...rows].map((row) => `${row.map((value) => quoted(String(value))).join(",")}\r\n`).join("");
}

function asGraphml({ nodes, edges }) {
  const text = (value) => String(value).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
  const data = (prefix, facts) => Object.entries(facts).map(([name, value]) => (value === null || value === undefined || value === "" ? "" : `<data key="${prefix}_${name}">${text(value)}</data>`)).join("");
  const factsOf = (edge) => ({ kind: edge.kind, product: edge.product, slots: edge.slots.join(";"), evidence_class: edge.evidence[0].class, evidence_date: edge.evidence[0].date, confidence: edge.confidence });
  return ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ...NODE_KEYS.map((name) => `  <key id="n_${name}" for="node" attr.name="${name}" attr.type="string"/>`),
    ...Object.entries(EDGE_KEYS).map(([name, type]) => `  <key id="e_${name}" for="edge" attr.name="${name}" attr.type="${type}"/>`),
    '  <graph id="infra" edgedefault="directed">',
    ...nodes.map((one) => `    <node id="${text(one.id)}">${data("n", Object.fromEntries(NODE_KEYS.map((name) => [name, companies.get(one.id)[name]])))}</node>`),
    ...edges.map((edge) => `    <edge id="${text(edge.id)}" source="${text(edge.source)}" target="${text(edge.target)}">${data("e", factsOf(edge))}</edge>`),
    "  </graph>", "</graphml>", ""].join("\n");
}
