// Stories: groups of articles about the same events.
import { go, pageLink, state } from "../address.js";
import { byId, el, fill, externalLink } from "../dom.js";
import * as feed from "./feeds.js";
import { counted, hostOf, moment } from "../format.js";

export async function showStories(place) {
  const filters = state();
  fill(place, el("p", {}, "Loading…"));
  const page = await feed.stories(filters);
  feed.remember("story", page.stories);
  const stories = [...page.stories];
  const list = el("ul", { class: "list", id: "stories" });
  const more = el("p", { class: "actions" });
  const words = el("input", { id: "q", value: filters.q || "", maxlength: "100" });
  fill(place,
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); go({ q: words.value.trim() }); } },
      el("div", { class: "field" }, el("label", { for: "category" }, "Category"),
        el("select", { id: "category", onchange: (event) => go({ category: event.target.value }) }, el("option", { value: "" }, "All"),
          feed.CATEGORIES.map((name) => el("option", { value: name, selected: name === filters.category }, name)))),
      el("div", { class: "field grow" }, el("label", { for: "q" }, "Words in title or summary"), words), el("button", {}, "Filter"),
      (filters.q || filters.category || filters.country) && el("button", { type: "button", class: "quiet", onclick: () => go({ q: "", category: "", country: "" }) }, "Clear")),
    el("p", { class: "dim", role: "status" }, `${counted(page.total, "story", "stories")}, most significant first${filters.country ? ` in ${filters.country}` : ""}`),
    list, more);
  byId("status").textContent = `Stories of ${feed.windowOf(page)}.`;
  render(page.next_cursor);

  function render(cursor) {
    fill(list, stories.length ? stories.map(storyLine) : el("li", { class: "empty" }, "No stories in these 24 hours match the filters."));
    fill(more, cursor && el("button", { type: "button", class: "quiet", onclick: async () => {
      const following = await feed.stories(filters, cursor);
      feed.remember("story", following.stories);
      stories.push(...following.stories);
      render(following.next_cursor);
    } }, "Show 50 more"));
  }
}

export function storyLine(story) {
  return el("li", {}, pageLink(el("a", { class: "title" }, story.title), { story: story.id }),
    el("div", { class: "about" }, story.category && el("span", {}, story.category),
      el("span", {}, counted(story.article_count, "article")), el("span", {}, counted(story.source_count, "independent source")),
      story.countries && el("span", {}, story.countries.slice(0, 4).join(", "))));
}

export async function storyDetails(id) {
  const story = await feed.story(id);
  const named = story.entities.map((one) => [one, feed.known("entity", one)]);
  const children = [
    story.succeeds && el("p", { class: "notice" }, "The requested story was merged into this one."),
    el("p", {}, story.summary),
    el("p", { class: "small dim" }, `${story.category ? `${story.category}. ` : ""}${counted(story.article_count, "article")} by ${counted(story.source_count, "independent source")}, ${moment(story.first_seen)} to ${moment(story.last_seen)}.`),
    story.countries.length > 0 && el("div", { class: "chips", "aria-label": "Countries", role: "group" }, story.countries.map((name) =>
      pageLink(el("a", {}, name), { story: "", view: "", country: name, q: "", category: "" }))),
    el("h3", {}, "Articles"),
    el("ul", { class: "list" }, story.articles.map((article) => el("li", {}, externalLink(article.url, article.title || hostOf(article.url)),
      el("div", { class: "about" }, el("span", {}, article.publisher), el("span", {}, moment(article.published)))))),
    story.event_ids.length > 0 && el("details", {}, el("summary", {}, counted(story.event_ids.length, "event")),
      el("ul", {}, story.event_ids.map((one, at) => el("li", {}, pageLink(el("a", {}, `Event ${at + 1}`), { story: "", event: one }))))),
    named.length > 0 && el("details", {}, el("summary", {}, counted(named.length, "entity", "entities")),
      el("div", { class: "chips" }, named.map(([one, entity], at) =>
        pageLink(el("a", {}, entity ? entity.name : `Entity ${at + 1}`), { story: "", view: "entities", entity: one })))),
  ];
  return { title: story.title, children: children.filter(Boolean) };
}
