// Calls to the feeds, each cached.
import { moment } from "../format.js";
import { callOnce, factsOf, query } from "../server.js";

const fetchFeed = async (path) => (await callOnce("defense", path)).members;

export const SEVERITIES = ["critical", "high", "medium", "low"];
export const CATEGORIES = ["Battles", "Protests", "Political", "Economic"];

const declared = factsOf("defense");
// `entity` opens an entity on these pages, so that the filter of that name is the API's alone.
export const FILTER_NAMES = (declared.filters || []).map(({ name }) => name).filter((name) => name !== "entity");
const CONTROLLED = ["category", "country", "severity_tier", "region", "q", "bbox", "since", "until"];
/** The filters of the events feed that have no control of their own on the board. */
export const OTHER_FILTERS = (declared.filters || []).filter(({ name }) => FILTER_NAMES.includes(name) && !CONTROLLED.includes(name));
const OF_STORIES = ["category", "country", "q", "since"];
const FACETS = "category,severity_tier,country,region,reported_at";

/** The filters that are set, of the values of an address. */
export const filtersOf = (given) => Object.fromEntries(FILTER_NAMES.filter((name) => given[name]).map((name) => [name, given[name]]));
/** Whether a filter is set that only the events feed has. */
export const hasEventFilters = (given) => Object.keys(filtersOf(given)).some((name) => !OF_STORIES.includes(name));
/** The requests behind the board, as `apiButton` takes them. */
export const requestsOf = (given) => [
  { title: "Events", service: "defense", path: "/feeds/events", query: filtersOf(given) },
  { title: "Positions and counts", service: "defense", path: "/feeds/events/points", query: { ...filtersOf(given), facets: FACETS } },
  { title: "Stories", service: "defense", path: "/feeds/stories", query: storyFilters(given) },
];

const storyFilters = (given) => Object.fromEntries(OF_STORIES.filter((name) => given[name]).map((name) => [name, given[name]]));

export const events = (given, { limit, cursor } = {}) => fetchFeed(`/feeds/events${query({ ...filtersOf(given), limit, cursor })}`);
export const points = (given) => fetchFeed(`/feeds/events/points${query({ ...filtersOf(given), facets: FACETS })}`);
export const topStories = (given, limit) => fetchFeed(`/feeds/stories${query({ ...storyFilters(given), limit })}`);
export const summary = () => fetchFeed("/feeds/defense-brief/summary");
export const NO_POINTS = { longitude: [], latitude: [], tone: [], rank: [] };

const areas = new Map(Object.entries(declared.countries || {}));
const names = new Map([...areas].map(([name, area]) => [area, name]));
/** The id of a country's shape on the map, and the country of an id. */
export const areaOf = (name) => areas.get(name);
export const countryOf = (area) => names.get(area);
export const iso = (time) => new Date(time).toISOString().replace(".000Z", "Z");

export const stories = ({ category, country, q } = {}, cursor) =>
  fetchFeed(`/feeds/stories${query({ limit: 50, category, country, q, cursor })}`);
export const entities = ({ type, q }, cursor) => fetchFeed(`/feeds/entities${query({ limit: 100, type, q, cursor })}`);
/** The window of a page of a feed in words: whether it is a recording, its end, and how much of it was read. */
export function windowOf(page) {
  const kind = page.recording ? `the recording ${page.recording}` : page.source && `${page.source} data${page.stale ? ", stale" : ""}`;
  const read = page.coverage < 1 && `${Math.round(100 * page.coverage)}% of it was read`;
  const about = [kind, read].filter(Boolean).join("; ");
  return `the ${page.window_hours} hours up to ${moment(page.as_of)}${about && ` (${about})`}`;
}

export const brief = () => fetchFeed("/feeds/defense-brief");
export const event = (id) => fetchFeed(`/feeds/events/${encodeURIComponent(id)}`);

export const story = (id) => fetchFeed(`/feeds/stories/${encodeURIComponent(id)}`);
export const entity = (id) => fetchFeed(`/feeds/entities/${encodeURIComponent(id)}`);
