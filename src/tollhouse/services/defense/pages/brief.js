// The brief: the window in three sentences, its events, capability gaps and money by fiscal year, each figure with its source.
import { apiButton } from "../api_call.js";
import { sparkline } from "../chart.js";
import { bars, byId, el, externalLink, facts, fill } from "../dom.js";
import { openDrawer } from "../drawer.js";
import { summaryLines } from "./board_summary.js";
import { opens, part, skeleton } from "./details.js";
import * as feed from "./feeds.js";
import { billions, counted, moment, number } from "../format.js";

const PROGRAMS_SHOWN = 15;
// The stages differ, as the API's description of a trend says.
const YEARS = [["FY2025", "actual", "fy2025_b"], ["FY2026", "enacted", "fy2026_b"], ["FY2027", "requested", "fy2027_requested_b"]];

/** Show the brief in `place`. Its notes are numbered in the order in which its figures cite them. */
export async function showBrief(place) {
  fill(place, skeleton(24));
  const [brief, summary] = await Promise.all([feed.brief(), feed.summary()]);
  const { production_summary: production, events_live: live } = brief;
  const notes = notesOf();
  byId("status").textContent = `Defense brief of ${feed.windowOf({ as_of: brief.as_of, window_hours: 24, coverage: live.coverage.window, recording: live.recording })}. Written ${moment(brief.generated_at)}.`;
  const parts = [
    el("div", { class: "brief-tools" }, el("button", { type: "button", class: "quiet", onclick: () => print() }, "Print"),
      apiButton(() => [{ title: "The brief", service: "defense", path: "/feeds/defense-brief" }, { title: "Three sentences", service: "defense", path: "/feeds/defense-brief/summary" }])),
    el("section", { class: "board-summary brief-summary", "aria-label": "Summary" }, summaryLines(summary)),
    facts([["Events, 24 hours", number(live.events_24h)], ["Battle events, 24 hours", number(live.battle_events_24h)],
      [`US procurement, ${production.fiscal_year}`, [billions(production.total_market_value_b), notes.mark("Procurement", production.basis)]], ["Programs with money", number(production.programs.length)]]),
    part("Events of the window", el("p", { class: "small dim" }, live.basis), el("div", { class: "brief-events" },
      el("div", {}, el("h4", {}, "Category"), bars(byName(live.by_category), { label: "Events by category" })), el("div", {}, el("h4", {}, "Severity"), bars(byName(live.by_severity, true), { label: "Events by severity" })),
      el("div", {}, el("h4", {}, "Change from the 24 hours before"), changes(live.change)))),
    part("Capability gaps", el("p", { class: "small dim" }, "The gap score ranks areas by demand beside supply, 0 to 1. Money is US procurement by fiscal year, in billions of dollars."),
      el("div", { class: "gaps" }, brief.capability_gaps.map((gap) => gapPanel(gap, notes)))),
    part(`Programs, ${production.fiscal_year}`, el("p", { class: "small dim" }, production.programs.every((one) => one.quantity === null) ? `Quantities are not shown: ${production.programs[0]?.quantity_reason || "not known"}.` : ""),
      programTable(production.programs.slice(0, PROGRAMS_SHOWN), notes), production.programs.length > PROGRAMS_SHOWN && restOfPrograms(production.programs.slice(PROGRAMS_SHOWN), notes),
      production.cautions.length > 0 && el("ul", { class: "small cautions" }, production.cautions.map((text) => el("li", {}, text)))),
    part("Top stories", el("ul", { class: "list" }, brief.top_stories.map((story) => el("li", {}, opens("story", story.id, story.title, { class: "title" }),
      el("div", { class: "about" }, el("span", {}, counted(story.article_count, "article")), el("span", {}, counted(story.source_count, "independent source"))))))),
    part("Sources", el("ul", {}, brief.sources.map((source) => el("li", {}, externalLink(source.url, source.name), el("span", { class: "dim" }, ` ${source.licence}`))))),
  ];
  fill(place, ...parts, notes.list());
}

// On paper the notes stand open.
addEventListener("beforeprint", () => { for (const notes of document.querySelectorAll(".all-notes")) notes.open = true; });

