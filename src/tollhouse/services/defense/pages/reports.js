// The reports of a story or an event: when each was published, to scale, and what each outlet says, side by side.
import { timeTicks } from "../chart.js";
import { el, externalLink } from "../dom.js";
import { clockTime, counted, day, hostOf, moment } from "../format.js";

const ROWS = 8;
const HOUR = 3_600_000;
const ELSEWHERE = "World, or not known";
/** What the rows and dots of the timeline are. */
export const ABOUT_ROWS = "Outlets stand in the row of the country that most of their articles concern; a larger dot is several reports.";

/** Reports by the country that their outlets mostly report about, the most first; those without one come last. */
export function byCountry(reports) {
  const groups = Map.groupBy(reports, (one) => one.country || ELSEWHERE);
  return [...groups].sort(([one, first], [other, second]) => (one === ELSEWHERE) - (other === ELSEWHERE) || second.length - first.length || one.localeCompare(other));
}

/** One row of dots for each country, at the times of its reports. The list of reports says the same in words. */
export function reportTimeline(reports) {
  const times = reports.map((one) => Date.parse(one.at));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const pad = Math.max((last - first) * 0.03, HOUR / 4);
  const [from, to] = [first - pad, last + pad];
  const across = (at) => `${(100 * (at - from)) / (to - from)}%`;
  const placed = (element, at) => { element.style.left = across(at); return element; };
  const shown = mostFrequent(byCountry(reports));
  const ticks = timeTicks(from, to, 6);
  return el("div", { class: "report-times", role: "img", "aria-label": `${counted(reports.length, "report")} from ${moment(reports.at(-1).at)} to ${moment(reports[0].at)}, by country of the outlet. The list of reports has each of them.` },
    shown.map(([country, ofCountry]) => el("div", { class: "report-row" }, el("span", { class: "row-name" }, country),
      el("span", { class: "row-track" }, ticks.map((tick) => placed(el("i", { class: "row-tick" }), tick.at)),
        [...Map.groupBy(ofCountry, (one) => one.at)].map(([at, together]) => dot(at, together, placed))))),
    el("div", { class: "report-row axis" }, el("span", { class: "row-name" }), el("span", { class: "row-track" }, ticks.map((tick) => placed(el("span", { class: "tick-name" }, tick.text), tick.at)))));
}

/** The rows that fit: of many countries the most frequent, and the others together. */
function mostFrequent(groups) {
  const known = groups.filter(([country]) => country !== ELSEWHERE);
  if (known.length <= ROWS) return groups;
  return [...known.slice(0, ROWS - 1), ["Other countries", known.slice(ROWS - 1).flatMap(([, ofCountry]) => ofCountry)], ...groups.slice(known.length)];
}

function dot(at, together, placed) {
  const made = el("b", { class: "row-dot", title: `${moment(at)}\n${together.map((one) => `${one.publisher}: ${one.title || hostOf(one.url)}`).join("\n")}` });
  made.style.setProperty("--size", `${Math.min(1.4, 0.5 + 0.16 * (together.length - 1))}rem`);
  return placed(made, Date.parse(at));
}

/** What each outlet says, in groups of countries. */
export function sourcesSideBySide(reports) {
  const isOneDay = new Set(reports.map((one) => one.at.slice(0, 10))).size === 1;
  return el("div", { class: "side-by-side" }, byCountry(reports).map(([country, ofCountry]) =>
    el("section", { "aria-label": `Reports: ${country}` }, el("h4", {}, country, el("span", { class: "count" }, String(ofCountry.length))),
      el("ul", {}, ofCountry.map((one) => el("li", {}, externalLink(one.url, one.title || hostOf(one.url)),
        el("div", { class: "about" }, el("strong", {}, one.publisher), el("time", { datetime: one.at, title: moment(one.at) }, isOneDay ? clockTime(one.at) : `${day(one.at).slice(0, -5)}, ${clockTime(one.at)}`),
          one.fatalities !== null && el("span", { class: "toll" }, counted(one.fatalities, "death")))))))));
}

/** Each figure of deaths that headlines give, with the outlets that give it; null where none gives one. */
export function tollFigures(reports, served) {
  const withFigure = reports.filter((one) => one.fatalities !== null);
  if (!withFigure.length) return null;
  const figures = [...Map.groupBy(withFigure, (one) => one.fatalities)].sort(([one, first], [other, second]) => second.length - first.length || other - one);
  return el("table", { class: "tolls" }, el("caption", { class: "unseen" }, "Deaths that headlines give, with the outlets that give them"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "number" }, "Deaths"), el("th", { scope: "col" }, "Headlines of"))),
    el("tbody", {}, figures.map(([figure, ofFigure]) => el("tr", { class: figure === served ? "counted" : null }, el("th", { scope: "row", class: "number" }, String(figure)),
      el("td", {}, ofFigure.map((one) => one.publisher).filter((name, at, all) => all.indexOf(name) === at).join(", "))))));
}
