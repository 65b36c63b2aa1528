// The map of a table: all matching rows that have a position, or an even sample of very many.
import { go } from "../address.js";
import { openDrawer } from "../drawer.js";
import { el, fill, rooted } from "../dom.js";
import { counted, errorNotice, number } from "../format.js";
import { callOnce, query } from "../server.js";
import { createMap } from "../world_map.js";
import { formatValue, heading, nameOf } from "./cells.js";
import { filters } from "./query.js";

const LISTED = 12;
const LINES = 3;
// A row may be a shop or a station: streets apart.
const MOST_ZOOM = 20_000;
let map = null;
let points = null;
let latest = "";

/** Show the rows that match the address in `place`. */
export async function showMap(place, { service, fields, page, position }, title) {
  const path = `/api/points${query(filters(fields))}`;
  if (path === latest) return;
  latest = path;
  const note = place.querySelector(".note") || el("p", { class: "small dim note", role: "status" }, "Loading positions…");
  if (!map) {
    const surface = el("div", { class: "place" });
    fill(place, surface, note);
    map = createMap(surface, { label: "Map of the matching rows", tones: ["place"], mostZoom: MOST_ZOOM, describe, open, select: selectOf() });
  }
  try {
    const { members } = await callOnce(service, path);
    if (latest !== path) return;
    const isFirst = points === null;
    points = members;
    map.show({ points: { longitude: Float64Array.from(members.longitude), latitude: Float64Array.from(members.latitude), tone: new Uint8Array(members.count), rank: new Float64Array(members.count) } });
    if (isFirst && members.count > 0) map.fit(boxOf(members));
    note.textContent = summary(members);
  } catch (error) {
    if (!error.problem) throw error;
    latest = "";
    fill(note, errorNotice(error, () => showMap(place, { service, fields, page, position }, title)));
  }

  async function describe(members) {
    if (members.length > 1) return { title: counted(members.length, "row"), lines: [] };
    const item = await itemAt(members[0]);
    const lines = fields.filter((field) => field.is_shown && field !== title && item[field.name] !== null && ["keyword", "list", "integer", "number", "money", "date"].includes(field.type) && ![position.latitude, position.longitude].includes(field.name));
    return { title: nameOf(item, title), lines: lines.slice(0, LINES).map((field) => `${heading(field).label}: ${formatValue(field, item[field.name])}`) };
  }

  async function open(members) {
    if (members.length === 1) return location.assign(rooted(rowPath(points.id[members[0]])));
    const drawer = openDrawer({ title: counted(members.length, "row"), body: el("p", { class: "dim" }, "Loading…") });
    const items = await Promise.all(members.slice(0, LISTED).map(itemAt));
    drawer.show(counted(members.length, "row"), [el("ul", {}, items.map((item) => el("li", {}, el("a", { href: rowPath(item.id) }, nameOf(item, title))))),
      members.length > LISTED && el("p", { class: "small dim" }, `The first ${LISTED}. Narrow the filters to see the others.`)]);
  }

  function selectOf() {
    const [latitude, longitude] = [position.latitude, position.longitude].map((name) => fields.find((field) => field.name === name));
    if (latitude === longitude || !latitude.is_ranged || !longitude.is_ranged) return undefined;
    return ([west, south, east, north]) => go({ [`min_${longitude.name}`]: west, [`max_${longitude.name}`]: east, [`min_${latitude.name}`]: south, [`max_${latitude.name}`]: north, offset: "" });
  }

  async function itemAt(at) {
    return (await callOnce(service, `/api/items/${encodeURIComponent(points.id[at])}`)).members.item;
  }

  function rowPath(id) {
    return `${page}/row${query({ id })}`;
  }
}

function summary({ total, located, count, is_sample: isSample }) {
  if (total === 0) return "No row matches.";
  const having = located === total ? counted(total, "row") : `${number(located)} of ${counted(total, "row")} have a position`;
  return isSample ? `${having}. The map shows an even sample of ${number(count)}; filter to see every row.` : `${having}.`;
}

const boxOf = ({ longitude, latitude }) => {
  const ends = (numbers) => numbers.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
  const [[west, east], [south, north]] = [ends(longitude), ends(latitude)];
  return [west, south, east, north];
};
