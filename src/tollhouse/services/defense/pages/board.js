// The board: a map of the last 24 hours with its filters, a time histogram, the stories and events beside it, and a summary.
import { go, pageLink, state } from "../address.js";
import { announce, byId, el, externalLink, fill } from "../dom.js";
import { clockTime, counted, day, errorNotice, hostOf, moment, number } from "../format.js";
import { apiButton } from "../api_call.js";
import { openDrawer } from "../drawer.js";
import { classesOf, createMap } from "../world_map.js";
import { newKeyForm, ownKeyForm, shownOnce } from "../key_form.js";
import { createTimeHistogram } from "../time_histogram.js";
import { sparkline } from "../chart.js";
import * as feed from "./feeds.js";
import { fillFilters } from "./board_filters.js";
import { summaryLines } from "./board_summary.js";

const HOUR = 3_600_000;
const STEP = 900_000;
const STORIES_SHOWN = 10;
const EVENTS_SHOWN = 25;
const ARTICLES_SHOWN = 6;
const SPARK_HOURS = 2;
const MODES = { points: "Points", areas: "Countries", density: "Density" };
const LISTS = { stories: "Stories", events: "Events" };
const HOVER_MS = 160;
const LEAST_DEGREES = 24;

/** Build the board in `place`, and return a function that shows what the address asks for. */
export function openBoard(place) {
  const summary = el("section", { class: "board-summary", "aria-label": "Summary" });
  const filters = el("form", { class: "board-filters", "aria-label": "Filters", role: "search" });
  const modes = el("div", { class: "segments board-modes", role: "group", "aria-label": "Show on the map" });
  const legend = el("ul", { class: "legend board-legend", "aria-label": "Legend" });
  const surface = el("div", { class: "board-surface", id: "map" });
  const trouble = el("div", { class: "board-trouble" });
  const time = el("div", { class: "board-time" });
  const tabs = el("div", { class: "segments", role: "group", "aria-label": "List" });
  const about = el("p", { class: "board-count", role: "status" });
  const list = el("ol", { class: "board-list", tabindex: "-1" }, skeleton(STORIES_SHOWN));
  const side = el("aside", { class: "board-side", "aria-label": "Stories and events" }, el("header", {}, tabs, about), list);
  const tools = el("div", { class: "board-tools" }, filters, apiButton(() => feed.requestsOf(state())));
  fill(place, summary, tools, el("div", { class: "board-map" }, surface, modes, legend, trouble), side, time);
  fill(summary, skeleton(3));
  fillFilters(filters, state(), null);

  let page = null;
  // Whether it is a filter for which there is no page.
  let isRefused = false;
  let listKey = "";
  let shownKey = "";
  let hoverTimer = 0;
  // The country that the view was last moved to.
  let fitted = "";
  const titles = new Map();
  const map = createMap(surface, {
    label: "Map of events", tones: feed.SEVERITIES, isCooperative: place.classList.contains("is-front"), describe, describeArea,
    open: openEvents,
    openArea: (id, name) => { const country = feed.countryOf(id) || name; go({ country: state().country === country ? "" : country }); },
    select: (box) => go({ bbox: box.join(",") }),
    moved: ({ longitude, latitude, zoom }) => go({ at: zoom > 1.01 ? [longitude.toFixed(2), latitude.toFixed(2), zoom.toFixed(2)].join(",") : "" }, { replace: true }),
  });
  const histogram = createTimeHistogram(time, {
    label: "Events by the time of their latest report", noun: (count) => counted(count, "event"),
    select: (from, to) => go({ since: from ? feed.iso(from) : "", until: to ? feed.iso(to) : "" }),
    play: (from, to) => map.filter(from === null || !page ? null : Uint8Array.from(page.points.reported_at, (at) => at * 1000 > from && at * 1000 <= to)),
  });
  feed.summary().then((one) => fill(summary, summaryLines(one)), (error) => fill(summary, error.status === 401 ? el("p", { class: "dim" }, "The summary is shown with an API key.") : errorNotice(error)));
  listenToKeys();
  let isFirst = true;
  return show;

  async function show() {
    const given = state();
    showModes(given);
    if (isFirst && /^-?[\d.]+,-?[\d.]+,[\d.]+$/.test(given.at || "")) {
      const [longitude, latitude, zoom] = given.at.split(",").map(Number);
      requestAnimationFrame(() => map.setView({ longitude, latitude, zoom }));
    }
    isFirst = false;
    const key = JSON.stringify(feed.filtersOf(given));
    if (key !== shownKey) await showPoints(given, key);
    await showList(given, key);
  }

  async function showPoints(given, key) {
    shownKey = key;
    histogram.stop();
    place.setAttribute("aria-busy", "true");
    try {
      const next = await feed.points(given);
      if (shownKey !== key) return;
      page = next;
      fill(trouble);
      fillFilters(filters, given, page);
      drawPage(given);
      showModes(given);
      if ((given.country || "") !== fitted && !given.at) map.fit(given.country && page.total ? widened(boundsOf(page.points)) : null);
      fitted = given.country || "";
      announce(countedEvents(page));
    } catch (error) {
      if (!error.problem) throw error;
      if (shownKey !== key) return;
      // A value that cannot be read stays in the address and in its control, with the reason beside it.
      fillFilters(filters, given, page, error.problem.parameter ? error.problem : null);
      map.show({ points: feed.NO_POINTS });
      const again = () => { [shownKey, listKey] = ["", ""]; show(); };
      fill(trouble, error.problem.parameter ? null : error.status === 401 ? keyNeeded() : errorNotice(error, again));
      page = null;
      isRefused = Boolean(error.problem.parameter);
    } finally {
      place.removeAttribute("aria-busy");
    }
  }

  function drawPage(given) {
    const { points } = page;
    const to = Date.parse(page.as_of);
    map.show({
      points: { longitude: points.longitude, latitude: points.latitude, tone: points.severity_tier, rank: points.significance.map((one, at) => one + 10 * (3 - points.severity_tier[at])) },
      areas: new Map(page.facets.country.map(({ value, count }) => [feed.areaOf(value), count])),
      chosen: given.country ? feed.areaOf(page.facets.country.find(({ value }) => value.toLowerCase() === given.country.toLowerCase())?.value) || "" : "",
      box: page.applied_filters.bbox || null,
    });
    histogram.show({
      from: to - page.window_hours * HOUR, to, step: STEP,
      bins: new Map(page.facets.reported_at.map(({ value, count }) => [Date.parse(value), count])),
      known: new Set(page.slots_read.map((slot) => Date.parse(slot))),
      selected: given.since || given.until ? [given.since ? Date.parse(given.since) : to - page.window_hours * HOUR, given.until ? Date.parse(given.until) : to] : null,
    });
  }

  function showModes(given) {
    const mode = MODES[given.map] ? given.map : "points";
    map.setMode(mode);
    fillLegend(mode);
    fill(modes, Object.entries(MODES).map(([name, text]) => pageLink(el("a", { "aria-current": name === mode ? "true" : null }, text), { map: name === "points" ? "" : name })));
    const chosen = LISTS[given.list] ? given.list : "stories";
    fill(tabs, Object.entries(LISTS).map(([name, text]) => pageLink(el("a", { "aria-current": name === chosen ? "true" : null }, text), { list: name === "stories" ? "" : name })));
  }

  function fillLegend(mode) {
    const limits = mode === "areas" && page ? classesOf(page.facets.country.map(({ count }) => count)) : [];
    const entries = { points: feed.SEVERITIES.map((tier) => [`mark ${tier}`, tier]), areas: limits.map((limit, at) => [`class class-${at + 1}`, rangeOf(at ? limits[at - 1] + 1 : 1, limit)]),
      density: [["class class-1", "fewer"], ["class class-3", ""], ["class class-5", "more events"]] }[mode];
    fill(legend, entries.map(([kind, text]) => el("li", {}, el("span", { class: kind, "aria-hidden": "true" }), text)));
  }

  // The list

  async function showList(given, key) {
    const isEvents = given.list === "events";
    const wanted = JSON.stringify([isEvents, key]);
    if (wanted === listKey) return;
    listKey = wanted;
    if (!page) {
      fill(list, el("li", { class: "empty" }, isRefused ? "Nothing is shown while a filter cannot be read." : "The events could not be loaded. The map says why."));
      about.textContent = "";
      return;
    }
    try {
      await (isEvents ? showEvents(given, wanted) : showStories(given, wanted));
    } catch (error) {
      if (!error.problem) throw error;
      if (listKey === wanted) fill(list, el("li", {}, errorNotice(error, () => { listKey = ""; show(); })));
    }
  }

  async function showStories(given, wanted) {
    // The stories feed has fewer filters: the others keep the stories that have an event on the map.
    const isNarrowed = feed.hasEventFilters(given);
    const { stories, total } = await feed.topStories(given, isNarrowed ? 100 : STORIES_SHOWN);
    if (listKey !== wanted) return;
    const onMap = new Set(page.points.id);
    const matching = isNarrowed ? stories.filter((story) => story.event_ids.some((id) => onMap.has(id))) : stories;
    about.textContent = `${countedEvents(page)} · ${isNarrowed && total > stories.length ? `${number(matching.length)} of the ${number(stories.length)} leading stories` : counted(isNarrowed ? matching.length : total, "story", "stories")}`;
    fill(list, matching.slice(0, STORIES_SHOWN).map(storyLine), !matching.length && el("li", { class: "empty" }, "No story in these 24 hours matches the filters."),
      el("li", { class: "board-more" }, el("a", { href: "/board?view=stories" }, "All stories")));
  }

  async function showEvents(given, wanted) {
    const first = await feed.events(given, { limit: EVENTS_SHOWN });
    if (listKey !== wanted) return;
    about.textContent = `${countedEvents(first)}, most significant first`;
    fill(list);
    extend(first);

    function extend({ events, next_cursor: cursor }) {
      for (const event of events) titles.set(event.id, event.title);
      list.querySelector(".board-more")?.remove();
      list.append(...events.map(eventLine));
      if (!list.children.length) list.append(el("li", { class: "empty" }, "No event in these 24 hours matches the filters."));
      if (cursor) list.append(el("li", { class: "board-more" }, el("button", { type: "button", class: "quiet", onclick: async () => extend(await feed.events(given, { limit: EVENTS_SHOWN, cursor })) }, `Show ${EVENTS_SHOWN} more`)));
    }
  }

  function storyLine(story) {
    const end = Date.parse(page.as_of);
    const tier = worstOf(story.event_ids);
    return el("li", { class: "story" },
      el("span", { class: `edge ${tier}`, "aria-hidden": "true" }),
      pageLink(el("a", { class: "title" }, story.title), { story: story.id }),
      el("details", {}, el("summary", { class: "about" },
        el("span", {}, story.countries.slice(0, 2).join(", ") || "No place"), el("span", {}, counted(story.source_count, "source")),
        el("time", { datetime: story.last_seen, title: `Last report ${moment(story.last_seen)}` }, clockTime(story.last_seen)),
        sparkline(reportsOf(story, end), { label: "Reports over time", kind: "bar" })),
        el("ul", {}, story.articles.slice(0, ARTICLES_SHOWN).map((one) => el("li", {}, externalLink(one.url, one.title || hostOf(one.url)), el("span", { class: "dim" }, ` ${one.publisher}`))),
          story.articles.length > ARTICLES_SHOWN && el("li", {}, pageLink(el("a", {}, `${number(story.articles.length - ARTICLES_SHOWN)} more in the story`), { story: story.id })))));
  }

  function worstOf(ids) {
    const tiers = page.points.id.flatMap((id, at) => (ids.includes(id) ? [page.points.severity_tier[at]] : []));
    return tiers.length ? page.severity_tiers[Math.min(...tiers)] : "";
  }

  function reportsOf(story, end) {
    const bins = new Array(page.window_hours / SPARK_HOURS).fill(0);
    for (const { published } of story.articles) {
      const back = Math.floor((end - Date.parse(published)) / (SPARK_HOURS * HOUR));
      if (back >= 0 && back < bins.length) bins[bins.length - 1 - back] += 1;
    }
    return bins;
  }

  // The map's cards and what it opens

  function describe(members) {
    clearTimeout(hoverTimer);
    if (!page) return null;
    const { points } = page;
    if (members.length > 1) {
      const counts = page.severity_tiers.map((tier, at) => [tier, members.filter((one) => points.severity_tier[one] === at).length]).filter(([, count]) => count);
      return { title: counted(members.length, "event"), lines: [counts.map(([tier, count]) => `${number(count)} ${tier}`).join(" · "), places(members)] };
    }
    const [one] = members;
    const lines = [`${page.severity_tiers[points.severity_tier[one]]} · ${page.categories[points.category[one]]} · ${counted(points.source_count[one], "source")}`,
      [places(members), moment(new Date(points.reported_at[one] * 1000).toISOString())].join(" · ")];
    if (points.fatalities[one]) lines.push(counted(points.fatalities[one], "death"));
    const id = points.id[one];
    if (titles.has(id)) return { title: titles.get(id), lines };
    return new Promise((done) => {
      hoverTimer = setTimeout(() => feed.event(id).then((event) => { titles.set(id, event.title); done({ title: event.title, lines }); }, () => done({ title: places(members), lines })), HOVER_MS);
    });
  }

  function places(members) {
    const names = [...new Set(members.map((one) => { const { region, country } = page.places[page.points.place[one]]; return [region, country].filter(Boolean).join(", "); }))].filter(Boolean);
    return names.length > 2 ? `${names.slice(0, 2).join("; ")} and ${names.length - 2} more` : names.join("; ") || "No place named";
  }

  function describeArea(id, name, value) {
    return { title: feed.countryOf(id) || name, lines: [counted(value, "event"), value ? "Choose it to filter by it" : ""].filter(Boolean) };
  }

  async function openEvents(members) {
    const { points } = page;
    if (members.length === 1) return go({ event: points.id[members[0]] });
    const drawer = openDrawer({ title: counted(members.length, "event"), body: el("p", {}, "Loading…") });
    const box = boundsOf({ longitude: members.map((one) => points.longitude[one]), latitude: members.map((one) => points.latitude[one]) });
    try {
      const here = await feed.events({ ...state(), bbox: box.join(",") }, { limit: 100 });
      drawer.show(`${places(members)}: ${counted(members.length, "event")}`, el("ol", { class: "board-list" }, here.events.map(eventLine)));
    } catch (error) {
      if (!error.problem) throw error;
      drawer.show(counted(members.length, "event"), errorNotice(error));
    }
    return undefined;
  }

  // Keys

  function listenToKeys() {
    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || !place.isConnected || place.hidden) return;
      if (event.target.closest("input, select, textarea, [contenteditable]")) {
        if (event.key === "Escape") event.target.blur();
        return;
      }
      const act = { j: () => walk(1), k: () => walk(-1), "/": () => byId("q")?.focus(), "?": help }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  function walk(by) {
    const links = [...list.querySelectorAll("a.title")];
    const next = links[Math.max(0, Math.min(links.length - 1, links.indexOf(document.activeElement) + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }
}

export function eventLine(event) {
  const where = [event.geo.region, event.geo.country].filter(Boolean).join(", ");
  return el("li", { class: "story" }, el("span", { class: `edge ${event.metrics.severity_tier}`, "aria-hidden": "true" }),
    pageLink(el("a", { class: "title" }, event.title), { event: event.id }),
    el("p", { class: "about" }, el("span", {}, [event.metrics.severity_tier, event.subcategory || event.category, where].filter(Boolean).join(" · ")),
      el("time", { datetime: event.event_date }, day(event.event_date)), event.fatalities > 0 && el("span", {}, counted(event.fatalities, "death"))));
}

function countedEvents({ total, total_relation: relation }) {
  return `${relation === "gte" ? "at least " : ""}${counted(total, "event")}`;
}

function boundsOf({ longitude, latitude }) {
  return [Math.min(...longitude) - 0.01, Math.min(...latitude) - 0.01, Math.max(...longitude) + 0.01, Math.max(...latitude) + 0.01].map((one) => Math.round(one * 10_000) / 10_000);
}

/** At least as wide as a country of middle size, so that one place does not fill the map. */
function widened([west, south, east, north]) {
  const [x, y] = [Math.max(0, LEAST_DEGREES - (east - west)) / 2, Math.max(0, LEAST_DEGREES / 2 - (north - south)) / 2];
  return [west - x, Math.max(-85, south - y), east + x, Math.min(85, north + y)];
}

const rangeOf = (from, to) => (from >= to ? number(to) : `${number(from)} to ${number(to)}`);

/** Where people read on no budget of their own: a form for a key, which the pages then use. */
function keyNeeded() {
  const made = el("div");
  const show = el("button", { type: "button", onclick: () => location.reload() }, "Show the map");
  return el("section", { class: "panel", "aria-label": "API key" }, el("h2", {}, "This server shows its feeds with an API key"),
    newKeyForm((created) => { fill(made, shownOnce(created), el("p", { class: "actions" }, show)); show.focus(); }), made, el("hr"), ownKeyForm(() => location.reload()));
}

function skeleton(count) {
  return Array.from({ length: count }, () => el("span", { class: "board-waiting", "aria-hidden": "true" }));
}

function help() {
  const keys = [["j, k", "next and previous story or event"], ["Enter", "open it"], ["Esc", "close it"], ["/", "search"], ["?", "this list"],
    ["Tab to the map", "arrow keys pan, + and − zoom, 0 shows the world, N and P go through the marks, Enter opens one"], ["Shift and drag", "select an area of the map"]];
  openDrawer({ title: "Keyboard", body: el("dl", { class: "pairs" }, keys.map(([name, text]) => el("div", {}, el("dt", {}, el("kbd", {}, name)), el("dd", {}, text)))) });
}
