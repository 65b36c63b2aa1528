// Entities: the people, organizations, places and platforms that articles name.
import { state } from "../address.js";
import { el } from "../dom.js";
import { opens } from "./details.js";
import { choiceOf, showFeedList, textOf } from "./feed_list.js";
import * as feed from "./feeds.js";
import { counted, number } from "../format.js";

const TYPES = ["person", "organization", "location", "platform"];
const ALIASES = 3;

export function showEntities(place) {
  const given = state();
  const { type, q } = given;
  return showFeedList(place, {
    title: "Entities", member: "entities", given, counted: (total) => counted(total, "entity", "entities"),
    controls: [choiceOf("type", "Type", TYPES, type), textOf("q", "Name or alias", q)],
    load: (cursor) => feed.entities({ type, q }, cursor), draw: table,
    request: () => ({ service: "defense", path: "/feeds/entities", query: { limit: 100, type, q } }),
  });
}

function table(entities) {
  const most = Math.max(...entities.map((one) => one.mentions));
  const head = (text, isNumber) => el("th", { scope: "col", class: isNumber ? "number" : null }, text);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Entities" }, el("table", { class: "entities" },
    el("thead", {}, el("tr", {}, head("Name"), head("Type"), head("Mentions", true), el("td", { "aria-hidden": "true" }), head("Sources", true), head("Stories", true))),
    el("tbody", {}, entities.map((one) => el("tr", {}, el("th", { scope: "row" }, opens("entity", one.id, one.name), one.aliases.length > 0 && el("span", { class: "dim small aliases" }, ` ${one.aliases.slice(0, ALIASES).join(", ")}`)), el("td", {}, one.type),
      el("td", { class: "number" }, number(one.mentions)), el("td", { class: "share", "aria-hidden": "true" }, bar(one.mentions / most)), el("td", { class: "number" }, number(one.source_count)), el("td", { class: "number" }, number(one.story_ids.length)))))));
}

function bar(share) {
  const made = el("span");
  made.style.width = `${100 * share}%`;
  return made;
}
