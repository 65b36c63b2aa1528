// A world map on a canvas: points in clusters, areas by value, density, pan and zoom, a box to select, and a keyboard path.
//
// createMap(place, options) fills `place`, an element with a height of its own, and returns
//   show({ points, areas, chosen, box })  what the map shows; members that are left out stay as they are
//     points  { longitude, latitude, tone, rank }: columns; `tone` is a position in `options.tones`, and a point of higher
//             `rank` is drawn over others and names its cluster
//     areas   Map of an area's id (ISO 3166-1 numeric, "004") or name to a number, for the mode "areas"
//     chosen  the id of the area that is outlined, or ""
//     box     [west, south, east, north] that is outlined, or null
//   filter(isShown)   show only the points at which this Uint8Array is 1; null shows all
//   setMode(mode)     "points", "areas" or "density"
//   fit(box)          move the view to these coordinates; without any, to the whole world
//   view()            { longitude, latitude, zoom } of the centre; setView(view) goes there
//   frames            how long the last drawn frames took, in milliseconds
// options
//   label             the map's name for screen readers
//   tones             names of CSS variables without `--mark-`, the worst first: the colour of a point, and of its share of a cluster
//   describe(members) what the card of a mark says: { title, lines }, or a promise of it; `members` are positions in the columns
//   open(members)     called for a point, or for points that no zoom separates
//   describeArea(id, name, value), openArea(id, name)   the same in the mode "areas"
//   select(box)       called with a box that the reader drew
//   moved(view)       called when the view has come to rest
//   mostZoom          how far the reader can zoom in, 60 if not given: about 200 km across the map
//   isCooperative     the wheel zooms only with Ctrl or ⌘, one finger scrolls the page: for a map inside a longer page
import { announce, el, fill } from "./dom.js";
import { loadData, loadLibrary } from "./libraries.js";
import { WORLD, clustersOf, project, shapesOf, unproject } from "./map_geometry.js";

const DETAILED_ZOOM = 2.6;
const CLUSTER_PIXELS = 30;
const PAN_PIXELS = 90;
const STEP = 1.6;
const MOVE_MS = 320;
const REST_MS = 250;
const DRAG_PIXELS = 4;
const CLASSES = 5;
const HEAT_SCALE = 4;
const KEPT_FRAMES = 240;
// The picture of the whole world that is shown at the edges while the map moves, against its size at the start.
const WORLD_SCALE = 1.5;
// Shapes across the 180th meridian are drawn on both sides of the map.
const TURNS = [0, 360, -360];
const HELP = "Arrow keys pan, plus and minus zoom, 0 shows the world. N and P go to the next and previous mark, Enter opens it.";

