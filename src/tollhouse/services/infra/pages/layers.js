// The graph: companies in bands, one for each layer of the chain, drawn on a canvas.
//
// `drawLayers(place, catalogue, {choose})` draws into `place`, whose height the page's style sets, and returns
// `{show(emphasis), controls}`, the second being buttons to zoom. `emphasis` has `on` (ids; the others are dimmed), `edges` (ids), `chosen`, and `marks`
// (a map of id to "lost", "stopped", "now", "first", "second" or "shared"). Edges that are not emphasized are drawn once
// into a picture of their own; while the reader moves the graph, that picture is moved instead of drawn again.
import { announce, el } from "../dom.js";
import { layerColour } from "./layer_colour.js";

const NAME_FONT = 12;
const CELL = 120;
const DENSE_CELL = 10;
const LEAST_ROW = 4;
const FAINT_FROM = 500;
const GUTTER = 168;
const ROWS_WITH_NAMES = 60;
const MOST_ZOOM = 24;
const SETTLE_MS = 120;
const TONES = { text: "--text", dim: "--dim", line: "--line", ground: "--raised", accent: "--accent", lost: "--critical", first: "--accent", second: "--high" };

export function drawLayers(place, catalogue, { choose }) {
  const canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "graph",
    "aria-label": "Companies by layer. Arrow keys move between companies, Enter opens one. The panel beside the graph lists the same." });
  const back = document.createElement("canvas");
  const tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  place.append(canvas, tip);
  const controls = zoomButtons((factor) => zoomBy(factor, width / 2, height / 2), reset);
  const pen = canvas.getContext("2d");
  const byId = new Map();
  let width, height, plan, tones, edges, backAt, timer, frame, near, cursor, drag;
  let view = { scale: 1, x: 0, y: 0 };
  let emphasis = {};

  new ResizeObserver(measure).observe(place);
  new MutationObserver(recolour).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  listen();
  measure();
  return { show, controls };

  function measure() {
    if (!place.clientWidth || (width === place.clientWidth && height === place.clientHeight)) return;
    [width, height] = [place.clientWidth, place.clientHeight];
    for (const one of [canvas, back]) [one.width, one.height] = [width * devicePixelRatio, height * devicePixelRatio];
    plan = layout(catalogue, width, height);
    byId.clear();
    for (const node of plan.nodes) byId.set(node.id, node);
    edges = catalogue.edges.map((edge) => ({ id: edge.id, kind: edge.kind, a: byId.get(edge.source), b: byId.get(edge.target) }));
    canvas.style.touchAction = plan.height > height + 1 ? "none" : "pan-y";
    reset();
    recolour();
  }

  function recolour() {
    tones = Object.fromEntries(Object.entries(TONES).map(([name, variable]) => [name, resolved(place, `var(${variable})`)]));
    const layers = new Map(plan.bands.map((band) => [band.order, resolved(place, layerColour(band.order, plan.bands.length))]));
    tones.layer = (order) => layers.get(order);
    tones.font = getComputedStyle(document.body).fontFamily;
    paint();
  }

  function show(next) {
    emphasis = next;
    place.dataset.chosen = next.chosen || "";
    place.dataset.shown = next.on ? next.on.size : plan.nodes.length;
    place.dataset.stopped = next.marks ? [...next.marks.values()].filter((mark) => mark === "stopped" || mark === "now").length : 0;
    paint();
  }

  function reset() {
    const scale = Math.min(1, height / plan.height);
    view = { scale, x: (width - plan.width * scale) / 2, y: 0 };
    paint();
  }

  function zoomBy(factor, x, y) {
    const least = Math.min(1, height / plan.height);
    const scale = Math.max(least, Math.min(MOST_ZOOM, view.scale * factor));
    const ratio = scale / view.scale;
    move({ scale, x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio });
  }

  function move(next) {
    const slack = 60;
    view = { scale: next.scale, x: clamp(next.x, Math.min(0, width - plan.width * next.scale) - slack, slack), y: clamp(next.y, Math.min(0, height - plan.height * next.scale) - slack, slack) };
    canvas.style.touchAction = view.scale > Math.min(1, height / plan.height) ? "none" : "pan-y";
    request(false);
    clearTimeout(timer);
    timer = setTimeout(paint, SETTLE_MS);
  }

  /** A circle grows less than the distances do. */
  function radius(node) {
    return node.size / Math.max(1, view.scale) ** 0.6;
  }

  /** Draw everything anew. */
  function paint() {
    if (!tones) return;
    request(true);
  }

  function request(isWhole) {
    if (isWhole) backAt = null;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      drawFrame();
    });
  }

  function drawFrame() {
    if (!backAt) drawBack();
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const ratio = view.scale / backAt.scale;
    pen.setTransform(ratio, 0, 0, ratio, (view.x - backAt.x * ratio) * devicePixelRatio, (view.y - backAt.y * ratio) * devicePixelRatio);
    pen.drawImage(back, 0, 0);
    set(pen);
    if (emphasis.edges?.size) drawEdges(pen, edges.filter((edge) => emphasis.edges.has(edge.id)), emphasis.tone === "lost" ? { colour: tones.lost, width: 1.3, alpha: 0.6 } : { colour: tones.accent, width: 1.8, alpha: 0.85 });
    drawNodes();
    drawBandNames();
  }

  /** The bands, and the edges that are not emphasized. */
  function drawBack() {
    const ink = back.getContext("2d");
    ink.setTransform(1, 0, 0, 1, 0, 0);
    ink.clearRect(0, 0, back.width, back.height);
    set(ink);
    for (const band of plan.bands) {
      ink.globalAlpha = band.order % 2 ? 0.05 : 0.1;
      ink.fillStyle = tones.layer(band.order);
      ink.fillRect(0, band.y, plan.width, band.height);
      ink.globalAlpha = 1;
      ink.fillRect(0, band.y + 1, 4, band.height - 2);
    }
    drawEdges(ink, edges, { colour: tones.dim, width: 1, alpha: Math.max(0.03, (emphasis.on ? 0.1 : 0.32) * Math.min(1, FAINT_FROM / edges.length)) });
    backAt = { ...view };
  }

  function set(ink) {
    ink.setTransform(view.scale * devicePixelRatio, 0, 0, view.scale * devicePixelRatio, view.x * devicePixelRatio, view.y * devicePixelRatio);
  }

  function drawEdges(ink, some, { colour, width: line, alpha }) {
    ink.strokeStyle = colour;
    ink.lineWidth = line / view.scale;
    ink.globalAlpha = alpha;
    ink.beginPath();
    for (const { a, b } of some) {
      ink.moveTo(a.x, a.y);
      if (a.band === b.band && a.y === b.y) ink.quadraticCurveTo((a.x + b.x) / 2, a.y - plan.row * 0.45, b.x, b.y);
      else {
        const bend = (b.y - a.y) * 0.45;
        ink.bezierCurveTo(a.x, a.y + bend, b.x, b.y - bend, b.x, b.y);
      }
    }
    ink.stroke();
    ink.globalAlpha = 1;
  }

  function drawNodes() {
    const top = -view.y / view.scale - 20;
    const bottom = (height - view.y) / view.scale + 20;
    const visible = plan.nodes.filter((node) => node.y > top && node.y < bottom);
    const isNamed = plan.cell * view.scale >= 88;
    const quiet = (node) => emphasis.on && !emphasis.on.has(node.id) && node !== near && node !== cursor;
    for (const band of plan.bands) {
      const inBand = visible.filter((node) => node.band === band);
      for (const isQuiet of [true, false]) {
        pen.globalAlpha = isQuiet ? 0.28 : 1;
        pen.fillStyle = tones.layer(band.order);
        pen.beginPath();
        for (const node of inBand) {
          if (Boolean(quiet(node)) !== isQuiet || emphasis.marks?.has(node.id)) continue;
          pen.moveTo(node.x + radius(node), node.y);
          pen.arc(node.x, node.y, radius(node), 0, 7);
        }
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
    for (const [id, mark] of emphasis.marks || []) drawMark(byId.get(id), mark);
    for (const node of [byId.get(emphasis.chosen), cursor, near].filter(Boolean)) ring(node, node === cursor ? tones.text : tones.accent);
    const unit = 1 / view.scale;
    pen.font = `${NAME_FONT * unit}px ${tones.font}`;
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    const isShown = (node) => isNamed || node === near || node === cursor || (emphasis.on && emphasis.on.size < 80 && emphasis.on.has(node.id));
    for (const node of visible) if (isShown(node)) drawName(node, unit, quiet(node), isNamed);
    pen.globalAlpha = 1;
  }

  function drawName(node, unit, isQuiet, isFitted) {
    const isBold = node.id === emphasis.chosen || ["stopped", "now", "lost", "first", "second", "shared"].includes(emphasis.marks?.get(node.id));
    pen.font = `${isBold ? "650 " : ""}${NAME_FONT * unit}px ${tones.font}`;
    const from = node.x + radius(node) + 5 * unit;
    const space = isFitted ? plan.cell - radius(node) - 14 * unit : Infinity;
    const text = fitted(pen, node.name, space);
    pen.globalAlpha = isQuiet ? 0.45 : 1;
    pen.strokeStyle = tones.ground;
    pen.lineWidth = 3.5 * unit;
    pen.strokeText(text, from, node.y);
    pen.fillStyle = isQuiet ? tones.dim : ["stopped", "now", "lost"].includes(emphasis.marks?.get(node.id)) ? tones.lost : tones.text;
    pen.fillText(text, from, node.y);
  }

  /** A mark has a form as well as a colour: a cross for what stops, a square and a diamond for two that are compared. */
  function drawMark(node, mark) {
    if (!node) return;
    const r = radius(node);
    pen.fillStyle = mark === "first" ? tones.first : mark === "second" ? tones.second : mark === "shared" ? tones.text : tones.lost;
    pen.strokeStyle = tones.ground;
    pen.lineWidth = 1.6 / Math.max(1, view.scale);
    pen.beginPath();
    if (mark === "first") pen.rect(node.x - r, node.y - r, 2 * r, 2 * r);
    else if (mark === "second") pen.roundRect(node.x - r, node.y - r, 2 * r, 2 * r, [r, 0, r, 0]);
    else pen.arc(node.x, node.y, r, 0, 7);
    pen.fill();
    if (["lost", "stopped", "now"].includes(mark)) {
      const arm = r * 0.5;
      pen.beginPath();
      pen.moveTo(node.x - arm, node.y - arm);
      pen.lineTo(node.x + arm, node.y + arm);
      pen.moveTo(node.x + arm, node.y - arm);
      pen.lineTo(node.x - arm, node.y + arm);
      pen.stroke();
    }
    if (mark === "now" || mark === "lost") ring(node, tones.lost);
  }

  function ring(node, colour) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2 / Math.max(1, view.scale);
    pen.beginPath();
    pen.arc(node.x, node.y, radius(node) + 3.5 / Math.max(1, view.scale), 0, 7);
    pen.stroke();
  }

  function drawBandNames() {
    const unit = 1 / view.scale;
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    for (const band of plan.bands) {
      const at = Math.max(0, -view.x) * unit;
      const size = 11.5 * unit;
      const space = plan.isNarrow ? width * unit : (GUTTER - 22) * Math.max(unit, 1);
      pen.font = `600 ${size}px ${tones.font}`;
      const lines = plan.isNarrow || band.height * view.scale < 28 ? [fitted(pen, band.name, space)] : wrapped(pen, band.name, space);
      const middle = plan.isNarrow ? band.y + plan.label / 2 + 2 : band.y + band.height / 2;
      lines.forEach((line, number) => {
        const y = middle + (number - (lines.length - 1) / 2) * size * 1.2;
        pen.strokeStyle = tones.ground;
        pen.lineWidth = 3 * unit;
        pen.strokeText(line, at + 12 * unit, y);
        pen.fillStyle = tones.dim;
        pen.fillText(line, at + 12 * unit, y);
      });
    }
  }

  function nodeAt(event) {
    const x = (event.offsetX - view.x) / view.scale;
    const y = (event.offsetY - view.y) / view.scale;
    const isNamed = plan.cell * view.scale >= 88;
    const reach = Math.min(plan.row / 2, isNamed ? 18 / view.scale : Infinity);
    return plan.nodes.find((node) => Math.abs(node.y - y) <= reach && x >= node.x - radius(node) - 4 / view.scale && x <= (isNamed ? node.x + plan.cell - 10 / view.scale : node.x + radius(node) + 3 / view.scale));
  }

  function listen() {
    const touches = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      touches.set(event.pointerId, event);
      drag = { x: event.clientX, y: event.clientY, from: { ...view }, isMoved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (touches.size === 2 && touches.has(event.pointerId)) {
        const [other] = [...touches.values()].filter((one) => one.pointerId !== event.pointerId);
        const before = touches.get(event.pointerId);
        const span = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
        zoomBy(span(event) / span(before), (event.offsetX + other.offsetX) / 2, (event.offsetY + other.offsetY) / 2);
        touches.set(event.pointerId, event);
        drag = null;
      } else if (drag && touches.size) {
        const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
        if (!drag.isMoved && Math.hypot(dx, dy) < 4) return;
        if (!drag.isMoved) canvas.setPointerCapture(event.pointerId);
        drag.isMoved = true;
        move({ scale: drag.from.scale, x: drag.from.x + dx, y: drag.from.y + dy });
      } else point(event);
    });
    const lift = (event) => {
      const isClick = event.type === "pointerup" && drag && !drag.isMoved;
      touches.delete(event.pointerId);
      drag = null;
      const node = isClick && nodeAt(event);
      if (node) choose(node.id);
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => hover(null));
    canvas.addEventListener("dblclick", (event) => zoomBy(2, event.offsetX, event.offsetY));
    // A plain wheel scrolls the page; with Ctrl, or two fingers on a touchpad, it zooms.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 180), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", onKey);
    canvas.addEventListener("blur", () => { cursor = null; request(false); });
  }

  function point(event) {
    const node = event.pointerType === "touch" ? null : nodeAt(event);
    if (node !== near) hover(node);
  }

  function hover(node) {
    near = node;
    canvas.classList.toggle("over", Boolean(node));
    tip.hidden = !node;
    if (node) {
      tip.replaceChildren(el("strong", {}, node.name), el("span", {}, `${node.band.name}`), el("span", {}, `${node.suppliers} suppliers · ${node.customers} customers`));
      const x = node.x * view.scale + view.x;
      tip.style.left = `${Math.min(x, width - 190)}px`;
      tip.style.top = `${node.y * view.scale + view.y + 16}px`;
    }
    request(false);
  }

  function onKey(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (cursor) choose(cursor.id);
      return;
    }
    if (event.key === "+" || event.key === "=") return zoomBy(1.5, width / 2, height / 2);
    if (event.key === "-") return zoomBy(1 / 1.5, width / 2, height / 2);
    const next = neighbour(plan, cursor || byId.get(emphasis.chosen), event.key);
    if (!next) return;
    event.preventDefault();
    cursor = next;
    announce(`${next.name}, ${next.band.name}`);
    const [x, y] = [next.x * view.scale + view.x, next.y * view.scale + view.y];
    if (x < 20 || y < 20 || x > width - 60 || y > height - 20) move({ scale: view.scale, x: width / 2 - next.x * view.scale, y: height / 2 - next.y * view.scale });
    request(false);
  }
}