/** Numbered notes: `mark` cites a text and opens it in place, `list` are all of them, for print and search. */
function notesOf() {
  const texts = [];
  return {
    mark(title, ...given) {
      const numbers = given.map((text) => { if (!texts.includes(text)) texts.push(text); return texts.indexOf(text) + 1; });
      const shown = numbers.length > 2 ? `[${numbers[0]}–${numbers.at(-1)}]` : numbers.map((at) => `[${at}]`).join("");
      return el("button", { type: "button", class: "text note-mark", "aria-label": `${shown} source of ${title}`, onclick: () => openDrawer({ title, body: el("ol", { class: "notes" }, numbers.map((at) => el("li", { value: at }, texts[at - 1]))) }) }, shown);
    },
    list: () => el("details", { class: "all-notes" }, el("summary", {}, `${counted(texts.length, "note")}: the source of each figure`), el("ol", { class: "notes small" }, texts.map((text) => el("li", {}, text)))),
  };
}

const byName = (counts, isKind = false) => Object.entries(counts).map(([name, value]) => ({ name, value, kind: isKind ? name : "", shown: number(value) }));

/** The change of each count, or once the reason why it is not known. */
function changes(change) {
  const reasons = new Set(Object.values(change).map((one) => one.reason));
  if (reasons.size === 1 && Object.values(change).every((one) => one.absolute === null)) return el("p", { class: "not-known" }, "Not known: ", [...reasons][0], ".");
  return el("ul", { class: "plain" }, Object.entries(change).map(([name, one]) => el("li", {}, `${name}: `, one.absolute === null ? el("span", { class: "not-known" }, `not known: ${one.reason}`) : el("strong", {}, `${one.absolute > 0 ? "+" : ""}${number(one.absolute)}`))));
}

function gapPanel(gap, notes) {
  return el("article", { class: "gap", "aria-label": gap.area }, el("h4", {}, gap.area), known(gap.gap_score, gap.gap_score_reason, "score"),
    el("p", {}, gap.explanation, " ", gap.evidence.length > 0 && notes.mark(gap.area, ...gap.evidence)),
    bars([side("Demand", gap.demand), side("Supply", gap.supply)], { label: `${gap.area}: demand and supply, 0 to 1`, most: 1 }),
    [gap.demand, gap.supply].filter((one) => one.score === null).map((one) => el("p", { class: "not-known small" }, one.reason)), years(gap.trend, gap.area));
}

const known = (value, reason, kind) => (value === null ? el("p", { class: "not-known small" }, `Not known: ${reason}`) : el("p", { class: kind }, value.toFixed(2)));
const side = (name, of) => ({ name, value: of.score || 0, shown: of.score === null ? "–" : of.score.toFixed(2) });

/** The money of three fiscal years as bars with their figures; the requested year is not yet money. */
function years(trend, name) {
  const most = Math.max(...YEARS.map(([, , member]) => trend[member]), 1e-9);
  return el("table", { class: "years" }, el("caption", { class: "unseen" }, `${name}: billions of dollars by fiscal year`), el("tbody", {}, YEARS.map(([year, stage, member]) => {
    const bar = el("span", { class: `year-bar ${stage}` });
    bar.style.width = `${(100 * trend[member]) / most}%`;
    return el("tr", {}, el("th", { scope: "row" }, year, el("span", { class: "dim" }, ` ${stage}`)), el("td", { class: "track", "aria-hidden": "true" }, bar), el("td", { class: "number" }, billions(trend[member])));
  })));
}

function programTable(programs, notes) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Programs by fiscal year" }, el("table", { class: "programs" },
    el("thead", {}, el("tr", {}, ["Program", "Category"].map((text) => el("th", { scope: "col" }, text)),
      YEARS.map(([year, stage]) => el("th", { scope: "col", class: "number" }, year, el("br"), el("span", { class: "dim small" }, stage))), el("th", { scope: "col" }, "Over time"), el("th", { scope: "col" }, "Trend"), el("th", { scope: "col" }, "Source"))),
    el("tbody", {}, programs.map((one) => el("tr", {}, el("th", { scope: "row" }, one.name), el("td", {}, one.category),
      YEARS.map(([, , member]) => el("td", { class: "number" }, billions(one.trend[member]))), el("td", {}, sparkline(YEARS.map(([, , member]) => one.trend[member]), { kind: "bar", width: 60 })),
      el("td", {}, one.trend.direction || el("span", { class: "not-known", title: one.trend.reason }, "not comparable")), el("td", {}, notes.mark(one.name, one.source)))))));
}

/** The other programs, drawn when they are opened. Their notes follow those of the page. */
function restOfPrograms(programs, notes) {
  const place = el("div");
  const details = el("details", {}, el("summary", {}, `${number(programs.length)} more programs`), place);
  details.addEventListener("toggle", () => { if (details.open && !place.firstChild) fill(place, programTable(programs, notes)); });
  return details;
}
