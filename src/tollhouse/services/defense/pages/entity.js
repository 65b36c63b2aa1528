// One entity: when it was named, with whom, and in which stories.
import { bars, el, facts } from "../dom.js";
import { chart, sparkline } from "../chart.js";
import { counted, moment, number } from "../format.js";
import { head, merged, opens, part } from "./details.js";
import * as feed from "./feeds.js";
import { placeMap } from "./place_map.js";

const STORIES = 12;

/** The title and the content of an entity's drawer. Throws ApiError. */
export async function entityDetails(id) {
  const entity = await feed.entity(id);
  const [first, rest] = [entity.stories.slice(0, STORIES), entity.stories.slice(STORIES)];
  return { title: entity.name, children: [
    head("entity", entity.id, [el("span", { class: "badge" }, entity.type), entity.aliases.length > 0 && el("span", { class: "dim" }, `Also: ${entity.aliases.join(", ")}`)]),
    merged(entity.succeeds, "entity"),
    facts([["Mentions", number(entity.mentions)], ["Independent sources", number(entity.source_count)], ["First seen", moment(entity.first_seen), "plain"], ["Last seen", moment(entity.last_seen), "plain"],
      ...(entity.geo ? [["Position", spot(entity.geo), "plain"]] : [])]),
    entity.geo && placeMap([{ ...entity.geo, tier: "low", title: entity.name, lines: [spot(entity.geo)] }], `Map of ${entity.name}`),
    entity.timeline ? mentions(entity) : el("p", { class: "empty" }, "Mentions over time appear with the next update of the data."),
    entity.related.length > 0 && part("Named together with", entity.timeline ? together(entity) : bars(entity.related.map((one) => ({ name: one.name, value: one.weight, shown: one.weight.toFixed(2) })), { label: "Related entities by weight" })),
    part("Stories", first.length ? el("ul", { class: "list" }, first.map(storyLine)) : el("p", { class: "dim" }, "No story of the window names it."),
      rest.length > 0 && el("details", {}, el("summary", {}, `${number(rest.length)} more`), el("ul", { class: "list" }, rest.map(storyLine)))),
  ].filter(Boolean) };
}

function mentions({ name, timeline: { hours } }) {
  const unread = hours.filter((hour) => hour.mentions === null).length;
  return part("Mentions over time",
    chart({ label: `Articles that name ${name}, by hour`, height: 150, series: [{ name: "Articles", kind: "bar", points: hours.map((hour) => ({ x: hour.from, until: hour.until, y: hour.mentions, text: hour.coverage < 1 ? `${Math.round(100 * hour.coverage)}% read` : "" })) }],
      spans: runs(hours).map(([from, until]) => ({ from, until, text: "Nothing was read of these hours" })) }),
    el("p", { class: "small dim" }, `Articles by hour. ${unread ? `Of the ${number(unread)} shaded hours nothing was read.` : "Something was read of every hour."}`));
}

/** The stretches of hours of which nothing was read. */
function runs(hours) {
  const stretches = [];
  for (const hour of hours) {
    if (hour.mentions !== null) continue;
    if (stretches.at(-1)?.[1] === hour.from) stretches.at(-1)[1] = hour.until;
    else stretches.push([hour.from, hour.until]);
  }
  return stretches;
}

function together({ related, timeline }) {
  const most = Math.max(1, ...timeline.related.flatMap((one) => one.mentions));
  const weights = new Map(related.map((one) => [one.id, one.weight]));
  return [el("table", { class: "together" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Name"), el("th", { scope: "col" }, "Over time"), el("th", { scope: "col", class: "number" }, "In one article"), el("th", { scope: "col", class: "number" }, "Weight"))),
    el("tbody", {}, timeline.related.map((one) => el("tr", {}, el("td", {}, opens("entity", one.id, one.name)),
      el("td", {}, sparkline(one.mentions, { kind: "bar", width: 180, most, label: when(one, timeline.hours) })), el("td", { class: "number" }, number(one.total)), el("td", { class: "number" }, weights.get(one.id).toFixed(2)))))),
  el("p", { class: "small dim" }, "The weight comes from the stories that name both. The bars are articles that name both, by hour.")];
}

function when(one, hours) {
  const known = one.mentions.map((count, at) => [count, hours[at].from]).filter(([count]) => count);
  return known.length ? known.map(([count, from]) => `${moment(from)}: ${counted(count, "article")}`).join("; ") : "No article names both; a story does";
}

function storyLine(story) {
  return el("li", {}, opens("story", story.id, story.title, { class: "title" }), el("div", { class: "about" }, story.category && el("span", {}, story.category),
    el("span", {}, counted(story.article_count, "report")), el("span", {}, counted(story.source_count, "source")), el("span", {}, moment(story.last_seen))));
}

/** 8.00° N, 38.00° E */
function spot({ latitude, longitude }) {
  const side = (value, plus, minus) => `${Math.abs(value).toFixed(2)}°\u00a0${value < 0 ? minus : plus}`;
  return `${side(latitude, "N", "S")}, ${side(longitude, "E", "W")}`;
}
