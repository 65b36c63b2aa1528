// The graph: companies in the order of the chain, in a force layout; horizontal, or vertical on a phone.
import { nameBox, placedNames } from "./company_names.js";
import { el } from "../dom.js";

const WIDE = { width: 1300, isNarrow: false };
const NARROW = { width: 620, isNarrow: true };
const STEPS = 300;
const MARGIN = 60;
const NAME_PIXELS = 11.5;
const { d3 } = globalThis;

/** Draw the catalogue; `choose(id)` is called for a chosen company. Gives `show({chosen, on, edges, fails})`. */
export function drawGraph(place, catalogue, choose) {
  const svg = d3.select(place).append("svg").attr("role", "group").attr("aria-label", "Graph of companies; the list beside it says the same in words");
  const shape = shapeOf(svg.node());
  svg.attr("viewBox", `0 0 ${shape.width} ${shape.height}`);
  const nodes = settled(catalogue, shape);
  const links = linked(catalogue, nodes);
  const layer = svg.append("g");
  const lines = layer.append("g").selectAll("path").data(links).join("path").attr("class", "edge").attr("d", curve);
  const circles = layer.append("g").selectAll("g").data(nodes).join("g").attr("class", "node").attr("tabindex", 0).attr("role", "button")
    .attr("aria-label", (node) => node.name).attr("data-company", (node) => node.id).attr("transform", (node) => `translate(${node.x},${node.y})`)
    .on("click", (_event, node) => choose(node.id))
    .on("keydown", (event, node) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(node.id); } });
  circles.append("circle").attr("r", (node) => node.size);
  const names = circles.append("text").attr("dy", "0.35em").text((node) => node.name);
  let named = nodes;
  const zoom = d3.zoom().scaleExtent([0.5, 9]).on("zoom", ({ transform }) => {
    layer.attr("transform", transform);
    // Names keep their size on the screen and appear where there is space.
    const size = (NAME_PIXELS * shape.width) / (place.clientWidth || shape.width) / transform.k;
    layer.style("--name-size", `${size}px`);
    const [x, y] = transform.invert([0, 0]);
    const sides = placedNames(named, nodes, size, { x, y, width: shape.width / transform.k, height: shape.height / transform.k });
    circles.classed("quiet", (node) => !sides.has(node.id));
    names.each(function put(node) {
      const box = nameBox(node, sides.get(node.id) || "right", size);
      d3.select(this).attr("x", box.x - node.x).attr("y", box.y + box.height / 2 - node.y);
    });
  });
  svg.call(zoom);
  place.append(zoomButtons(svg, zoom));

  function show({ chosen = "", on = null, edges = null, fails = new Set() }) {
    const isOn = (id) => !on || on.has(id);
    const isDrawn = (link) => (edges ? edges.has(link.id) : Boolean(on) && on.has(link.source.id) && on.has(link.target.id));
    circles.classed("off", (node) => !isOn(node.id)).classed("on", (node) => Boolean(on) && isOn(node.id) && node.id !== chosen)
      .classed("chosen", (node) => node.id === chosen).classed("fails", (node) => fails.has(node.id));
    lines.classed("on", isDrawn).classed("off", (link) => Boolean(on) && !isDrawn(link));
    lines.filter(isDrawn).raise();
    // The chosen one's name is put first, then those with the most customers.
    const weight = (node) => (node.id === chosen ? Infinity : node.size);
    named = nodes.filter((node) => isOn(node.id)).sort((a, b) => weight(b) - weight(a));
    focusOn(svg, zoom, shape, named);
  }
  return { show };
}

/** The drawing has the proportions of its box. */
function shapeOf(svg) {
  const { clientWidth: width, clientHeight: height } = svg;
  const shape = width < 600 ? NARROW : WIDE;
  return { ...shape, height: width ? (shape.width * height) / width : 900 };
}

/** Compute the whole layout before drawing: the result is always the same, and nothing moves. */
function settled(catalogue, shape) {
  const order = new Map(catalogue.categories.map((one) => [one.id, one.order]));
  const last = Math.max(2, ...order.values());
  const [along, across] = shape.isNarrow ? [shape.height, shape.width] : [shape.width, shape.height];
  const nodes = catalogue.companies.map((one, at) => ({
    id: one.id, name: one.name, size: 5 + 1.6 * Math.sqrt(one.customers),
    rank: MARGIN + ((along - 2.6 * MARGIN) * (order.get(one.category) - 1)) / (last - 1), start: (at * 137) % across,
  }));
  for (const node of nodes) [node.x, node.y] = shape.isNarrow ? [node.start, node.rank] : [node.rank, node.start];
  const rank = (shape.isNarrow ? d3.forceY : d3.forceX)((node) => node.rank).strength(0.85);
  const middle = (shape.isNarrow ? d3.forceX : d3.forceY)(across / 2).strength(shape.isNarrow ? 0.08 : 0.035);
  d3.forceSimulation(nodes).force("links", d3.forceLink(linked(catalogue, nodes)).strength(0.012))
    .force("apart", d3.forceManyBody().strength(shape.isNarrow ? -240 : -520).distanceMax(420))
    .force("rank", rank).force("middle", middle).force("room", d3.forceCollide((node) => node.size + 14)).stop().tick(STEPS);
  return nodes;
}

function linked(catalogue, nodes) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  return catalogue.edges.map((edge) => ({ id: edge.id, source: byId.get(edge.source), target: byId.get(edge.target) }));
}

function curve({ source, target }) {
  const bend = (target.x - source.x) / 2;
  return `M${source.x},${source.y}C${source.x + bend},${source.y} ${target.x - bend},${target.y} ${target.x},${target.y}`;
}

/** Zoom to these nodes and their names. */
function focusOn(svg, zoom, shape, nodes) {
  if (!nodes.length) return;
  const [left, right] = d3.extent(nodes, (node) => node.x);
  const [top, bottom] = d3.extent(nodes, (node) => node.y);
  const scale = Math.min(2.6, shape.width / (right - left + 200), shape.height / (bottom - top + 90));
  const middle = [(left + right) / 2, (top + bottom) / 2];
  svg.call(zoom.transform, d3.zoomIdentity.translate(shape.width / 2, shape.height / 2).scale(scale).translate(-middle[0], -middle[1]));
}

function zoomButtons(svg, zoom) {
  const step = (label, text, factor) => el("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => svg.call(zoom.scaleBy, factor) }, text);
  return el("div", { class: "zoom" }, step("Zoom in", "+", 1.5), step("Zoom out", "−", 1 / 1.5));
}
