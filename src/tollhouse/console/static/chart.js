// Charts as SVG: lines, steps, areas, bars and dots over time or numbers, with the same figures as a table beneath.
import { announce, el, fill } from "./dom.js";
import { day, moment, number } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
const STEPS = [1, 5, 15, 30].map((n) => n * MINUTE).concat([1, 3, 6, 12].map((n) => n * HOUR), [1, 2, 7, 14].map((n) => n * DAY));
const MONTHS = [1, 3, 6, 12, 24, 60, 120, 600];
const TICK_WIDTH = 84;
const CHARACTER = 6.4;
const [TOP, BOTTOM, RIGHT] = [14, 20, 10];
const shortDay = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const shortTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const shortMonth = new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric", timeZone: "UTC" });

/** An SVG element with attributes and children. */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(name, value);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/**
 * A figure with a chart that fills the width of its place, at a fixed height.
 *
 * `series`: `{name, kind, tone, points: [{x, y, until}]}`; `kind` is `line`, `step`, `area`, `bar` or `dot`, `tone` a severity
 * or `1` to `6`. `x` of a point is a number, or a Date or ISO string (a time axis in UTC); `y` null is a gap; `until` is the end of
 * a bar. Several series of bars are stacked. `x`: `from`, `to`, `format(x)`, and `ends` for labels at both ends only.
 * `y`: `from`, `to`, `format(y)`, `title`, and `isHidden`. `threshold`: `{value, text}` is a dashed line. `spans`: `{from, until, text}` are
 * shaded parts of the x axis. `marks`: `{x, y, text}` are emphasised points. `table: false` leaves the table out.
 */
export function chart({ label, series, x = {}, y = {}, threshold, spans = [], marks = [], height = 190, table = true }) {
  const rows = series.map((one, at) => ({ kind: "line", tone: String(at + 1), ...one, points: one.points.map((point) => ({ ...point, x: toNumber(point.x), until: toNumber(point.until) })) }));
  const isTime = series.some((one) => one.points.some(({ x: at }) => typeof at !== "number")) || isTimeValue(x.from);
  const scale = { isTime, x: { ...x, from: toNumber(x.from), to: toNumber(x.to), format: x.format || (isTime ? readTime(rows) : number) }, y: { format: number, ...y } };
  const positions = [...new Set(rows.flatMap((one) => one.points.map((point) => point.x)))].sort((one, other) => one - other);
  const extras = { threshold, spans: spans.map((one) => ({ ...one, from: toNumber(one.from), until: toNumber(one.until) })), marks: marks.map((one) => ({ ...one, x: toNumber(one.x) })) };
  const readout = el("output", { class: "readout", hidden: true, "aria-hidden": "true" });
  const plot = el("div", { class: "plot", tabindex: positions.length ? "0" : null, role: positions.length ? "slider" : "img", "aria-roledescription": positions.length ? "chart" : null, "aria-label": label,
    "aria-valuemin": 0, "aria-valuemax": Math.max(0, positions.length - 1), "aria-valuenow": 0, "aria-valuetext": `${positions.length} positions. Use the arrow keys to read them.` });
  plot.style.height = `${height}px`;
  let frame = null;
  let shown = -1;
  new ResizeObserver(() => {
    if (!plot.clientWidth) return;
    frame = draw(rows, scale, extras, plot.clientWidth, height);
    fill(plot, frame.svg, readout);
    shown = -1;
    readout.hidden = true;
  }).observe(plot);
  plot.addEventListener("pointermove", (event) => frame && positions.length && read(nearest(event.clientX - plot.getBoundingClientRect().left)));
  plot.addEventListener("pointerleave", () => read(-1));
  plot.addEventListener("blur", () => read(-1));
  plot.addEventListener("keydown", (event) => {
    const next = { ArrowRight: shown + 1, ArrowLeft: Math.max(0, shown - 1), Home: 0, End: positions.length - 1 }[event.key];
    if (next === undefined || !frame) return;
    event.preventDefault();
    read(Math.min(next, positions.length - 1));
  });
  return el("figure", { class: "chart-figure" }, rows.length > 1 && legend(rows), plot, table && positions.length > 0 && figures(label, rows, positions, scale));

  function nearest(left) {
    let best = 0;
    positions.forEach((one, at) => { if (Math.abs(frame.middle(one) - left) < Math.abs(frame.middle(positions[best]) - left)) best = at; });
    return best;
  }

  function read(at) {
    if (at === shown || !frame) return;
    shown = at;
    readout.hidden = at < 0;
    frame.cursor.setAttribute("visibility", at < 0 ? "hidden" : "visible");
    if (at < 0) return;
    const position = positions[at];
    const left = frame.middle(position);
    for (const end of ["x1", "x2"]) frame.cursor.setAttribute(end, left);
    const values = rows.map((one) => [one, one.points.find((point) => point.x === position)]).filter(([, point]) => point);
    const when = reads(scale, values[0]?.[1] ?? { x: position });
    fill(readout, el("strong", {}, when), values.map(([one, point]) => el("span", {}, rows.length > 1 && swatch(one), rows.length > 1 && `${one.name} `, shownValue(scale, point), point.text && ` · ${point.text}`)));
    plot.setAttribute("aria-valuenow", at);
    plot.setAttribute("aria-valuetext", `${when}: ${values.map(([one, point]) => `${one.name} ${shownValue(scale, point)}`).join(", ")}`);
    readout.classList.toggle("before", left > plot.clientWidth / 2);
    readout.style.left = `${left}px`;
  }
}

