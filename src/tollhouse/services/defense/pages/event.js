// One event: where and when, who reports it and with which toll, and the stored reason of each figure.
import { el, facts } from "../dom.js";
import { counted, day, moment, share } from "../format.js";
import { head, merged, names, opens, part, reasonsList, sharedNames } from "./details.js";
import * as feed from "./feeds.js";
import { placeMap } from "./place_map.js";
import { ABOUT_ROWS, reportTimeline, sourcesSideBySide, tollFigures } from "./reports.js";

/** The title and the content of an event's drawer. Throws ApiError. */
export async function eventDetails(id) {
  const event = await feed.event(id);
  const { provenance, metrics } = event;
  const reports = event.timeline.map((one) => ({ ...one, at: one.reported_at, country: one.outlet_country })).reverse();
  const where = [event.geo.region, event.geo.country].filter(Boolean).join(", ");
  const deaths = event.fatalities_basis === "not_reported" ? "none reported" : counted(event.fatalities, "death");
  const { fatalities: tollReason, ...reasons } = provenance.reasons;
  return { title: event.title, children: [
    head("event", event.id, [el("span", { class: `badge ${metrics.severity_tier}` }, metrics.severity_tier), el("span", { class: "dim" }, `${event.category}: ${event.subcategory}`)]),
    merged(event.succeeds, "event"),
    provenance.is_retrospective && el("p", { class: "notice" }, "These reports are about the past."),
    facts([["Where", where || "–", "plain"], ["Date", day(event.event_date), "plain"], ["Deaths", deaths, "plain"], ["Sources", counted(event.source_count, "independent source"), "plain"]]),
    placeMap([{ ...event.geo, tier: metrics.severity_tier, title: where || "Place", lines: [event.geo.region ? "" : "The centre of the country"].filter(Boolean) }], `Map of the place: ${where}`),
    event.story_id && el("p", {}, opens("story", event.story_id, "Open the story of this event")),
    part("Reports over time", el("p", { class: "small dim" }, `First reported ${moment(provenance.first_reported_at)}, last ${moment(provenance.last_reported_at)}. ${ABOUT_ROWS}`), reportTimeline(reports)),
    part("Deaths", el("p", {}, tollReason), tollFigures(reports, event.fatalities_basis === "not_reported" ? null : event.fatalities)),
    event.named.length > 0 && part("Actors and places", names(event.named)),
    part("Why these figures", reasonsList(reasons, { category: event.category, confidence: share(metrics.confidence), significance: metrics.significance.toFixed(2), severity_tier: metrics.severity_tier,
      source_count: String(event.source_count), geo: where, event_date: day(event.event_date), title: "", subcategory: event.subcategory })),
    event.related.length > 0 && part("Related events", el("ul", { class: "list" }, event.related.map((one) => el("li", {}, opens("event", one.id, one.title, { class: "title" }),
      el("div", { class: "about" }, el("span", { class: `badge ${one.severity_tier}` }, one.severity_tier), el("span", {}, one.country), el("span", {}, day(one.event_date)), one.same_story && el("span", {}, "Same story"), sharedNames(one.shared)))))),
    part("Sources side by side", sourcesSideBySide(reports)),
    el("p", { class: "small dim" }, `${provenance.provider}${provenance.recording ? `, recording of ${provenance.recording}` : ""}: ${counted(provenance.row_ids.length, "row")}. ${provenance.licence}`),
  ].filter(Boolean) };
}