export function createMap(place, options) {
  const { label, tones, describe, open, select, moved = () => {}, isCooperative = false, mostZoom = 60 } = options;
  const canvas = el("canvas", { "aria-hidden": "true" });
  const card = el("div", { class: "map-card", hidden: true });
  const hint = el("p", { class: "map-hint", "aria-hidden": "true" });
  const surface = el("div", { class: "map-surface", tabindex: "0", role: "application", "aria-label": `${label}. ${HELP}`, "aria-roledescription": "map" }, canvas, card, hint);
  const boxButton = tool("Select an area", "⬚", () => setBoxing(!isBoxing));
  boxButton.setAttribute("aria-pressed", "false");
  const tools = el("div", { class: "map-tools", role: "group", "aria-label": "Map controls" },
    tool("Zoom in", "+", () => zoomBy(STEP)), tool("Zoom out", "−", () => zoomBy(1 / STEP)), tool("Whole world", "⤢", () => fit()), select && boxButton);
  fill(place, surface, tools);
  place.classList.add("world-map");
  surface.style.touchAction = isCooperative ? "pan-y" : "none";

  const context = canvas.getContext("2d");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const frames = [];
  let [width, height, ratio] = [0, 0, 1];
  let awaited = null;
  let home = { k: 1, x: 0, y: 0 };
  let at = { k: 1, x: 0, y: 0 };
  let colors = {};
  let sprites = [];
  let shapes = [];
  // While the map moves, the coarse shapes are drawn: the eye follows, and every frame is in time.
  let detailed = null;
  let isLoadingDetails = false;
  let isMoving = false;
  let land = { key: "", view: null, canvas: null };
  let world = { key: "", canvas: null };
  let landVersion = 0;
  let points = { longitude: [], latitude: [], tone: [], rank: [] };
  let [xs, ys, order] = [new Float64Array(0), new Float64Array(0), []];
  let visible = null;
  let areas = new Map();
  let steps = [];
  let [chosen, box, drawnBox] = ["", null, null];
  let mode = "points";
  let marks = [];
  const levels = new Map();
  let [hovered, focused, hoveredArea] = [null, null, null];
  let isBoxing = false;
  let motion = 0;
  let [frame, resting] = [0, 0];
  const pointers = new Map();
  let gesture = null;
  let cardNumber = 0;
  let hintTimer = 0;
  // An atlas names areas by id, and the few without one by name.
  const valueOf = (shape) => areas.get(shape.id) ?? areas.get(shape.name);
  const pointRadius = (tone) => 8 - (4.2 * tone) / Math.max(1, tones.length - 1);

  loadLibrary("topojson-client").then(() => loadData("countries-110m.json")).then(shapesOf).then((made) => {
    shapes = made;
    landVersion += 1;
    redraw();
  });
  readColors();
  new ResizeObserver(resize).observe(surface);
  new MutationObserver(() => { readColors(); redraw(); }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColors(); redraw(); });
  listen();

  return { show, filter, setMode, fit, view, setView, frames };

  // What the map shows

  function show(next) {
    if (next.points) {
      points = next.points;
      const count = points.longitude.length;
      [xs, ys] = [new Float64Array(count), new Float64Array(count)];
      for (let one = 0; one < count; one += 1) [xs[one], ys[one]] = project(points.longitude[one], points.latitude[one]);
      order = [...xs.keys()].sort((one, other) => points.rank[other] - points.rank[one]);
      visible = null;
      focused = null;
      forget();
      warm(0);
    }
    if (next.areas) {
      areas = next.areas;
      steps = classesOf([...areas.values()]);
      landVersion += 1;
    }
    if ("chosen" in next) chosen = next.chosen;
    if ("box" in next) box = next.box;
    redraw();
  }

  function filter(isShown) {
    visible = isShown;
    forget();
    redraw();
  }

  function setMode(name) {
    mode = name;
    [focused, hovered, hoveredArea] = [null, null, null];
    hideCard();
    redraw();
  }

  function forget() {
    levels.clear();
    hovered = null;
    hideCard();
  }

  /** Cluster for the zooms to come while nothing else is to be done. */
  function warm(level) {
    const current = points;
    (window.requestIdleCallback || setTimeout)(() => {
      if (current !== points || visible || 2 ** (level / 2) > mostZoom) return;
      if (width) marksAt(home.k * 2 ** (level / 2));
      warm(level + 1);
    });
  }

  function shownPoints() {
    return visible ? order.filter((one) => visible[one]) : order;
  }

  /** The marks of a zoom: half steps share their clusters, so that panning and slow zooming move nothing. */
  function marksAt(k) {
    const level = Math.round(Math.log2(k / home.k) * 2);
    if (!levels.has(level)) {
      const reach = CLUSTER_PIXELS / (home.k * 2 ** (level / 2));
      const clusters = clustersOf(xs, ys, shownPoints(), reach);
      for (const cluster of clusters) {
        cluster.counts = tones.map(() => 0);
        for (const member of cluster.members) cluster.counts[points.tone[member]] += 1;
        cluster.worst = cluster.counts.findIndex((count) => count > 0);
        cluster.radius = cluster.members.length === 1 ? pointRadius(cluster.worst) : Math.min(30, 9 + 2.6 * Math.log2(cluster.members.length));
      }
      levels.set(level, clusters);
    }
    return levels.get(level);
  }

  // The view

  function resize() {
    const [before, had] = [{ ...at }, width > 0];
    const centre = had ? unproject((width / 2 - at.x) / at.k, (height / 2 - at.y) / at.k) : null;
    [width, height, ratio] = [surface.clientWidth, surface.clientHeight, Math.min(3, devicePixelRatio || 1)];
    if (!width || !height) return;
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    const zoom = had ? before.k / home.k : 1;
    // The whole world on a wide screen; on a narrow one the height is filled, and the rest is a pan away.
    const whole = Math.min(width / (WORLD.right - WORLD.left), height / (WORLD.bottom - WORLD.top));
    const k = Math.max(whole, Math.min(1.45 * whole, height / (WORLD.bottom - WORLD.top)));
    home = { k, x: width / 2 - k * 12, y: height / 2 - (k * (WORLD.top + WORLD.bottom)) / 2 };
    levels.clear();
    sprites = [];
    if (had && zoom > 1.001) place_(centre, zoom);
    else at = bounded({ ...home });
    draw();
    awaited?.();
    awaited = null;
  }

  /** Whether the map has a size; if not yet, `move` is run once it has. */
  function isLaidOut(move) {
    if (!width) resize();
    awaited = width ? null : move;
    return width > 0;
  }

  function place_([longitude, latitude], zoom) {
    const k = home.k * zoom;
    const [x, y] = project(longitude, latitude);
    at = bounded({ k, x: width / 2 - k * x, y: height / 2 - k * y });
  }

  /** Nothing but sea on a side is not shown, except where the world is smaller than the map. */
  function bounded({ k, x, y }) {
    const clamp = (value, from, to, size) => (to - from <= size ? (size - to - from) / 2 : Math.min(-from, Math.max(size - to, value)));
    return { k, x: clamp(x, k * WORLD.left, k * WORLD.right, width), y: clamp(y, k * WORLD.top, k * WORLD.bottom, height) };
  }

  function zoomBy(factor, [x, y] = [width / 2, height / 2], { isSmooth = true } = {}) {
    const k = Math.max(home.k, Math.min(home.k * mostZoom, at.k * factor));
    const next = bounded({ k, x: x - (x - at.x) * (k / at.k), y: y - (y - at.y) * (k / at.k) });
    if (isSmooth) moveTo(next);
    else jump(next);
  }

  function fit(bounds) {
    if (!isLaidOut(() => fit(bounds))) return;
    if (!bounds) return moveTo(bounded({ ...home }));
    const [west, south, east, north] = bounds;
    const [left, bottom] = project(west, south);
    const [right, top] = project(east < west ? east + 360 : east, north);
    const k = Math.max(home.k, Math.min(home.k * mostZoom, 0.8 * Math.min(width / Math.max(0.6 / mostZoom, right - left), height / Math.max(0.6 / mostZoom, bottom - top))));
    return moveTo(bounded({ k, x: width / 2 - (k * (left + right)) / 2, y: height / 2 - (k * (top + bottom)) / 2 }));
  }

  function view() {
    const [longitude, latitude] = unproject((width / 2 - at.x) / at.k, (height / 2 - at.y) / at.k);
    return { longitude, latitude, zoom: at.k / home.k };
  }

  function setView({ longitude, latitude, zoom }) {
    if (!isLaidOut(() => setView({ longitude, latitude, zoom }))) return;
    place_([longitude, latitude], Math.max(1, Math.min(mostZoom, zoom)));
    jump(at);
  }

  function jump(next) {
    cancelAnimationFrame(motion);
    at = next;
    rest();
    redraw();
  }

  function moveTo(next) {
    cancelAnimationFrame(motion);
    if (still.matches) return jump(next);
    isMoving = true;
    const [start, from] = [performance.now(), { ...at }];
    const step = (now) => {
      const part = Math.min(1, (now - start) / MOVE_MS);
      const eased = 1 - (1 - part) ** 3;
      // The scale changes by a constant factor, the centre with it.
      const k = from.k * (next.k / from.k) ** eased;
      const share = Math.abs(next.k - from.k) < 1e-9 ? eased : (k - from.k) / (next.k - from.k);
      at = { k, x: from.x + (next.x - from.x) * share, y: from.y + (next.y - from.y) * share };
      draw();
      if (part < 1) motion = requestAnimationFrame(step);
      else rest();
    };
    motion = requestAnimationFrame(step);
    return undefined;
  }

  function rest() {
    surface.dataset.zoom = (at.k / home.k).toFixed(1);
    clearTimeout(resting);
    isMoving = true;
    resting = setTimeout(() => { isMoving = false; redraw(); moved(view()); }, REST_MS);
    if (at.k < home.k * DETAILED_ZOOM || isLoadingDetails) return;
    isLoadingDetails = true;
    loadData("countries-50m.json").then(shapesOf).then((made) => { detailed = made; redraw(); }, () => { isLoadingDetails = false; });
  }

  // Drawing

  function readColors() {
    const style = getComputedStyle(document.documentElement);
    // A canvas does not resolve light-dark(): an element does.
    const probe = el("span", { hidden: true });
    document.body.append(probe);
    const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    colors = Object.fromEntries(["sea", "land", "line", "text", "dim", "raised", "accent", "ground", "border"].map((name) => [name, read(name)]));
    colors.tones = tones.map((tone) => read(`mark-${tone}`));
    colors.scale = Array.from({ length: CLASSES }, (_, step) => read(`scale-${step + 1}`));
    sprites = [];
    landVersion += 1;
    colors.font = style.fontFamily || getComputedStyle(document.body).fontFamily;
    probe.remove();
  }

  function redraw() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(draw);
  }

  function draw() {
    if (!width || !height) return;
    const started = performance.now();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    placeMarks();
    const countries = drawLand();
    if (mode === "density") drawDensity();
    drawNames(countries);
    if (mode === "points") drawMarks();
    drawBoxes();
    frames.push(performance.now() - started);
    if (frames.length > KEPT_FRAMES) frames.shift();
  }

  /** Draw the countries, and return those in view. While the map moves, pictures of them are moved instead. */
  function drawLand() {
    if (isMoving && land.canvas) drawMovedLand();
    else {
      const key = JSON.stringify([at, width, height, ratio, mode, chosen, hoveredArea?.id, landVersion, drawnShapes() === detailed]);
      if (land.key !== key) {
        land = { key, view: { ...at }, canvas: land.canvas || new OffscreenCanvas(1, 1) };
        paintLand(land.canvas, at, width, height, drawnShapes());
      }
      context.drawImage(land.canvas, 0, 0, width, height);
    }
    return shapesIn(at, width, height, drawnShapes()).filter(({ turn }) => !turn);
  }

  /** The last picture at its place in the present view, over one of the whole world, which has fewer points. */
  function drawMovedLand() {
    const worldKey = JSON.stringify([home.k, ratio, mode, chosen, landVersion]);
    const [worldWidth, worldHeight] = [WORLD.right - WORLD.left, WORLD.bottom - WORLD.top];
    if (world.key !== worldKey) {
      const k = home.k * WORLD_SCALE;
      world = { key: worldKey, canvas: world.canvas || new OffscreenCanvas(1, 1) };
      paintLand(world.canvas, { k, x: -k * WORLD.left, y: -k * WORLD.top }, k * worldWidth, k * worldHeight, shapes);
    }
    context.fillStyle = colors.sea;
    context.fillRect(0, 0, width, height);
    context.drawImage(world.canvas, at.k * WORLD.left + at.x, at.k * WORLD.top + at.y, at.k * worldWidth, at.k * worldHeight);
    const scale = at.k / land.view.k;
    context.drawImage(land.canvas, at.x - land.view.x * scale, at.y - land.view.y * scale, width * scale, height * scale);
  }

  function shapesIn(view, wide, high, all) {
    const isIn = ({ left, right, top, bottom }, turn) => view.k * (right + turn) + view.x > 0 && view.k * (left + turn) + view.x < wide && view.k * bottom + view.y > 0 && view.k * top + view.y < high;
    return all.flatMap((shape) => TURNS.filter((turn) => isIn(shape.bounds, turn)).map((turn) => ({ shape, turn })));
  }

  function paintLand(picture, view, wide, high, all) {
    [picture.width, picture.height] = [Math.round(wide * ratio), Math.round(high * ratio)];
    const ink = picture.getContext("2d");
    const use = (turn) => ink.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * (view.x + view.k * turn), ratio * view.y);
    ink.fillStyle = colors.sea;
    ink.fillRect(0, 0, picture.width, picture.height);
    const shown = shapesIn(view, wide, high, all);
    for (const { shape, turn } of shown) {
      use(turn);
      ink.lineWidth = 0.8 / view.k;
      ink.strokeStyle = colors.border;
      ink.fillStyle = mode === "areas" ? areaColor(shape) : colors.land;
      ink.fill(shape.path, "evenodd");
      ink.stroke(shape.path);
    }
    for (const { shape, turn } of shown) {
      if (shape.id !== chosen && shape.id !== hoveredArea?.id) continue;
      use(turn);
      ink.lineWidth = (shape.id === chosen ? 2 : 1.4) / view.k;
      ink.strokeStyle = shape.id === chosen ? colors.accent : colors.text;
      ink.stroke(shape.path);
    }
  }

  function drawnShapes() {
    return detailed && !isMoving && at.k >= home.k * DETAILED_ZOOM ? detailed : shapes;
  }

  /** Names of the countries that have room for them, where no mark stands. */
  function drawNames(shown) {
    context.font = `500 11px ${colors.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillStyle = mode === "areas" ? colors.text : colors.dim;
    context.strokeStyle = mode === "areas" ? colors.raised : colors.land;
    context.lineWidth = 2.5;
    for (const { shape: { name, largest } } of shown) {
      const room = at.k * (largest.right - largest.left);
      if (room < 58 || room < 7 * name.length || at.k * (largest.bottom - largest.top) < 24) continue;
      const [x, y] = [at.k * (largest.left + largest.right) / 2 + at.x, at.k * (largest.top + largest.bottom) / 2 + at.y];
      if (marks.some(({ left, top, radius }) => Math.abs(left - x) < radius + 3.4 * name.length && Math.abs(top - y) < radius + 7)) continue;
      context.strokeText(name, x, y);
      context.fillText(name, x, y);
    }
  }

  function areaColor(shape) {
    const value = valueOf(shape);
    if (!value) return colors.land;
    return colors.scale[Math.max(0, steps.findIndex((limit) => value <= limit))] || colors.scale[CLASSES - 1];
  }

  function placeMarks() {
    marks = [];
    for (const cluster of mode === "points" ? marksAt(at.k) : []) {
      const [x, y] = [at.k * cluster.x + at.x, at.k * cluster.y + at.y];
      if (x < -40 || x > width + 40 || y < -40 || y > height + 40) continue;
      cluster.left = x;
      cluster.top = y;
      marks.push(cluster);
    }
  }

  function drawMarks() {
    context.font = `600 11px ${colors.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    // The least important are drawn first, under the others.
    for (let one = marks.length - 1; one >= 0; one -= 1) drawMark(marks[one]);
    const active = focused || hovered;
    const mark = active && marks.find((one) => one.members[0] === active.members[0]);
    if (mark) {
      context.lineWidth = 2.5;
      context.strokeStyle = colors.text;
      circle(context, mark.left, mark.top, mark.radius + 4);
      context.stroke();
    }
  }

  /** One point by its tone: the worst has two rings, the least is hollow. Several: a ring of shares around their number. */
  function drawMark({ left, top, radius, counts, worst, members }) {
    if (members.length === 1) {
      const sprite = spriteOf(worst, radius);
      const side = sprite.width / ratio;
      context.drawImage(sprite, left - side / 2, top - side / 2, side, side);
      return;
    }
    context.fillStyle = colors.raised;
    circle(context, left, top, radius + 1);
    context.fill();
    let angle = -Math.PI / 2;
    context.lineWidth = 4.5;
    counts.forEach((count, tone) => {
      if (!count) return;
      const end = angle + (2 * Math.PI * count) / members.length;
      context.beginPath();
      context.arc(left, top, radius - 1.5, angle, end);
      context.strokeStyle = colors.tones[tone];
      context.stroke();
      angle = end;
    });
    context.fillStyle = colors.text;
    context.fillText(members.length > 9999 ? `${Math.round(members.length / 1000)}k` : String(members.length), left, top + 0.5);
  }

  /** The picture of a point by its tone, drawn once: most marks are points. */
  function spriteOf(worst, radius) {
    if (!sprites[worst]) {
      const side = Math.ceil((2 * radius + 12) * ratio);
      sprites[worst] = new OffscreenCanvas(side, side);
      const ink = sprites[worst].getContext("2d");
      ink.setTransform(ratio, 0, 0, ratio, side / 2, side / 2);
      drawPoint(ink, worst, radius);
    }
    return sprites[worst];
  }

  function drawPoint(ink, worst, radius) {
    const isHollow = worst === tones.length - 1 && tones.length > 1;
    ink.lineWidth = 1.6;
    circle(ink, 0, 0, radius);
    ink.globalAlpha = isHollow ? 0.35 : 0.92;
    ink.fillStyle = colors.tones[worst];
    ink.fill();
    ink.globalAlpha = 1;
    ink.strokeStyle = isHollow ? colors.tones[worst] : colors.raised;
    ink.stroke();
    if (worst > 0) return;
    ink.strokeStyle = colors.tones[0];
    ink.lineWidth = 1.5;
    circle(ink, 0, 0, radius + 3);
    ink.stroke();
  }

  function circle(ink, x, y, radius) {
    ink.beginPath();
    ink.arc(x, y, radius, 0, 2 * Math.PI);
  }

  /** Points as light that adds up, in few pixels, with the colours of the scale. */
  function drawDensity() {
    const [columns, rows] = [Math.ceil(width / HEAT_SCALE), Math.ceil(height / HEAT_SCALE)];
    const small = new OffscreenCanvas(columns, rows);
    const ink = small.getContext("2d", { willReadFrequently: true });
    const radius = Math.round((18 * Math.min(2.5, Math.sqrt(at.k / home.k))) / HEAT_SCALE) + 3;
    const spot = ink.createRadialGradient(0, 0, 0, 0, 0, radius);
    const shown = shownPoints();
    spot.addColorStop(0, `rgb(0 0 0 / ${Math.max(0.03, Math.min(0.35, 5 / Math.sqrt(shown.length + 1)))})`);
    spot.addColorStop(1, "rgb(0 0 0 / 0)");
    ink.fillStyle = spot;
    for (const one of shown) {
      const [x, y] = [(at.k * xs[one] + at.x) / HEAT_SCALE, (at.k * ys[one] + at.y) / HEAT_SCALE];
      if (x < -radius || x > columns + radius || y < -radius || y > rows + radius) continue;
      ink.setTransform(1, 0, 0, 1, x, y);
      ink.fillRect(-radius, -radius, 2 * radius, 2 * radius);
    }
    const image = ink.getImageData(0, 0, columns, rows);
    const scale = colors.scale.map(channels);
    let most = 1;
    for (let one = 3; one < image.data.length; one += 4) most = Math.max(most, image.data[one]);
    for (let one = 0; one < image.data.length; one += 4) {
      const amount = image.data[one + 3] / most;
      if (!amount) continue;
      // Between two colours of the scale, so that no edge is seen that is not in the data.
      const step = Math.min(CLASSES - 1.001, amount * (CLASSES - 1));
      const [low, high] = [scale[Math.floor(step)], scale[Math.floor(step) + 1]];
      for (let channel = 0; channel < 3; channel += 1) image.data[one + channel] = low[channel] + (high[channel] - low[channel]) * (step % 1);
      image.data[one + 3] = 255 * Math.min(0.88, 2.2 * amount);
    }
    ink.setTransform(1, 0, 0, 1, 0, 0);
    ink.putImageData(image, 0, 0);
    context.imageSmoothingQuality = "high";
    context.drawImage(small, 0, 0, columns * HEAT_SCALE, rows * HEAT_SCALE);
  }

  function drawBoxes() {
    for (const [one, isNew] of [[box, false], [drawnBox, true]]) {
      if (!one) continue;
      const [left, top] = isNew ? [one.left, one.top] : toScreen(one[0], one[3]);
      const [right, bottom] = isNew ? [one.right, one.bottom] : toScreen(one[2], one[1]);
      context.setLineDash(isNew ? [5, 4] : []);
      context.lineWidth = 1.5;
      context.strokeStyle = colors.accent;
      // A box over the 180th meridian is open at both sides of the map.
      if (left <= right) context.strokeRect(left, top, right - left, bottom - top);
      else {
        context.strokeRect(left, top, width * 4, bottom - top);
        context.strokeRect(right - width * 4, top, width * 4, bottom - top);
      }
    }
    context.setLineDash([]);
  }

  function toScreen(longitude, latitude) {
    const [x, y] = project(longitude, latitude);
    return [at.k * x + at.x, at.k * y + at.y];
  }

  // Pointers, wheel and keys

  function listen() {
    surface.addEventListener("wheel", (event) => {
      if (isCooperative && !event.ctrlKey && !event.metaKey) return showHint(`Hold ${/Mac/.test(navigator.platform) ? "⌘" : "Ctrl"} to zoom the map`);
      event.preventDefault();
      return zoomBy(2 ** (-event.deltaY * (event.deltaMode === 1 ? 0.05 : event.ctrlKey ? 0.008 : 0.002)), spot(event), { isSmooth: false });
    }, { passive: false });
    surface.addEventListener("pointerdown", press);
    surface.addEventListener("pointermove", drag);
    surface.addEventListener("pointerup", release);
    surface.addEventListener("pointercancel", (event) => {
      pointers.delete(event.pointerId);
      [gesture, drawnBox] = [null, null];
      redraw();
    });
    surface.addEventListener("pointerleave", () => { [hovered, hoveredArea] = [null, null]; if (!focused) hideCard(); redraw(); });
    surface.addEventListener("dblclick", (event) => zoomBy(STEP, spot(event)));
    surface.addEventListener("keydown", keyed);
    surface.addEventListener("blur", () => { focused = null; hideCard(); redraw(); });
  }

  function spot(event) {
    const frameOf = surface.getBoundingClientRect();
    return [event.clientX - frameOf.left, event.clientY - frameOf.top];
  }

  function press(event) {
    if (event.button) return;
    pointers.set(event.pointerId, spot(event));
    surface.setPointerCapture(event.pointerId);
    cancelAnimationFrame(motion);
    const from = spot(event);
    gesture = { kind: isBoxing || event.shiftKey ? "box" : "pan", from, last: from, isMoved: false };
    if (pointers.size === 2) gesture = { kind: "pinch", ...pinch(), isMoved: true };
  }

  function drag(event) {
    const here = spot(event);
    if (!pointers.has(event.pointerId)) return hover(here);
    pointers.set(event.pointerId, here);
    if (!gesture) return undefined;
    if (gesture.kind === "pinch") {
      if (pointers.size < 2) return undefined;
      const now = pinch();
      const [dx, dy] = [now.centre[0] - gesture.centre[0], now.centre[1] - gesture.centre[1]];
      at = bounded({ ...at, x: at.x + dx, y: at.y + dy });
      zoomBy(now.distance / gesture.distance, now.centre, { isSmooth: false });
      Object.assign(gesture, now);
      return undefined;
    }
    if (!gesture.isMoved && Math.hypot(here[0] - gesture.from[0], here[1] - gesture.from[1]) < DRAG_PIXELS) return undefined;
    gesture.isMoved = true;
    hideCard();
    if (gesture.kind === "box") {
      const [xsOf, ysOf] = [[gesture.from[0], here[0]], [gesture.from[1], here[1]]];
      drawnBox = { left: Math.min(...xsOf), right: Math.max(...xsOf), top: Math.min(...ysOf), bottom: Math.max(...ysOf) };
      return redraw();
    }
    at = bounded({ ...at, x: at.x + here[0] - gesture.last[0], y: at.y + here[1] - gesture.last[1] });
    gesture.last = here;
    rest();
    return redraw();
  }

  function release(event) {
    pointers.delete(event.pointerId);
    const done = gesture;
    gesture = null;
    if (!done) return;
    if (done.kind === "box" && drawnBox) {
      const { left, right, top, bottom } = drawnBox;
      drawnBox = null;
      finishBox(left, right, top, bottom);
    } else if (!done.isMoved) click(spot(event));
    redraw();
  }

  function pinch() {
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return { centre: [(ax + bx) / 2, (ay + by) / 2], distance: Math.max(1, Math.hypot(bx - ax, by - ay)) };
  }

  function finishBox(left, right, top, bottom) {
    setBoxing(false);
    const [west, north] = unproject((left - at.x) / at.k, (top - at.y) / at.k);
    const [east, south] = unproject((right - at.x) / at.k, (bottom - at.y) / at.k);
    select([west, south, east, north].map((one) => Math.round(one * 100) / 100));
  }

  function setBoxing(isOn) {
    isBoxing = isOn;
    boxButton.setAttribute("aria-pressed", String(isOn));
    surface.classList.toggle("is-boxing", isOn);
    surface.style.touchAction = isOn || !isCooperative ? "none" : "pan-y";
    if (isOn) {
      showHint("Drag over the area. Enter takes the whole view.");
      announce("Drag over the area, or press Enter to take the whole view.");
      surface.focus({ preventScroll: true });
    }
  }

  function markAt([x, y]) {
    let [best, least] = [null, Infinity];
    for (const mark of mode === "points" ? marks : []) {
      const distance = Math.hypot(mark.left - x, mark.top - y) - mark.radius;
      if (distance < 7 && distance < least) [best, least] = [mark, distance];
    }
    return best;
  }

  function areaAt([x, y]) {
    const [px, py] = [(x - at.x) / at.k, (y - at.y) / at.k];
    context.setTransform(1, 0, 0, 1, 0, 0);
    return drawnShapes().find(({ bounds, path }) => TURNS.some((turn) => px - turn >= bounds.left && px - turn <= bounds.right && py >= bounds.top && py <= bounds.bottom && context.isPointInPath(path, px - turn, py, "evenodd")));
  }

  function hover(here) {
    if (mode === "areas") {
      const area = areaAt(here) || null;
      if (area !== hoveredArea) {
        hoveredArea = area;
        redraw();
      }
      if (area && options.describeArea) return showCard(options.describeArea(area.id, area.name, valueOf(area) || 0), ...here);
      return hideCard();
    }
    const mark = markAt(here);
    if (mark?.members[0] === hovered?.members[0]) return undefined;
    hovered = mark;
    surface.style.cursor = mark ? "pointer" : "";
    redraw();
    if (mark) return showCard(describe(mark.members), mark.left, mark.top - mark.radius);
    return hideCard();
  }

  function click(here) {
    if (mode === "areas") {
      const area = areaAt(here);
      if (area && options.openArea) options.openArea(area.id, area.name);
      return;
    }
    const mark = markAt(here);
    if (mark) activate(mark);
  }

  /** Zoom into a cluster that a zoom separates; open anything else. */
  function activate(mark) {
    const { members } = mark;
    const [left, right] = [Math.min(...members.map((one) => xs[one])), Math.max(...members.map((one) => xs[one]))];
    const [top, bottom] = [Math.min(...members.map((one) => ys[one])), Math.max(...members.map((one) => ys[one]))];
    if (members.length === 1 || Math.max(right - left, bottom - top) * home.k * mostZoom < 2 * CLUSTER_PIXELS) return open(members);
    if (at.k >= home.k * mostZoom * 0.99) return open(members);
    const [west, north] = unproject(left, top);
    const [east, south] = unproject(right, bottom);
    hideCard();
    focused = null;
    return fit([west, south, east, north]);
  }

  function keyed(event) {
    const { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const pan = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[key];
    const act = pan ? () => moveTo(bounded({ ...at, x: at.x + pan[0] * PAN_PIXELS, y: at.y + pan[1] * PAN_PIXELS }))
      : { "+": () => zoomBy(STEP), "=": () => zoomBy(STEP), "-": () => zoomBy(1 / STEP), 0: () => fit(), n: () => walk(1), p: () => walk(-1), Enter: enter, " ": enter, Escape: leave }[key];
    if (!act || (key === "Escape" && !focused && !isBoxing)) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  function walk(by) {
    const inView = mode === "points" ? marks.filter(({ left, top }) => left >= 0 && left <= width && top >= 0 && top <= height) : [];
    if (!inView.length) return announce("No marks in view.");
    const now = focused ? inView.findIndex((one) => one.members[0] === focused.members[0]) : -1;
    focused = inView[(now + by + inView.length + (now < 0 && by < 0 ? 1 : 0)) % inView.length];
    const said = describe(focused.members);
    showCard(said, focused.left, focused.top - focused.radius);
    Promise.resolve(said).then(({ title, lines }) => announce([title, ...lines].join(". ")));
    return redraw();
  }

  function enter() {
    if (isBoxing) finishBox(0, width, 0, height);
    else if (focused) activate(focused);
  }

  function leave() {
    if (isBoxing) setBoxing(false);
    focused = null;
    hideCard();
    redraw();
  }

  // The card and the hint

  function showCard(said, x, y) {
    cardNumber += 1;
    const mine = cardNumber;
    Promise.resolve(said).then((text) => {
      if (mine !== cardNumber || !text) return;
      fill(card, el("strong", {}, text.title), text.lines.map((line) => el("span", {}, line)));
      card.hidden = false;
      const left = Math.max(6, Math.min(width - card.offsetWidth - 6, x - card.offsetWidth / 2));
      const above = y - card.offsetHeight - 10;
      card.style.transform = `translate(${left}px, ${above > 4 ? above : y + 34}px)`;
    });
  }

  function hideCard() {
    cardNumber += 1;
    card.hidden = true;
  }

  function showHint(text) {
    hint.textContent = text;
    hint.classList.add("is-shown");
    clearTimeout(hintTimer);
    hintTimer = setTimeout(() => hint.classList.remove("is-shown"), 1600);
  }
}

/** The upper limits of classes that hold about the same number of areas each. */
export function classesOf(values) {
  const sorted = values.filter(Boolean).sort((one, other) => one - other);
  if (!sorted.length) return [];
  const limits = Array.from({ length: CLASSES }, (_, step) => sorted[Math.ceil(((step + 1) * sorted.length) / CLASSES) - 1]);
  return [...new Set(limits)];
}

function tool(label, sign, act) {
  return el("button", { type: "button", class: "quiet", "aria-label": label, title: label, onclick: act }, sign);
}

const channels = (color) => (color.match(/[\d.]+/g) || []).slice(0, 3).map(Number);
