// Stories: groups of articles about the same events.
import { go, pageLink, state } from "../address.js";
import { byId, el, fill } from "../dom.js";
import * as feed from "./feeds.js";
import { counted } from "../format.js";

export async function showStories(place) {
  const filters = state();
  fill(place, el("p", {}, "Loading…"));
  const page = await feed.stories(filters);
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
      stories.push(...following.stories);
      render(following.next_cursor);
    } }, "Show 50 more"));
  }
}

function storyLine(story) {
  return el("li", {}, pageLink(el("a", { class: "title" }, story.title), { story: story.id }),
    el("div", { class: "about" }, story.category && el("span", {}, story.category),
      el("span", {}, counted(story.article_count, "article")), el("span", {}, counted(story.source_count, "independent source")),
      story.countries && el("span", {}, story.countries.slice(0, 4).join(", "))));
}
