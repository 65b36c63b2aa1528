// The geometry of the map: the projection, the shapes of countries as canvas paths, and clusters of points.

const RADIANS = Math.PI / 180;
/** The map is cut off at these latitudes: there is nothing but ice beyond. */
export const [SOUTH, NORTH] = [-58, 82];

/**
 * Miller's cylindrical projection, in degrees of longitude: meridians are straight and vertical, so that a box on the
 * screen is a box of coordinates, and the poles are exaggerated less than in Mercator's. y grows to the south.
 */
export const project = (longitude, latitude) => [longitude, -millerY(latitude)];

export const unproject = (x, y) => [Math.max(-180, Math.min(180, x)), Math.max(-90, Math.min(90, 2.5 * (Math.atan(Math.exp((-0.8 * y) * RADIANS)) - Math.PI / 4) / RADIANS))];

const millerY = (latitude) => (1.25 * Math.log(Math.tan(Math.PI / 4 + 0.4 * latitude * RADIANS))) / RADIANS;

export const WORLD = { left: -180, right: 180, top: -millerY(NORTH), bottom: -millerY(SOUTH) };

// Antarctica: its ring goes around the pole, and the map ends north of it.
const LEFT_OUT = new Set(["010"]);

const SLICE_MS = 12;

/** The countries of an atlas, each as a path in projected units with its bounds and the place for its name; in slices of time. */
export async function shapesOf(atlas) {
  const shapes = [];
  let started = performance.now();
  for (const geometry of atlas.objects.countries.geometries) {
    if (LEFT_OUT.has(geometry.id)) continue;
    shapes.push(shapeOf(globalThis.topojson.feature(atlas, geometry)));
    if (performance.now() - started < SLICE_MS) continue;
    await new Promise((done) => setTimeout(done));
    started = performance.now();
  }
  return shapes;
}

function shapeOf(feature) {
  const polygons = feature.geometry.type === "Polygon" ? [feature.geometry.coordinates] : feature.geometry.coordinates;
  const path = new Path2D();
  const bounds = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  let largest = { area: 0 };
  for (const polygon of polygons) {
    polygon.forEach((ring, at) => {
      const own = trace(path, ring);
      const area = (own.right - own.left) * (own.bottom - own.top);
      if (at === 0 && area > largest.area) largest = { area, ...own };
      bounds.left = Math.min(bounds.left, own.left);
      bounds.right = Math.max(bounds.right, own.right);
      bounds.top = Math.min(bounds.top, own.top);
      bounds.bottom = Math.max(bounds.bottom, own.bottom);
    });
  }
  return { id: feature.id || feature.properties.name, name: feature.properties.name, path, bounds, largest };
}

/** Add a ring. Where it crosses the 180th meridian it goes on beyond 180 degrees: the map draws it on both sides. */
function trace(path, ring) {
  const bounds = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  let turns = 0;
  ring.forEach(([longitude, latitude], at) => {
    const jump = at ? longitude - ring[at - 1][0] : 0;
    if (Math.abs(jump) > 180) turns -= 360 * Math.sign(jump);
    const [x, y] = project(longitude + turns, latitude);
    if (at) path.lineTo(x, y);
    else path.moveTo(x, y);
    bounds.left = Math.min(bounds.left, x);
    bounds.right = Math.max(bounds.right, x);
    bounds.top = Math.min(bounds.top, y);
    bounds.bottom = Math.max(bounds.bottom, y);
  });
  path.closePath();
  return bounds;
}

/**
 * Group points that lie within `reach` of each other: `xs` and `ys` are projected, `order` has the positions of the points
 * to group, the most important first; each of these takes the ungrouped points near it. Returns `{x, y, members}`, where the
 * centre is the mean of the members.
 */
export function clustersOf(xs, ys, order, reach) {
  const cells = new Map();
  const cell = (x, y) => Math.floor(x / reach) * 65_536 + Math.floor(y / reach);
  for (const at of order) {
    const key = cell(xs[at], ys[at]);
    const there = cells.get(key);
    if (there) there.push(at);
    else cells.set(key, [at]);
  }
  const isTaken = new Uint8Array(xs.length);
  const clusters = [];
  for (const at of order) {
    if (isTaken[at]) continue;
    const members = [];
    let [sumX, sumY] = [0, 0];
    for (let column = -1; column <= 1; column += 1) {
      for (let row = -1; row <= 1; row += 1) {
        for (const other of cells.get(cell(xs[at] + column * reach, ys[at] + row * reach)) || []) {
          if (isTaken[other] || (xs[other] - xs[at]) ** 2 + (ys[other] - ys[at]) ** 2 > reach * reach) continue;
          isTaken[other] = 1;
          members.push(other);
          sumX += xs[other];
          sumY += ys[other];
        }
      }
    }
    clusters.push({ x: sumX / members.length, y: sumY / members.length, members });
  }
  return clusters;
}
