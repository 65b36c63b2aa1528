// Entities: the people, organizations, places and platforms that articles name.
import { go, pageLink, state } from "../address.js";
import { byId, el, fill } from "../dom.js";
import * as feed from "./feeds.js";
import { counted, number } from "../format.js";

const TYPES = ["person", "organization", "location", "platform"];

export async function showEntities(place) {
  fill(place, el("p", {}, "Loading…"));
  const { type, q } = state();
  const page = await feed.entities({ type, q });
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
        el("td", {}, pageLink(el("a", {}, one.name), { entity: one.id, story: "", event: "" })), el("td", { class: "number" }, number(one.mentions)),
        el("td", { class: "number" }, number(one.source_count)), el("td", { class: "number" }, number(one.story_ids.length)), el("td", {}, one.type)))))));
  byId("status").textContent = `Entities named in ${feed.windowOf(page)}.`;
}
