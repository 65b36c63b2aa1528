// The metrics of alerts, and a rule as a sentence.
import { CATEGORIES, SEVERITIES } from "./feeds.js";
import { counted, number } from "../format.js";

/** Metrics of single events take filters; the others do not. */
export const COUNTED = {
  event_count: "Number of events",
  fatalities: "Deaths reported, added up",
  max_severity: "The worst severity",
  spike: "Spike: deviations above the usual count",
};
const FIGURES = {
  "brief:battle_events_24h": "Battle events, 24 hours",
  "brief:events_24h": "All events, 24 hours",
  "brief:total_market_value_b": "Procurement, billions of USD",
  ...Object.fromEntries(CATEGORIES.map((name) => [`brief:by_category.${name}`, `${name}, 24 hours`])),
  ...Object.fromEntries(SEVERITIES.map((name) => [`brief:by_severity.${name}`, `Severity ${name}, 24 hours`])),
};
const STALENESS = { staleness_minutes: "Minutes since the data was fresh" };

/** The metrics by group, as they stand in the form. `areas` are the brief's capability gaps. */
export function metricGroups(areas) {
  const gaps = Object.fromEntries(areas.map((area) => [`brief:gap_score.${area}`, `Gap score: ${area}`]));
  return [["Events in the window", COUNTED], ["Figures of the brief", { ...FIGURES, ...gaps }], ["The feed itself", STALENESS]];
}

export const isCounted = (metric) => metric in COUNTED;
export const isBrief = (metric) => metric.startsWith("brief:");

/** "Number of events of Battles in Ethiopia ≥ 10 within 24 hours". */
export function sentence(rule) {
  const filters = rule.filters || {};
  const of = [filters.severity_tier, filters.category].filter(Boolean).join(" ");
  const parts = [nameOf(rule.metric), of && `of ${of}`, filters.country && `in ${filters.country}`, filters.entity && `naming ${filters.entity}`, filters.source && `from ${filters.source}`,
    SIGNS[rule.operator], number(rule.threshold), !isBrief(rule.metric) && rule.metric !== "staleness_minutes" && `within ${counted(rule.window_hours, "hour")}`];
  return parts.filter(Boolean).join(" ");
}

export const SIGNS = { ">=": "≥", ">": ">", "<=": "≤", "<": "<", "==": "=" };

function nameOf(metric) {
  return { ...COUNTED, ...FIGURES, ...STALENESS }[metric] || metric.replace("brief:gap_score.", "Gap score of ");
}
