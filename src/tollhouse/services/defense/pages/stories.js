// Stories: groups of articles about the same events.
import { state } from "../address.js";
import { sparkline } from "../chart.js";
import { el } from "../dom.js";
import { opens } from "./details.js";
import { choiceOf, showFeedList, textOf } from "./feed_list.js";
import * as feed from "./feeds.js";
import { clockTime, counted, moment } from "../format.js";

const HOURS = 24;
const HOUR = 3_600_000;

export function showStories(place) {
  const given = state();
  const { category, country, q } = given;
  let end = 0;
  return showFeedList(place, {
    title: "Stories", member: "stories", given, counted: (total) => counted(total, "story", "stories"),
    controls: [choiceOf("category", "Category", feed.CATEGORIES, category), textOf("country", "Country", country), textOf("q", "Words in title or summary", q)],
    load: async (cursor) => { const page = await feed.stories({ category, country, q }, cursor); end = Date.parse(page.as_of); return page; },
    draw: (stories) => el("ol", { class: "story-list", id: "stories" }, stories.map((story) => storyLine(story, end))),
    request: () => ({ service: "defense", path: "/feeds/stories", query: { limit: 50, category, country, q } }),
  });
}

function storyLine(story, end) {
  return el("li", {}, el("div", {}, opens("story", story.id, story.title, { class: "title" }),
    el("div", { class: "about" }, story.category && el("span", {}, story.category), story.countries.length > 0 && el("span", {}, story.countries.slice(0, 4).join(", ")),
      el("span", {}, counted(story.source_count, "independent source")), el("span", { title: moment(story.last_seen) }, `latest ${clockTime(story.last_seen)}`))),
  sparkline(reportsByHour(story, end), { kind: "bar", width: 120, height: 26, label: `${counted(story.article_count, "report")} over 24 hours` }),
  el("span", { class: "reports" }, el("strong", {}, story.article_count), story.article_count === 1 ? " report" : " reports"));
}

function reportsByHour(story, end) {
  const bins = new Array(HOURS).fill(0);
  for (const { published } of story.articles) {
    const back = Math.floor((end - Date.parse(published)) / HOUR);
    if (back >= 0 && back < HOURS) bins[HOURS - 1 - back] += 1;
  }
  return bins;
}
