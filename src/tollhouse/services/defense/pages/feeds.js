// Calls to the feeds, each cached.
import { moment } from "../format.js";
import { callOnce, facts, query } from "../server.js";

const fetchFeed = async (path) => (await callOnce("defense", path)).members;

export const SEVERITIES = ["critical", "high", "medium", "low"];
export const CATEGORIES = ["Battles", "Protests", "Political", "Economic"];

/** The filters of the events feed that have no control of their own on the map view; `entity` opens an entity there. */
export const OTHER_FILTERS = (facts?.filters || []).filter(({ name }) => !["category", "country", "severity_tier", "q", "entity"].includes(name));

export const events = ({ category, country, severity, q, ...rest }, cursor) =>
  fetchFeed(`/feeds/events${query({ limit: 100, category, country, severity_tier: severity, q, cursor,
    ...Object.fromEntries(OTHER_FILTERS.map(({ name }) => [name, rest[name]])) })}`);
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