/** Where each company stands: `nodes` with x, y and size, in `bands` of the width and, where it is enough, the height. */
export function layout(catalogue, width, height) {
  const isNarrow = width < 620;
  const gutter = isNarrow ? 10 : GUTTER;
  const label = isNarrow ? 18 : 0;
  const members = new Map(catalogue.categories.map((one) => [one.id, []]));
  const nodes = catalogue.companies.map((one) => ({ id: one.id, name: one.name, suppliers: one.suppliers, customers: one.customers, place: 0.5, group: one.category }));
  for (const node of nodes) members.get(node.group).push(node);
  sortByNeighbours(nodes, catalogue.edges, [...members.values()]);
  const space = width - gutter - 8;
  const rowsAt = (cell) => [...members.values()].reduce((sum, all) => sum + Math.max(1, Math.ceil(all.length / Math.max(1, Math.floor(space / cell)))), 0);
  const named = isNarrow ? Math.min(CELL, space / 3) : CELL;
  const isDense = rowsAt(named) > ROWS_WITH_NAMES;
  const columns = Math.max(1, Math.floor(space / (isDense ? DENSE_CELL : named)));
  const cell = space / columns;
  const gap = isDense ? 4 : 0;
  const rows = rowsAt(isDense ? DENSE_CELL : named);
  const row = clamp((height - members.size * (label + gap)) / rows, isDense ? LEAST_ROW : 24, 60);
  const bands = [];
  let y = 0;
  for (const category of catalogue.categories) {
    const all = members.get(category.id);
    const lines = Math.max(1, Math.ceil(all.length / columns));
    const band = { id: category.id, name: category.name, order: category.order, y, height: lines * row + label + gap, nodes: all };
    putInColumns(all, lines, columns, isDense).forEach(([column, line], number) => {
      const node = all[number];
      node.band = band;
      node.size = isDense ? Math.min(row * 0.48, 2.2 + 0.4 * Math.sqrt(node.customers)) : Math.min(11, 4.5 + 1.5 * Math.sqrt(node.customers));
      node.x = gutter + column * cell + (isDense ? cell / 2 : 12);
      node.y = y + label + (line + 0.5) * row + gap / 2;
    });
    bands.push(band);
    y += band.height;
  }
  return { nodes, bands, cell, row, label, isNarrow, width, height: y };
}

