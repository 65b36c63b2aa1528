// A world map from local data (Natural Earth), with a circle for each place with events.
import { el } from "../dom.js";
import { filesAt } from "../server.js";
import { SEVERITIES } from "./feeds.js";
import { counted } from "../format.js";

const WIDTH = 960;
const HEIGHT = 504;
const LARGEST_ZOOM = 24;
const MAX_INITIAL_ZOOM = 5;
const { d3, topojson } = globalThis;
let world;
let view = d3.zoomIdentity;
let lastView = "";

/** Draw the events into `place`; `open({name, events})` is called for the circle that was chosen. */
export async function drawMap(place, events, { chosen = "", open }) {
  world ||= fetch(`${filesAt}/countries-110m.json`).then((response) => response.json());
  const shapes = topojson.feature(await world, "countries").features;
  const projection = d3.geoNaturalEarth1().fitExtent([[4, 4], [WIDTH - 4, HEIGHT - 4]], { type: "Sphere" });
  const path = d3.geoPath(projection);
  place.replaceChildren();
  const svg = d3.select(place).append("svg").attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`).attr("role", "group")
    .attr("aria-label", "Map of events; the same events are listed under it");
  const layer = svg.append("g");
  const lands = layer.append("g").selectAll("path").data(shapes).join("path").attr("d", path).attr("class", "land");
  // Drawn last, so that no neighbour covers its border.
  lands.filter((shape) => isNamed(shape, chosen)).classed("chosen", true).raise();
  const circles = layer.append("g").selectAll("g").data(placesOf(events, projection)).join("g")
    .attr("class", (one) => `place ${one.worst}`).attr("tabindex", 0).attr("role", "button")
    .attr("aria-label", (one) => `${one.name || "No place named"}: ${counted(one.events.length, "event")}, worst ${one.worst}`)
    .on("click", (_event, one) => open(one))
    .on("keydown", (event, one) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(one); } });
  circles.append("circle");
  circles.append("title").text((one) => `${one.name}: ${counted(one.events.length, "event")}`);
  const zoom = d3.zoom().scaleExtent([1, LARGEST_ZOOM]).translateExtent([[0, 0], [WIDTH, HEIGHT]]).on("zoom", ({ transform }) => {
    view = transform;
    layer.attr("transform", transform);
    circles.attr("transform", (one) => `translate(${one.at}) scale(${1 / transform.k})`);
  });
  circles.selectAll("circle").attr("r", (one) => radius(one, place));
  if (chosen !== lastView) view = around(circles.data(), chosen);
  lastView = chosen;
  svg.call(zoom).call(zoom.transform, view);
  place.append(buttons(svg, zoom));
}

/** The part of the world that a chosen country's events lie in; the whole of it where none is chosen. */
function around(places, chosen) {
  if (!chosen || !places.length) return d3.zoomIdentity;
  const [[left, right], [top, bottom]] = [0, 1].map((axis) => d3.extent(places, (one) => one.at[axis]));
  const scale = Math.max(1, Math.min(MAX_INITIAL_ZOOM, 0.5 * Math.min(WIDTH / (right - left + 1), HEIGHT / (bottom - top + 1))));
  return d3.zoomIdentity.translate(WIDTH / 2, HEIGHT / 2).scale(scale).translate(-(left + right) / 2, -(top + bottom) / 2);
}

/** A narrow screen shows the same drawing smaller: circles must still be seen and touched. */
function radius(one, place) {
  const shrunk = Math.max(1, WIDTH / (place.clientWidth || WIDTH) / 1.4);
  return Math.min(18, 4 + 2.2 * Math.sqrt(one.events.length)) * shrunk;
}

/** Events at one spot as one circle, the worst of them giving its colour; the largest are drawn first, under the others. */
function placesOf(events, projection) {
  const places = d3.groups(events.filter((event) => event.geo.latitude !== null), (event) => `${event.geo.longitude},${event.geo.latitude}`);
  return places.map(([, here]) => ({
    events: here,
    at: projection([here[0].geo.longitude, here[0].geo.latitude]),
    worst: SEVERITIES.find((tier) => here.some((event) => event.metrics.severity_tier === tier)) || "low",
    name: [here[0].geo.region, here[0].geo.country].filter(Boolean).join(", "),
  })).filter((one) => one.at).sort((a, b) => b.events.length - a.events.length);
}

function isNamed(shape, chosen) {
  const name = shape.properties.name.toLowerCase();
  return Boolean(chosen) && (name === chosen.toLowerCase() || (chosen === "United States" && name.startsWith("united states")));
}

function buttons(svg, zoom) {
  const step = (label, text, act) => el("button", { type: "button", class: "quiet", "aria-label": label, onclick: act }, text);
  return el("div", { class: "zoom" },
    step("Zoom in", "+", () => svg.call(zoom.scaleBy, 1.7)),
    step("Zoom out", "−", () => svg.call(zoom.scaleBy, 1 / 1.7)),
    step("Whole world", "⤢", () => svg.call(zoom.transform, d3.zoomIdentity)));
}
