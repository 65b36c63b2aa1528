// A small map of the places of a story, an event or an entity. The map is loaded once the drawer stands.
import { go } from "../address.js";
import { el } from "../dom.js";
import { counted } from "../format.js";
import { SEVERITIES } from "./feeds.js";

const LEAST_DEGREES = 7;

/** `places`: `{longitude, latitude, tier, title, lines, event}`. A place with `event` opens it. */
export function placeMap(places, label) {
  const place = el("div", { class: "place-map" });
  import("../world_map.js").then(({ createMap }) => {
    const column = (name) => places.map((one) => one[name]);
    const map = createMap(place, {
      label, tones: SEVERITIES, isCooperative: true, open: ([first]) => places[first].event && go({ event: places[first].event, story: "", entity: "" }),
      describe: (members) => (members.length === 1 ? { title: places[members[0]].title, lines: places[members[0]].lines } : { title: counted(members.length, "event"), lines: members.slice(0, 3).map((one) => places[one].title) }),
    });
    const tone = places.map((one) => Math.max(0, SEVERITIES.indexOf(one.tier)));
    map.show({ points: { longitude: column("longitude"), latitude: column("latitude"), tone, rank: tone.map((at) => -at) } });
    const sized = new ResizeObserver(() => {
      if (!place.clientWidth) return;
      sized.disconnect();
      requestAnimationFrame(() => map.fit(around(column("longitude"), column("latitude"))));
    });
    sized.observe(place);
  });
  return place;
}

/** A box around the places, with room beside them. */
function around(longitudes, latitudes) {
  const [west, east, south, north] = [Math.min(...longitudes), Math.max(...longitudes), Math.min(...latitudes), Math.max(...latitudes)];
  const [wide, high] = [Math.max(LEAST_DEGREES, (east - west) * 0.25), Math.max(LEAST_DEGREES, (north - south) * 0.25)];
  return [Math.max(-180, west - wide), Math.max(-80, south - high), Math.min(180, east + wide), Math.min(84, north + high)];
}