/** Order the companies of each band by where their suppliers and customers stand, so that edges are short. */
function sortByNeighbours(nodes, edges, groups) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const around = new Map(nodes.map((node) => [node, []]));
  for (const { source, target } of edges) {
    around.get(byId.get(source)).push(byId.get(target));
    around.get(byId.get(target)).push(byId.get(source));
  }
  const spread = (all) => all.forEach((node, at) => { node.place = (at + 0.5) / all.length; });
  groups.forEach(spread);
  for (let sweep = 0; sweep < 12; sweep += 1) {
    for (const all of sweep % 2 ? groups : [...groups].reverse()) {
      const wanted = new Map(all.map((node) => [node, around.get(node).length ? around.get(node).reduce((sum, one) => sum + one.place, 0) / around.get(node).length : node.place]));
      all.sort((a, b) => wanted.get(a) - wanted.get(b));
      spread(all);
    }
  }
}

/** The column and line of each of the sorted companies, spread over the width; `isEven` allows parts of a column. */
function putInColumns(all, lines, columns, isEven) {
  if (lines > 1) {
    const used = Math.ceil(all.length / lines);
    const across = (at) => ((at % used) * columns) / used;
    return all.map((_node, at) => [isEven ? across(at) : Math.floor(across(at)), Math.floor(at / used)]);
  }
  return all.map((_node, at) => [Math.floor(((at + 0.5) * columns) / all.length), 0]);
}