/** A small chart in a line of text. `values` are numbers at equal distances, or points `{x, y}`; null is a gap. Several of one scale share `most`. */
export function sparkline(values, { label, kind = "line", tone = "1", width = 96, height = 24, most } = {}) {
  const points = values.map((one, at) => (one !== null && typeof one === "object" ? { x: toNumber(one.x), y: one.y } : { x: at, y: one }));
  const known = points.filter((one) => one.y !== null);
  const svg = drawn("svg", { class: `sparkline tone-${tone}`, viewBox: `0 0 ${width} ${height}`, width, height, role: label ? "img" : null, "aria-label": label, "aria-hidden": label ? null : "true" });
  if (!known.length) return svg;
  const [first, last] = [Math.min(...points.map((one) => one.x)), Math.max(...points.map((one) => one.x))];
  const top = most ?? Math.max(...known.map((one) => one.y));
  const low = kind === "bar" ? 0 : Math.min(...known.map((one) => one.y));
  const slot = width / points.length;
  const across = (at) => (kind === "bar" ? slot * (points.findIndex((one) => one.x === at)) : 2 + ((width - 4) * (at - first)) / (last - first || 1));
  const down = (value) => height - 2 - ((height - 4) * (value - low)) / (top - low || 1);
  if (kind === "bar") svg.append(drawn("line", { class: "grid", x1: 0, x2: width, y1: height - 1.5, y2: height - 1.5 }), ...known.filter((one) => one.y > 0).map((one) => drawn("rect", { class: "bar", x: across(one.x) + slot * 0.08, width: slot * 0.84, y: Math.min(down(one.y), height - 3), height: Math.max(1, height - 2 - down(one.y)) })));
  else svg.append(drawn("path", { class: "line", d: path(points, across, down, kind === "step") }), drawn("circle", { class: "dot", r: 2, cx: across(known.at(-1).x), cy: down(known.at(-1).y) }));
  return svg;
}

/** Positions and labels of a time axis, from and to in milliseconds. */
export function timeTicks(from, to, most) {
  const least = (to - from) / Math.max(1, most);
  const step = STEPS.find((one) => one >= least);
  if (!step) return monthTicks(from, to, MONTHS.find((one) => one * 30 * DAY >= least) || MONTHS.at(-1));
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push({ at, text: at % DAY ? shortTime.format(at) : shortDay.format(at), isDay: at % DAY === 0 });
  return ticks;
}

function monthTicks(from, to, months) {
  const ticks = [];
  const start = new Date(from);
  for (let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth()) / months) * months; ; month += months) {
    const at = Date.UTC(Math.floor(month / 12), month % 12);
    if (at > to) return ticks;
    if (at >= from) ticks.push({ at, text: months % 12 ? shortMonth.format(at) : String(new Date(at).getUTCFullYear()) });
  }
}

function stepFor(span, most) {
  const rough = span / Math.max(1, most) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 2.5, 5, 10].map((n) => n * power).find((one) => one >= rough * 0.999);
}

const steps = (first, last, step) => Array.from({ length: Math.round(last - first) + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));

/** Round numbers within from and to. */
function numberTicks(from, to, most) {
  const step = stepFor(to - from, most);
  return steps(Math.ceil(from / step - 1e-9), Math.floor(to / step + 1e-9), step);
}

