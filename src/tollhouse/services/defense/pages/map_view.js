// The map view: filters, the map, the events under it, and the counts beside it.
import { go, pageLink, state } from "../address.js";
import { bars, byId, el, fill, announce, showDialog } from "../dom.js";
import * as feed from "./feeds.js";
import { drawMap } from "./map.js";
import { counted, day, number } from "../format.js";

const COUNTRIES_SHOWN = 12;
const LINES_SHOWN = 20;

export async function showMap(place) {
  const filters = state();
  if (!place.querySelector("#map")) fill(place, el("p", {}, "Loading…"));
  const [page, brief] = await Promise.all([feed.events(filters), feed.brief()]);
  const map = el("div", { class: "map", id: "map" });
  const list = el("div", { id: "events" });
  const more = el("p", { class: "actions" });
  const events = [...page.events];
  const summary = el("p", { class: "dim", role: "status" });
  fill(place, filterForm(filters), summary, el("div", { class: "board" },
    el("div", {}, map, legend(), el("h2", {}, "Events, most significant first"), list, more),
    el("aside", { "aria-label": "Counts" }, counts(brief, filters))));
  byId("status").textContent = describeSource(page);
  await render();

  async function render(cursor = page.next_cursor) {
    summary.textContent = `${counted(page.total, "event")}${events.length < page.total ? `; the ${number(events.length)} most significant are shown` : ""}`;
    announce(summary.textContent);
    fill(list, events.length ? lines(events) : el("p", { class: "empty" }, "No events in these 24 hours match the filters."));
    fill(more, cursor && el("button", { type: "button", class: "quiet", onclick: () => next(cursor) }, "Show 100 more"));
    await drawMap(map, events, { chosen: filters.country, open: (here) => openPlace(here) });
  }

  async function next(cursor) {
    const following = await feed.events(filters, cursor);
    events.push(...following.events);
    await render(following.next_cursor);
  }
}

function describeSource(page) {
  return `Events of ${feed.windowOf(page)}. Data: The GDELT Project.`;
}

function filterForm(filters) {
  const choose = (id, text, values, chosen) => el("div", { class: "field" }, el("label", { for: id }, text),
    el("select", { id, onchange: (event) => go({ [id]: event.target.value }) },
      el("option", { value: "" }, "All"), values.map((value) => el("option", { value, selected: value === chosen }, value))));
  const words = el("input", { id: "q", value: filters.q || "", maxlength: "100", placeholder: "words in the title" });
  const country = el("input", { id: "country", value: filters.country || "", maxlength: "100", placeholder: "Sudan, SD" });
  const others = feed.OTHER_FILTERS.map(({ name, type, step, min, max, example }) =>
    el("input", { id: name, type, step: type === "number" ? step : null, min, max, value: filters[name] || "", placeholder: `${example}` }));
  const names = ["category", "severity", "country", "q", ...feed.OTHER_FILTERS.map(({ name }) => name)];
  const isFiltered = names.some((name) => filters[name]);
  return el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); go({ q: words.value.trim(), country: country.value.trim(), ...Object.fromEntries(others.map((input) => [input.id, input.value.trim()])) }); } },
    choose("category", "Category", feed.CATEGORIES, filters.category),
    choose("severity", "Severity", feed.SEVERITIES, filters.severity),
    el("div", { class: "field" }, el("label", { for: "country" }, "Country"), country),
    el("div", { class: "field grow" }, el("label", { for: "q" }, "Words"), words),
    el("details", { open: feed.OTHER_FILTERS.some(({ name }) => filters[name]) || null }, el("summary", {}, "More filters"),
      others.map((input, place) => el("div", { class: "field" }, el("label", { for: input.id }, feed.OTHER_FILTERS[place].description), input))),
    el("button", {}, "Filter"),
    isFiltered && el("button", { type: "button", class: "quiet", onclick: () => go(Object.fromEntries(names.map((name) => [name, ""]))) }, "Clear"));
}

function counts(brief, filters) {
  const live = brief.events_live;
  const rows = (of, name, kinds = false) => Object.entries(of).map(([text, value]) => ({
    name: text, value, kind: kinds ? text : "", chosen: filters[name] === text, shown: number(value),
    onclick: () => go({ [name]: filters[name] === text ? "" : text }),
  }));
  return [
    el("h2", {}, "Category"), bars(rows(live.by_category, "category"), { label: "Events by category" }),
    el("h2", {}, "Severity"), bars(rows(live.by_severity, "severity", true), { label: "Events by severity" }),
    el("h2", {}, "Country"), bars(rows(live.by_country, "country").slice(0, COUNTRIES_SHOWN), { label: "Events by country" }),
    el("p", { class: "small dim" }, `Counts of all ${number(live.events_24h)} events. Choose one to filter by it.`),
  ];
}

function legend() {
  return el("ul", { class: "legend", "aria-label": "Severity of the worst event at a place" },
    feed.SEVERITIES.map((tier) => el("li", {}, el("span", { class: `dot ${tier}`, "aria-hidden": "true" }), tier)),
    el("li", {}, "larger: more events at the place"));
}

/** The first ones, and the rest folded away: the map stays within reach. */
function lines(events) {
  const [first, rest] = [events.slice(0, LINES_SHOWN), events.slice(LINES_SHOWN)];
  return [el("ul", { class: "list" }, first.map(eventLine)),
    rest.length > 0 && el("details", { class: "rest" }, el("summary", {}, `${number(rest.length)} more of the map's events`), el("ul", { class: "list" }, rest.map(eventLine)))];
}

function eventLine(event) {
  const title = pageLink(el("a", { class: "title" }, event.title), { event: event.id });
  const where = [event.geo.region, event.geo.country].filter(Boolean).join(", ");
  return el("li", {}, title, el("div", { class: "about" },
    el("span", { class: `badge ${event.metrics.severity_tier}` }, event.metrics.severity_tier),
    el("span", {}, event.subcategory || event.category), el("span", {}, where), el("span", {}, day(event.event_date)),
    event.fatalities > 0 && el("span", {}, counted(event.fatalities, "death"))));
}

function openPlace(place) {
  const name = place.name || "Unnamed place";
  showDialog(`${name}: ${counted(place.events.length, "event")}`, el("ul", { class: "list" }, place.events.map(eventLine)));
}
