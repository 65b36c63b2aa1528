// One event: its data, its sources, and the reason for each figure.
import { pageLink } from "../address.js";
import { el, facts, externalLink } from "../dom.js";
import * as feed from "./feeds.js";
import { counted, day, hostOf, moment, share } from "../format.js";

const TITLE_BASIS = { page: "read from the page", feed: "from the publisher's feed", url: "read from the URL: the provider gives no headline" };

export async function eventDetails(id) {
  const event = await feed.event(id);
  const where = [event.geo.region, event.geo.country].filter(Boolean).join(", ");
  const children = [
    el("p", { class: "about" }, el("span", { class: `badge ${event.metrics.severity_tier}` }, event.metrics.severity_tier), ` ${event.category}: ${event.subcategory}`),
    facts([["Where", where || "–", "plain"], ["Date", day(event.event_date), "plain"], ["Significance", event.metrics.significance.toFixed(2)],
      ["Confidence", share(event.metrics.confidence)],
      ["Deaths reported", event.fatalities_basis === "not_reported" ? "none reported" : counted(event.fatalities, "death"), "plain"]]),
    event.story_id && el("p", {}, pageLink(el("a", {}, "Story of this event"), { event: "", story: event.story_id })),
    event.provenance.is_retrospective && el("p", { class: "dim" }, "The reports are about the past."),
    el("h3", {}, `Reported by ${counted(event.source_count, "independent source")}`),
    el("ol", { class: "timeline" }, event.timeline.map((one) => el("li", {}, externalLink(one.url, one.title || hostOf(one.url)),
      el("div", { class: "about" }, el("span", {}, moment(one.reported_at)), el("span", {}, one.publisher),
        one.fatalities !== null && el("span", {}, counted(one.fatalities, "death")))))),
    el("p", { class: "small dim" }, `Headline ${TITLE_BASIS[event.title_basis] || event.title_basis}.`),
    el("h3", {}, "Why these figures"),
    el("dl", {}, Object.entries(event.provenance.reasons).map(([name, reason]) =>
      el("div", {}, el("dt", { class: "small dim" }, name.replaceAll("_", " ")), el("dd", {}, String(reason))))),
    el("p", { class: "small dim" }, `${event.provenance.provider}, ${counted(event.provenance.row_ids.length, "row")}, first reported ${moment(event.provenance.first_reported_at)}. ${event.provenance.licence}`),
  ];
  return { title: event.title, children: children.filter(Boolean) };
}
