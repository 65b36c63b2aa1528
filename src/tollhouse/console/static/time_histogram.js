// Counts over time as bars, with a range to select by pointer or keyboard, and a window that plays through the time.
//
// createTimeHistogram(place, options) fills `place`, an element with a height of its own, and returns
//   show({ from, to, step, bins, known, selected })   all times in milliseconds
//     from, to   the whole time; `step` is how long a bar lasts
//     bins       Map of the end of a bar to its count
//     known      a Set of the ends of the bars for which there is data at all, or null; the others are hatched
//     selected   [from, to], or null for everything
//   stop()       end playing
// options
//   label              what is counted
//   noun(count)        a count in words
//   select(from, to)   called with the range that the reader chose; with nulls for everything
//   play(from, to)     called with the window while it plays; with nulls at its end
import { announce, el, fill } from "./dom.js";
import { clockTime, lasted } from "./format.js";
import { drawn } from "./chart.js";

const WINDOW_STEPS = 8;
const SPEEDS = [["1×", 400], ["2×", 200], ["4×", 100]];
const STILL_MS = 1000;
const HOUR = 3_600_000;
const LABEL_PIXELS = 76;

export function createTimeHistogram(place, { label, noun, select, play }) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let shown = { from: 0, to: 1, step: 1, bins: new Map(), known: null, selected: null };
  let window_ = null;
  let timer = 0;
  let speed = SPEEDS[0][1];
  let drag = null;
  const toggle = el("button", { type: "button", class: "quiet histogram-play", "aria-label": "Play", title: "Play", onclick: () => (timer ? stop() : start()) }, "▶");
  const speeds = el("select", { "aria-label": "Speed", onchange: (event) => { speed = Number(event.target.value); } },
    SPEEDS.map(([text, value]) => el("option", { value }, text)));
  const plot = el("div", { class: "histogram-plot" });
  const ends = ["Start of the range", "End of the range"].map((text, side) => el("button", { type: "button", class: "histogram-end", hidden: true, role: "slider", "aria-label": text, onkeydown: (event) => keyed(event, side) }));
  const clear = el("button", { type: "button", class: "quiet histogram-clear", hidden: true, onclick: () => select(null, null) }, "All");
  const status = el("output", { class: "histogram-status" });
  fill(place, toggle, speeds, el("div", { class: "histogram-frame" }, plot, ends), el("div", { class: "histogram-text" }, status, clear));
  place.classList.add("time-histogram");
  plot.addEventListener("pointerdown", press);
  plot.addEventListener("pointermove", move);
  plot.addEventListener("pointerup", release);
  plot.addEventListener("pointercancel", () => { drag = null; draw(); });
  new ResizeObserver(draw).observe(plot);
  return { show, stop };

  function show(next) {
    if (timer && next.from !== shown.from) stop();
    shown = { ...shown, ...next };
    draw();
  }

  // Drawing

  function draw() {
    const [width, height] = [plot.clientWidth, plot.clientHeight - 14];
    const { from, to, step, bins, known } = shown;
    if (!width || height < 8 || to - from <= step) return;
    const [begin, end] = range();
    const most = Math.max(1, ...bins.values());
    const at = (time) => (width * (time - from)) / (to - from);
    const bar = Math.max(1, (width * step) / (to - from) - 1);
    const svg = drawn("svg", { width, height: height + 14, role: "img", "aria-label": `${label}: ${noun(total(from, to))}` });
    for (let until = from + step; until <= to; until += step) {
      const count = bins.get(until) || 0;
      const isIn = until > begin && until <= end;
      if (known && !known.has(until) && !count) svg.append(drawn("rect", { class: "unknown", x: at(until - step), y: height - 3, width: bar, height: 3 }));
      if (count) {
        const tall = Math.max(2, (height * count) / most);
        svg.append(drawn("rect", { class: isIn ? "bar in" : "bar", x: at(until - step), y: height - tall, width: bar, height: tall }));
      }
    }
    const every = HOUR * [1, 2, 3, 6, 12, 24].find((hours) => width / ((to - from) / (hours * HOUR)) >= LABEL_PIXELS || hours === 24);
    for (let tick = Math.ceil(from / every) * every; tick < to; tick += every) {
      if (at(tick) > width - 36) break;
      svg.append(drawn("line", { class: "tick", x1: at(tick), x2: at(tick), y1: height, y2: height + 3 }), drawn("text", { x: at(tick), y: height + 13 }, clockTime(new Date(tick).toISOString()).slice(0, 5)));
    }
    const active = begin > from || end < to ? [begin, end] : null;
    if (active) svg.append(drawn("rect", { class: "range", x: at(active[0]), y: 0, width: Math.max(1, at(active[1]) - at(active[0])), height }));
    fill(plot, svg);
    ends.forEach((handle, side) => {
      const time = side ? end : begin;
      handle.hidden = false;
      handle.style.left = `${at(time)}px`;
      handle.setAttribute("aria-valuemin", 0);
      handle.setAttribute("aria-valuemax", Math.round((to - from) / step));
      handle.setAttribute("aria-valuenow", Math.round((time - from) / step));
      handle.setAttribute("aria-valuetext", clockTime(new Date(time).toISOString()));
    });
    clear.hidden = !shown.selected;
    const isWhole = begin === from && end === to;
    status.textContent = `${isWhole ? lasted((to - from) / 1000) : `${clockTime(new Date(begin).toISOString()).slice(0, 5)} to ${clockTime(new Date(end).toISOString())}`}: ${noun(total(begin, end))}`;
  }

  function range() {
    const chosen = drag?.range || shown.selected || [shown.from, shown.to];
    return window_ ? [Math.max(window_[0], chosen[0]), Math.min(window_[1], chosen[1])] : chosen;
  }

  function total(begin, end) {
    let sum = 0;
    for (const [until, count] of shown.bins) if (until > begin && until <= end) sum += count;
    return sum;
  }

  // The range

  function timeAt(event) {
    const box = plot.getBoundingClientRect();
    const time = shown.from + ((shown.to - shown.from) * (event.clientX - box.left)) / box.width;
    return Math.max(shown.from, Math.min(shown.to, shown.from + Math.round((time - shown.from) / shown.step) * shown.step));
  }

  function press(event) {
    if (event.button) return;
    stop();
    plot.setPointerCapture(event.pointerId);
    drag = { start: timeAt(event), range: null };
  }

  function move(event) {
    if (!drag) return;
    const time = timeAt(event);
    drag.range = time === drag.start ? null : [Math.min(time, drag.start), Math.max(time, drag.start)];
    draw();
  }

  function release(event) {
    if (!drag) return;
    const { start: first, range: chosen } = drag;
    drag = null;
    // A press without a drag takes one bar, or clears the range around it.
    if (chosen) choose(...chosen);
    else if (shown.selected) select(null, null);
    else choose(Math.min(first, shown.to - shown.step), Math.min(first, shown.to - shown.step) + shown.step);
    event.preventDefault();
  }

  function keyed(event, side) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -4, PageUp: 4, Home: -Infinity, End: Infinity }[event.key];
    if (steps === undefined) return;
    event.preventDefault();
    stop();
    const next = [...range()];
    const [low, high] = side ? [next[0] + shown.step, shown.to] : [shown.from, next[1] - shown.step];
    next[side] = Math.max(low, Math.min(high, next[side] + (Number.isFinite(steps) ? steps * shown.step : steps)));
    choose(...next);
  }

  function choose(begin, end) {
    const isWhole = begin <= shown.from && end >= shown.to;
    // The next key goes on from here, although the answer for this range is still to come.
    shown = { ...shown, selected: isWhole ? null : [begin, end] };
    draw();
    if (isWhole) select(null, null);
    else select(begin, end);
  }

  // Playing

  function start() {
    const [begin, end] = shown.selected || [shown.from, shown.to];
    const wide = Math.min(WINDOW_STEPS * shown.step, end - begin);
    window_ = [begin - wide + shown.step, begin + shown.step];
    setPlaying(true);
    const tick = () => {
      if (window_[0] >= end) return stop();
      play(...range());
      draw();
      timer = setTimeout(() => { window_ = window_.map((time) => time + shown.step); tick(); }, still.matches ? STILL_MS : speed);
      return undefined;
    };
    tick();
  }

  function stop() {
    if (!timer) return;
    clearTimeout(timer);
    [timer, window_] = [0, null];
    setPlaying(false);
    play(null, null);
    draw();
  }

  function setPlaying(isPlaying) {
    toggle.textContent = isPlaying ? "❚❚" : "▶";
    toggle.title = isPlaying ? "Stop" : "Play";
    toggle.setAttribute("aria-label", toggle.title);
    announce(isPlaying ? "Playing" : "Stopped");
  }
}
