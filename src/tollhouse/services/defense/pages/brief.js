// The brief: production, live events and capability gaps, each figure with its sources.
import { pageLink } from "../address.js";
import { bars, byId, el, facts, fill, externalLink } from "../dom.js";
import * as feed from "./feeds.js";
import { billions, counted, moment, number } from "../format.js";

const PROGRAMS_SHOWN = 15;

export async function showBrief(place) {
  fill(place, el("p", {}, "Loading…"));
  const brief = await feed.brief();
  const { production_summary: production, events_live: live } = brief;
  byId("status").textContent = `Brief of ${moment(brief.generated_at)}; events of ${feed.windowOf({ as_of: brief.as_of, window_hours: 24, coverage: live.coverage.window, recording: live.recording })}.`;
  fill(place,
    facts([["Procurement, US lines", billions(production.total_market_value_b)], ["Fiscal year", production.fiscal_year || "–"],
      ["Battle events, 24 h", number(live.battle_events_24h)], ["All events, 24 h", number(live.events_24h)]]),
    el("p", { class: "dim" }, `Change in battles from the previous 24 hours: ${change(live.change.Battles)}.`),
    el("h2", {}, "Capability gaps"), el("div", { class: "cards" }, brief.capability_gaps.map(gap)),
    el("h2", {}, "Production"), el("p", { class: "small dim" }, production.basis),
    bars(production.programs.slice(0, PROGRAMS_SHOWN).map((one) => ({ name: one.name, value: one.value_b || 0, shown: billions(one.value_b) })), { wide: true, label: "Largest programs" }),
    el("details", {}, el("summary", {}, `All ${number(production.programs.length)} programs`), programTable(production.programs)),
    production.cautions && production.cautions.length > 0 && el("details", {}, el("summary", {}, "Cautions"), el("ul", {}, production.cautions.map((text) => el("li", {}, text)))),
    el("h2", {}, "Top stories"), el("ul", { class: "list" }, brief.top_stories.map((story) => el("li", {},
      pageLink(el("a", { class: "title" }, story.title), { story: story.id }),
      el("div", { class: "about" }, el("span", {}, counted(story.article_count, "article")), el("span", {}, counted(story.source_count, "independent source")))))),
    el("h2", {}, "Sources"), el("ul", {}, brief.sources.map((source) => el("li", {}, externalLink(source.url, source.name), el("span", { class: "dim" }, ` ${source.licence}`)))));
}

function change(one) {
  if (!one || one.absolute === null) return one ? `unknown: ${one.reason}` : "–";
  return `${one.absolute > 0 ? "+" : ""}${number(one.absolute)}`;
}

function gap(one) {
  const score = one.gap_score === null ? one.gap_score_reason || "not known" : one.gap_score.toFixed(2);
  return el("article", { class: "panel" }, el("h3", {}, one.area),
    el("p", {}, "Gap ", el("strong", {}, score), el("span", { class: "dim" }, `, money ${one.trend.direction || "not comparable"}`)),
    bars([side("Demand", one.demand), side("Supply", one.supply)], { label: `${one.area}: demand and supply`, most: 1 }),
    el("details", {}, el("summary", {}, "Explanation and evidence"), el("p", { class: "small" }, one.explanation),
      el("ul", { class: "small" }, one.evidence.map((text) => el("li", {}, text)))));
}

const side = (name, of) => ({ name, value: of.score || 0, shown: of.score === null ? "–" : of.score.toFixed(2) });

function programTable(programs) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All programs" }, el("table", {},
    el("thead", {}, el("tr", {}, ["Program", "Category"].map((text) => el("th", { scope: "col" }, text)),
      ["FY2025", "FY2026", "FY2027 requested"].map((text) => el("th", { scope: "col", class: "number" }, text)), el("th", { scope: "col" }, "Trend"))),
    el("tbody", {}, programs.map((one) => el("tr", {}, el("td", {}, one.name), el("td", {}, one.category),
      ["fy2025_b", "fy2026_b", "fy2027_requested_b"].map((year) => el("td", { class: "number" }, billions(one.trend[year]))),
      el("td", {}, one.trend.direction || "–"))))));
}
