// What the board asks the feeds, each once: a free key has ten requests a minute.
import { callOnce, key, query } from "../server.js";

const asked = async (path) => (await callOnce("defense", path, { bearer: key.get() })).members;

export const SEVERITIES = ["critical", "high", "medium", "low"];
export const CATEGORIES = ["Battles", "Protests", "Political", "Economic"];

export const events = ({ category, country, severity, q }, cursor) =>
  asked(`/feeds/events${query({ limit: 100, category, country, severity_tier: severity, q, cursor })}`);
export const stories = ({ category, country, q } = {}, cursor) =>
  asked(`/feeds/stories${query({ limit: 50, category, country, q, cursor })}`);
export const entities = ({ type, q }, cursor) => asked(`/feeds/entities${query({ limit: 100, type, q, cursor })}`);
export const brief = () => asked("/feeds/defense-brief");
export const event = (id) => asked(`/feeds/events/${encodeURIComponent(id)}`);

const seen = { story: new Map(), entity: new Map() };

/** Remember what a list told, so that opening one of them costs nothing. */
export function remember(kind, items) {
  for (const item of items) seen[kind].set(item.id, item);
}

export const known = (kind, id) => seen[kind].get(id);

export async function story(id) {
  return known("story", id) || asked(`/feeds/stories/${encodeURIComponent(id)}`);
}

export async function entity(id) {
  return known("entity", id) || asked(`/feeds/entities/${encodeURIComponent(id)}`);
}
