// A rule on the history of its metric: the threshold, when it would have notified, and the cool-down after each notification.
import { chart } from "../chart.js";
import { sentence } from "./alert_text.js";
import { el, fill, announce } from "../dom.js";
import { counted, moment, number } from "../format.js";

const MINUTE = 60_000;
// Between stored files further apart than this nothing is known of the value.
const LONGEST_GAP = 60 * MINUTE;

export function showPreview(place, rule, history) {
  const summary = history.would_fire ? `It would have triggered ${counted(history.would_fire, "time")}.` : "It would not have triggered.";
  announce(summary);
  fill(place, el("h3", {}, "Preview"), el("p", {}, el("strong", {}, summary)), el("p", { class: "small dim" }, sentence(rule)), historyOf(rule, history));
}

/** The chart and the notifications of a preview. */
export function historyOf(rule, history) {
  const measured = history.values.filter((one) => one.value !== null);
  return [
    measured.length > 1 ? drawHistory(rule, history) : el("p", { class: "notice" }, "There is too little stored history for a chart."),
    measured.length > 1 && el("ul", { class: "legend" }, el("li", {}, el("span", { class: "dot critical", "aria-hidden": "true" }), "notification"), el("li", {}, el("span", { class: "swatch cool", "aria-hidden": "true" }), `cooldown, ${lasting(rule.cooldown_minutes)}`), el("li", {}, "no line: nothing is stored")),
    el("p", { class: "small dim" }, history.from ? `${counted(history.values.length, "window")}, ${moment(history.from)} to ${moment(history.to)}` : "Nothing is stored yet.", measured.length < history.values.length && `; ${number(history.values.length - measured.length)} could not be determined`),
    history.fired.length > 0 && el("details", { open: history.fired.length <= 3 || null }, el("summary", { class: "small" }, counted(history.fired.length, "notification")), el("ul", { class: "small" }, history.fired.map((one) =>
      el("li", {}, `${moment(one.at)}: ${number(one.value)}${one.event_ids.length ? ", with " : ""}`, one.event_ids.length > 0 && el("a", { href: `/board?event=${one.event_ids[0]}` }, one.event_ids.length === 1 ? "its event" : `${counted(one.event_ids.length, "event")}, the first here`))))),
  ].filter(Boolean);
}

function drawHistory(rule, history) {
  const threshold = Number(rule.threshold);
  const after = (at) => new Date(Date.parse(at) + rule.cooldown_minutes * MINUTE).toISOString();
  const last = history.values.at(-1).at;
  return chart({
    label: `The value over time, the threshold ${number(threshold)}, and ${counted(history.fired.length, "notification")}`, height: 210,
    series: [{ name: "Value", kind: "line", points: withGaps(history.values) }],
    threshold: { value: threshold, text: `threshold ${number(threshold)}` },
    spans: history.fired.map((one) => ({ from: one.at, until: after(one.at) < last ? after(one.at) : last, text: `Cooldown after ${moment(one.at)}` })),
    marks: history.fired.map((one) => ({ x: one.at, y: one.value, text: `${moment(one.at)}: ${number(one.value)}` })),
  });
}

/** The points, with a gap where two stored files are far apart. */
function withGaps(values) {
  return values.flatMap(({ at, value }, place) => {
    const before = place > 0 ? Date.parse(values[place - 1].at) : null;
    const gap = before !== null && Date.parse(at) - before > LONGEST_GAP ? [{ x: new Date(before + MINUTE).toISOString(), y: null }] : [];
    return [...gap, { x: at, y: value }];
  });
}

const lasting = (minutes) => (minutes % 1440 === 0 ? counted(minutes / 1440, "day") : minutes % 60 === 0 ? counted(minutes / 60, "hour") : counted(minutes, "minute"));
