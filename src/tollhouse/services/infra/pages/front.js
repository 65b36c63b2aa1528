// The piece of the front page: a small graph that one can pull, and what stops without one company.
import { announce, byId, el, fill } from "../dom.js";
import { counted, number } from "../format.js";
import { factsOf } from "../server.js";
import { layerColour } from "./layer_colour.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [720, 400];
const STEP_MS = 900;
const NAMED = 10;
const { companies, links, layers, total, chokepoints } = factsOf("infra");
const isStill = matchMedia("(prefers-reduced-motion: reduce)");
const nodes = companies.map((one, at) => ({ ...one, x: 60 + ((WIDTH - 120) * (one.order - 1)) / Math.max(1, layers - 1), y: HEIGHT * (0.15 + 0.7 * ((at * 0.618) % 1)), vx: 0, vy: 0, links: 0 }));
const byName = new Map(nodes.map((node) => [node.id, node]));
const edges = links.map(([a, b]) => ({ a: byName.get(a), b: byName.get(b) }));
for (const { a, b } of edges) for (const node of [a, b]) node.links += 1;
let [heat, held, frame, timer] = [1, null, 0, 0];

requestAnimationFrame(() => setTimeout(begin));

function begin() {
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `The ${number(nodes.length)} companies with the most links in the value chain, from materials on the left to model builders on the right` });
  const named = new Set([...nodes].sort((a, b) => b.links - a.links).slice(0, NAMED));
  for (const one of chokepoints) named.add(byName.get(one.id));
  for (const edge of edges) picture.append(edge.line = svg("line", {}));
  for (const node of nodes) {
    node.size = 4 + 1.3 * Math.sqrt(node.links);
    const circle = svg("circle", { r: node.size });
    circle.style.fill = layerColour(node.order, layers);
    node.group = svg("g", { class: named.has(node) ? "named" : "" }, circle, svg("path", { class: "cross", d: `M${-node.size / 2},${-node.size / 2}l${node.size},${node.size}m0,${-node.size}l${-node.size},${node.size}` }), text(node), title(node));
    picture.append(node.group);
    node.group.addEventListener("pointerdown", (event) => { held = node; node.group.setPointerCapture(event.pointerId); event.preventDefault(); warm(); });
    node.group.addEventListener("pointermove", (event) => { if (held === node) pull(picture, event); });
    for (const end of ["pointerup", "pointercancel"]) node.group.addEventListener(end, () => { held = null; });
  }
  fill(byId("pull-graph"), picture);
  // The graph has settled before it is seen: from then on, only a hand moves it.
  for (let turn = 0; turn < 260; turn += 1) step(Math.max(0.05, 1 - turn / 220));
  place();
  fill(byId("pull-buttons"), chokepoints.map((one, at) => el("button", { type: "button", class: at ? "quiet" : null, "aria-pressed": "false", "data-company": one.id, onclick: (event) => takeOut(one, event.currentTarget) }, `Take ${one.name} out`)));
  rest();
}

function takeOut(one, button) {
  clearInterval(timer);
  const isOut = button.getAttribute("aria-pressed") === "true";
  for (const each of byId("pull-buttons").children) each.setAttribute("aria-pressed", String(each === button && !isOut));
  if (isOut) {
    mark(new Map(), "");
    return rest();
  }
  const last = Math.max(0, ...one.stops.map((each) => each.step));
  announce(`Without ${one.name} ${counted(one.stops.length, "other company stops", "other companies stop")}`);
  let now = isStill.matches ? last : 0;
  const show = () => {
    const stopped = one.stops.filter((each) => each.step <= now);
    mark(new Set(stopped.map((each) => each.id)), one.id);
    fill(byId("pull-count"), el("strong", {}, number(stopped.length)), ` of ${number(total - 1)} others stopped, step ${now} of ${last}`);
    byId("pull-list").textContent = stopped.map((each) => each.name).join(", ");
    if (now >= last) clearInterval(timer);
    now += 1;
  };
  show();
  if (now <= last) timer = setInterval(show, STEP_MS);
}

function rest() {
  byId("pull-count").textContent = `The ${number(nodes.length)} of ${number(total)} companies with the most links, from materials on the left to model builders.`;
  byId("pull-list").textContent = "Pull a company with the pointer, or take one out to see what stops without it, step by step.";
}

function mark(stopped, lost) {
  for (const node of nodes) {
    node.group.classList.toggle("stopped", stopped.has(node.id) || node.id === lost);
    node.group.classList.toggle("lost", node.id === lost);
  }
  for (const { a, b, line } of edges) line.setAttribute("class", [a, b].every((one) => one.group.classList.contains("stopped")) ? "stopped" : "");
}

function pull(picture, event) {
  const box = picture.getBoundingClientRect();
  held.x = ((event.clientX - box.left) * WIDTH) / box.width;
  held.y = ((event.clientY - box.top) * HEIGHT) / box.height;
  warm();
}

function warm() {
  heat = 0.35;
  frame ||= requestAnimationFrame(run);
}

function run() {
  step(heat);
  place();
  heat *= 0.98;
  frame = heat > 0.01 || held ? requestAnimationFrame(run) : 0;
}

/** One step of the forces: links pull, companies push, and each keeps to its layer. */
function step(force) {
  for (const a of nodes) {
    a.vx += ((WIDTH - 120) * (a.order - 1) / Math.max(1, layers - 1) + 60 - a.x) * 0.14 * force;
    a.vy += (HEIGHT / 2 - a.y) * 0.008 * force;
    for (const b of nodes) {
      if (a === b) continue;
      const [dx, dy] = [a.x - b.x, a.y - b.y];
      const far = dx * dx + dy * dy || 1;
      if (far > 40_000) continue;
      a.vx += (dx / far) * 22 * force;
      a.vy += (dy / far) * 60 * force;
    }
  }
  for (const { a, b } of edges) {
    const [dx, dy] = [(b.x - a.x) * 0.004 * force, (b.y - a.y) * 0.004 * force];
    a.vx += dx; a.vy += dy; b.vx -= dx; b.vy -= dy;
  }
  for (const node of nodes) {
    node.vx *= 0.62;
    node.vy *= 0.62;
    if (node === held) continue;
    node.x = Math.max(14, Math.min(WIDTH - 14, node.x + node.vx));
    node.y = Math.max(16, Math.min(HEIGHT - 16, node.y + node.vy));
  }
}

function place() {
  for (const node of nodes) node.group.setAttribute("transform", `translate(${node.x.toFixed(1)},${node.y.toFixed(1)})`);
  for (const { a, b, line } of edges) for (const [name, value] of [["x1", a.x], ["y1", a.y], ["x2", b.x], ["y2", b.y]]) line.setAttribute(name, value.toFixed(1));
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const text = (node) => svg("text", node.x > WIDTH - 130 ? { x: -node.size - 4, dy: "0.35em", "text-anchor": "end" } : { x: node.size + 4, dy: "0.35em" }, node.name);
const title = (node) => svg("title", {}, node.name);