/** Round numbers that begin at or below from and end at or above to. */
function valueTicks(from, to, most, isWhole) {
  const step = isWhole ? Math.ceil(stepFor(to - from, most)) : stepFor(to - from, most);
  return steps(Math.floor(from / step + 1e-9), Math.ceil(to / step - 1e-9), step);
}

function draw(rows, scale, { threshold, spans, marks }, width, height) {
  const points = rows.flatMap((one) => one.points);
  const from = scale.x.from ?? Math.min(...points.map((one) => one.x));
  const to = scale.x.to ?? Math.max(...points.map((one) => one.until ?? one.x));
  const stacks = stack(rows);
  const values = [...points.map((one) => one.y), ...stacks.totals, ...marks.map((one) => one.y), threshold?.value].filter((one) => typeof one === "number");
  const floor = scale.y.from ?? Math.min(0, ...values);
  const highest = Math.max(scale.y.to ?? floor, ...values, floor);
  const ticks = valueTicks(floor, highest > floor ? highest : floor + 1, Math.max(2, Math.floor(height / 45)), values.every(Number.isInteger));
  const [bottom, top] = scale.y.isHidden ? [floor, highest] : [ticks[0], ticks.at(-1)];
  const above = scale.y.isHidden ? 2 : TOP;
  const names = ticks.map(scale.y.format);
  const left = scale.y.isHidden ? 2 : Math.max(...names.map((name) => name.length)) * CHARACTER + 12;
  const right = scale.y.isHidden ? 2 : RIGHT;
  const across = (at) => left + ((width - left - right) * (at - from)) / (to - from || 1);
  const down = (value) => height - BOTTOM - ((height - BOTTOM - above) * (value - bottom)) / (top - bottom || 1);
  const svg = drawn("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  for (const one of spans) svg.append(drawn("rect", { class: "span", x: across(Math.max(from, one.from)), width: Math.max(1, across(Math.min(to, one.until)) - across(Math.max(from, one.from))), y: TOP, height: height - BOTTOM - TOP }, one.text && drawn("title", {}, one.text)));
  if (!scale.y.isHidden) {
    ticks.forEach((value, at) => svg.append(drawn("line", { class: "grid", x1: left, x2: width - right, y1: down(value), y2: down(value) }), drawn("text", { x: left - 6, y: down(value) + 4, "text-anchor": "end" }, names[at])));
    if (scale.y.title) svg.append(drawn("text", { class: "title", x: 0, y: 9 }, scale.y.title));
  }
  svg.append(...xLabels(scale, from, to, across, width, height));
  const slot = Math.max(1, Math.min(...gaps(points), to - from) * 0.9);
  rows.forEach((one, at) => svg.append(drawSeries(one, stacks.bases[at], { across, down, floor: bottom, slot })));
  if (threshold) svg.append(drawn("line", { class: "threshold", x1: left, x2: width - right, y1: down(threshold.value), y2: down(threshold.value) }),
    drawn("text", { class: "threshold-name", x: left + 4, y: down(threshold.value) - 5 }, threshold.text));
  for (const one of marks) svg.append(drawn("circle", { class: "mark", cx: across(one.x), cy: down(one.y), r: 4.5 }, one.text && drawn("title", {}, one.text)));
  const cursor = drawn("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, x1: 0, x2: 0, visibility: "hidden" });
  svg.append(cursor);
  const ends = new Map(points.filter((one) => hasEnd(one)).map((one) => [one.x, one.until]));
  return { svg, cursor, middle: (at) => across((at + (ends.get(at) ?? at)) / 2) };
}

function xLabels(scale, from, to, across, width, height) {
  const most = Math.max(1, Math.floor(width / TICK_WIDTH));
  const label = (at, text, anchor = "middle", kind = null) => drawn("text", { x: Math.min(Math.max(across(at), anchor === "middle" ? text.length * CHARACTER / 2 : 0), anchor === "middle" ? width - text.length * CHARACTER / 2 : width), y: height - 5, "text-anchor": anchor, class: kind }, text);
  if (scale.x.ends) return [label(from, scale.x.format(from), "start"), label(to, scale.x.format(to), "end")];
  if (scale.isTime) return timeTicks(from, to, most).map((tick) => label(tick.at, tick.text, "middle", tick.isDay ? "day" : null));
  return numberTicks(from, to, most).map((at) => label(at, scale.x.format(at)));
}

function drawSeries(one, bases, { across, down, floor, slot }) {
  const group = drawn("g", { class: `series tone-${one.tone}` });
  const known = one.points.filter((point) => point.y !== null);
  if (one.kind === "bar") {
    known.forEach((point) => {
      const base = bases.get(point) ?? floor;
      const end = across(point.until ?? point.x + slot);
      const shift = hasEnd(point) ? 0 : (across(point.x + slot) - across(point.x)) / 2;
      const [high, low] = [down(base + point.y), down(base)];
      if (point.y) group.append(drawn("rect", { class: "bar", x: across(point.x) - shift + 0.5, width: Math.max(1, end - across(point.x) - 1), y: Math.min(high, low - 1), height: Math.max(1, low - high) }));
    });
    return group;
  }
  if (one.kind === "dot") return group.append(...known.map((point) => drawn("circle", { class: "dot", cx: across(point.x), cy: down(point.y), r: 3 }))), group;
  const line = path(one.points, across, down, one.kind === "step");
  if (one.kind === "area" && known.length) group.append(drawn("path", { class: "area", d: `${path(known, across, down)}L${across(known.at(-1).x)},${down(floor)}L${across(known[0].x)},${down(floor)}Z` }));
  group.append(drawn("path", { class: "line", d: line }));
  // A point between two gaps has no line to it.
  group.append(...one.points.filter((point, at) => point.y !== null && (one.points[at - 1]?.y ?? null) === null && (one.points[at + 1]?.y ?? null) === null).map((point) => drawn("circle", { class: "dot", cx: across(point.x), cy: down(point.y), r: 2.5 })));
  return group;
}

function path(points, across, down, isStep = false) {
  let text = "";
  let before = null;
  for (const point of points) {
    const place = point.y === null ? null : `${across(point.x).toFixed(1)},${down(point.y).toFixed(1)}`;
    if (place && before === null) text += `M${place}`;
    else if (place) text += isStep ? `H${across(point.x).toFixed(1)}V${down(point.y).toFixed(1)}` : `L${place}`;
    before = place;
  }
  return text;
}

/** Where each bar begins, on top of the bars of the series before it, and the height of each whole stack. */
function stack(rows) {
  const heights = new Map();
  const bases = rows.map((one) => new Map(one.kind !== "bar" ? [] : one.points.map((point) => {
    const base = heights.get(point.x) || 0;
    heights.set(point.x, base + (point.y || 0));
    return [point, base];
  })));
  return { bases, totals: [...heights.values()] };
}

function gaps(points) {
  const at = [...new Set(points.map((one) => one.x))].sort((one, other) => one - other);
  return at.slice(1).map((one, place) => one - at[place]);
}

function legend(rows) {
  return el("ul", { class: "legend" }, rows.map((one) => el("li", {}, swatch(one), one.name)));
}

function swatch(one) {
  return el("span", { class: `swatch tone-${one.tone} ${one.kind}`, "aria-hidden": "true" });
}

function figures(label, rows, positions, scale) {
  const place = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${label}: figures` });
  const details = el("details", { class: "figures" }, el("summary", { class: "small" }, "Figures as a table"), place);
  details.addEventListener("toggle", () => {
    if (!details.open || place.firstChild) return;
    const cells = rows.map((one) => new Map(one.points.map((point) => [point.x, point])));
    fill(place, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, scale.isTime ? "Time" : "From"), rows.map((one) => el("th", { scope: "col", class: "number" }, one.name)))),
      el("tbody", {}, positions.map((at) => el("tr", {}, el("th", { scope: "row" }, reads(scale, cells.map((one) => one.get(at)).find(Boolean))), cells.map((one) => el("td", { class: "number" }, one.has(at) ? shownValue(scale, one.get(at)) : "–")))))));
    announce(`${positions.length} rows`);
  });
  return details;
}

/** Whether a bar has an end; that of 1970 is 0. */
const hasEnd = (point) => point.until !== undefined && point.until !== null;
const reads = (scale, point) => (hasEnd(point) ? `${scale.x.format(point.x)} – ${scale.isTime && point.until - point.x < DAY ? `${shortTime.format(point.until)}\u00a0UTC` : scale.x.format(point.until)}` : scale.x.format(point.x));
const shownValue = (scale, point) => (point.y === null ? "not known" : scale.y.format(point.y));
const isTimeValue = (value) => value !== undefined && value !== null && typeof value !== "number";
const toNumber = (value) => (isTimeValue(value) ? new Date(value).getTime() : value);

function readTime(rows) {
  const isWholeDays = rows.every((one) => one.points.every((point) => point.x % DAY === 0 && (point.until || 0) % DAY === 0));
  return (at) => (isWholeDays ? day : moment)(new Date(at).toISOString());
}
