// One story: its reports over time and side by side, its events and tolls, and why it is shown.
import { pageLink } from "../address.js";
import { el } from "../dom.js";
import { counted, day, moment } from "../format.js";
import { head, merged, names, opens, part, reasonsList, sharedNames } from "./details.js";
import * as feed from "./feeds.js";
import { placeMap } from "./place_map.js";
import { ABOUT_ROWS, reportTimeline, sourcesSideBySide } from "./reports.js";

const BASES = { not_reported: "", headline: "headlines", ucdp: "UCDP", acled: "ACLED" };
const NO_FILTERS = { story: "", view: "", q: "", category: "" };

/** The title and the content of a story's drawer. Throws ApiError. */
export async function storyDetails(id) {
  const story = await feed.story(id);
  const reports = story.articles.map((one) => ({ ...one, at: one.published, country: one.outlet_country }));
  const span = story.first_seen === story.last_seen ? moment(story.first_seen) : `${moment(story.first_seen)} to ${moment(story.last_seen)}`;
  return { title: story.title, children: [
    head("story", story.id, [story.category && el("span", { class: "badge" }, story.category), el("span", { class: "dim" }, `${counted(story.article_count, "report")} by ${counted(story.source_count, "independent source")}`)]),
    merged(story.succeeds, "story"),
    story.summary && el("p", { class: "lead" }, story.summary),
    story.countries.length > 0 && el("div", { class: "chips", "aria-label": "Countries", role: "group" }, story.countries.map((name) => pageLink(el("a", {}, name), { ...NO_FILTERS, country: name }))),
    story.events.length > 0 && placeMap(story.events.map((one) => ({ ...one.geo, tier: one.severity_tier, title: one.title, lines: [[one.geo.region, one.geo.country].filter(Boolean).join(", ")], event: one.id })), `Map of ${counted(story.events.length, "event")}`),
    part("Reports over time", el("p", { class: "small dim" }, `${span}. ${ABOUT_ROWS}`), reportTimeline(reports)),
    story.events.length > 0 && part(story.events.length === 1 ? "Event" : `${story.events.length} events`, el("ul", { class: "list" }, story.events.map(eventLine))),
    story.named.length > 0 && part("Actors and places", names(story.named)),
    part("Why this story is here", reasonsList(story.reasons, { significance: story.significance.toFixed(2), category: story.category || "none", title: "" })),
    story.related_stories.length > 0 && part("Related stories", el("ul", { class: "list" }, story.related_stories.map((one) => el("li", {}, opens("story", one.id, one.title, { class: "title" }),
      el("div", { class: "about" }, el("span", {}, counted(one.source_count, "source")), el("span", {}, moment(one.last_seen)), sharedNames(one.shared)))))),
    part("Sources side by side", sourcesSideBySide(reports)),
  ].filter(Boolean) };
}

function eventLine(event) {
  const toll = event.fatalities_basis === "not_reported" ? "no deaths reported" : `${counted(event.fatalities, "death")} (${BASES[event.fatalities_basis]})`;
  return el("li", {}, opens("event", event.id, event.title, { class: "title" }), el("div", { class: "about" },
    el("span", { class: `badge ${event.severity_tier}` }, event.severity_tier), el("span", {}, [event.geo.region, event.geo.country].filter(Boolean).join(", ")),
    el("span", {}, day(event.event_date)), el("span", {}, counted(event.source_count, "source")), el("span", {}, toll)));
}
