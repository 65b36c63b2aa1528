// Entities: the people, organizations, places and platforms that articles name.
import { go, pageLink, state } from "../address.js";
import { bars, byId, el, facts, fill } from "../dom.js";
import * as feed from "./feeds.js";
import { storyLine } from "./stories.js";
import { counted, moment, number } from "../format.js";

const TYPES = ["person", "organization", "location", "platform"];

export async function showEntities(place) {
  const { entity } = state();
  fill(place, el("p", {}, "Loading…"));
  return entity ? showOne(place, entity) : showList(place);
}

async function showList(place) {
  const { type, q } = state();
  const page = await feed.entities({ type, q });
  feed.remember("entity", page.entities);
  const words = el("input", { id: "q", value: q || "", maxlength: "100" });
  fill(place,
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); go({ q: words.value.trim() }); } },
      el("div", { class: "field" }, el("label", { for: "type" }, "Type"),
        el("select", { id: "type", onchange: (event) => go({ type: event.target.value }) }, el("option", { value: "" }, "All"),
          TYPES.map((name) => el("option", { value: name, selected: name === type }, name)))),
      el("div", { class: "field grow" }, el("label", { for: "q" }, "Name or alias"), words), el("button", {}, "Find"),
      (q || type) && el("button", { type: "button", class: "quiet", onclick: () => go({ q: "", type: "" }) }, "Clear")),
    el("p", { class: "dim", role: "status" }, `${counted(page.total, "entity", "entities")}${page.count < page.total ? `; the ${page.count} most mentioned are shown` : ""}`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Entities" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Name"), el("th", { scope: "col", class: "number" }, "Mentions"),
        el("th", { scope: "col", class: "number" }, "Sources"), el("th", { scope: "col", class: "number" }, "Stories"), el("th", { scope: "col" }, "Type"))),
      el("tbody", {}, page.entities.map((one) => el("tr", {},
        el("td", {}, pageLink(el("a", {}, one.name), { entity: one.id, q: "", type: "" })), el("td", { class: "number" }, number(one.mentions)),
        el("td", { class: "number" }, number(one.source_count)), el("td", { class: "number" }, number(one.story_ids.length)), el("td", {}, one.type)))))));
  byId("status").textContent = `Entities named in ${feed.windowOf(page)}.`;
}

async function showOne(place, id) {
  const entity = await feed.entity(id);
  const page = await feed.stories();
  feed.remember("story", page.stories);
  const loaded = entity.story_ids.map((one) => feed.known("story", one)).filter(Boolean);
  const others = entity.story_ids.filter((one) => !feed.known("story", one));
  fill(place,
    el("p", {}, pageLink(el("a", {}, "← All entities"), { entity: "" })),
    el("h2", {}, entity.name),
    entity.succeeds && el("p", { class: "notice" }, "The requested entity was merged into this one."),
    facts([["Type", entity.type, "plain"], ["Mentions", number(entity.mentions)], ["Independent sources", number(entity.source_count)],
      ["First seen", moment(entity.first_seen), "plain"], ["Last seen", moment(entity.last_seen), "plain"],
      ...(entity.geo && entity.geo.latitude !== undefined ? [["Where", spot(entity.geo), "plain"]] : [])]),
    entity.aliases.length > 0 && el("p", {}, el("span", { class: "dim" }, "Aliases: "), entity.aliases.join(", ")),
    el("div", { class: "board" },
      el("section", { "aria-label": "Its stories" }, el("h2", {}, "Stories"),
        el("ul", { class: "list" }, loaded.map(storyLine)),
        others.length > 0 && el("details", {}, el("summary", {}, `${loaded.length ? "and " : ""}${counted(others.length, "story", "stories")} of lower rank; opening one uses a request`),
          el("div", { class: "chips" }, others.map((one, at) => pageLink(el("a", {}, `Story ${at + 1}`), { story: one }))))),
      el("aside", { "aria-label": "Related" }, el("h2", {}, "Related entities"),
        entity.related.length ? bars(entity.related.map((one) => ({ name: one.name, value: one.weight, shown: one.weight.toFixed(2), onclick: () => go({ entity: one.id }) })), { label: "Related entities by weight" }) : el("p", {}, "None."))));
}

/** 8.00° N, 38.00° E */
function spot({ latitude, longitude }) {
  const side = (value, plus, minus) => `${Math.abs(value).toFixed(2)}°\u00a0${value < 0 ? minus : plus}`;
  return `${side(latitude, "N", "S")}, ${side(longitude, "E", "W")}`;
}
