// Positions of the names in the graph, so that none covers another name or a circle.

const GAP = 3;
const SIDES = ["right", "left", "below", "above"];
const drawing = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** The side of its circle for each name that fits into `view`; earlier names have priority. */
export function placedNames(named, nodes, size, view) {
  const taken = nodes.map((node) => ({ x: node.x - node.size, y: node.y - node.size, width: 2 * node.size, height: 2 * node.size }));
  const sides = new Map();
  for (const node of named) {
    const side = SIDES.find((one) => isWithin(nameBox(node, one, size), view) && isFree(nameBox(node, one, size), taken));
    if (!side) continue;
    sides.set(node.id, side);
    taken.push(nameBox(node, side, size));
  }
  return sides;
}

/** The box of a name on that side of its circle, with letters `size` high. */
export function nameBox(node, side, size) {
  const [width, height] = [widthOf(node.name) * size, size * 1.15];
  const away = node.size + GAP;
  const x = { right: node.x + away, left: node.x - away - width, below: node.x - width / 2, above: node.x - width / 2 }[side];
  const y = { right: node.y - height / 2, left: node.y - height / 2, below: node.y + away, above: node.y - away - height }[side];
  return { x, y, width, height };
}

function isWithin(box, view) {
  return box.x >= view.x && box.y >= view.y && box.x + box.width <= view.x + view.width && box.y + box.height <= view.y + view.height;
}

function isFree(box, taken) {
  return taken.every((one) => box.x >= one.x + one.width || one.x >= box.x + box.width || box.y >= one.y + one.height || one.y >= box.y + box.height);
}

/** The width of a text in the page's bold font at size 1. */
function widthOf(text) {
  if (!widths.has(text)) {
    drawing.font = `700 100px ${getComputedStyle(document.body).fontFamily}`;
    widths.set(text, drawing.measureText(text).width / 100);
  }
  return widths.get(text);
}