/** The company that an arrow key leads to. */
function neighbour(plan, node, key) {
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(key)) return null;
  if (!node) return plan.nodes.reduce((a, b) => (b.y < a.y || (b.y === a.y && b.x < a.x) ? b : a));
  const [across, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const distance = (one) => (across ? Math.abs(one.x - node.x) : Math.abs(one.y - node.y) * 10 + Math.abs(one.x - node.x));
  const isThere = (one) => (across ? Math.abs(one.y - node.y) < 1 && (one.x - node.x) * across > 0 : (one.y - node.y) * down > 1);
  return plan.nodes.filter(isThere).reduce((best, one) => (!best || distance(one) < distance(best) ? one : best), null);
}

const clamp = (value, least, most) => Math.max(least, Math.min(most, value));

/** A colour of the style sheet as the canvas reads it. */
function resolved(place, colour) {
  const probe = el("span", { hidden: true });
  probe.style.color = colour;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function fitted(ink, text, space) {
  if (ink.measureText(text).width <= space) return text;
  let length = text.length - 1;
  while (length > 3 && ink.measureText(`${text.slice(0, length)}…`).width > space) length -= 1;
  return `${text.slice(0, length).trimEnd()}…`;
}

/** At most two lines. */
function wrapped(ink, text, space) {
  if (ink.measureText(text).width <= space) return [text];
  const words = text.split(" ");
  let count = words.length - 1;
  while (count > 1 && ink.measureText(words.slice(0, count).join(" ")).width > space) count -= 1;
  return [words.slice(0, count).join(" "), fitted(ink, words.slice(count).join(" "), space)];
}

function zoomButtons(zoom, reset) {
  const button = (label, text, onclick) => el("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick }, text);
  return el("div", { class: "zoom-row" }, button("Zoom in", "+", () => zoom(1.5)), button("Zoom out", "−", () => zoom(1 / 1.5)), button("Fit the graph", "⤢", reset));
}
