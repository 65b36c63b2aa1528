// When a rule would have triggered over the stored history, as a chart and in words.
import { chart } from "../chart.js";
import { sentence } from "./alert_text.js";
import { el, fill, announce } from "../dom.js";
import { counted, moment, number } from "../format.js";

export function showPreview(place, rule, history) {
  const summary = history.would_fire ? `It would have triggered ${counted(history.would_fire, "time")}.` : "It would not have triggered.";
  announce(summary);
  const measured = history.values.filter((one) => one.value !== null);
  fill(place, el("h3", {}, "Preview"), el("p", {}, el("strong", {}, summary)), el("p", { class: "small dim" }, sentence(rule)),
    measured.length > 1 ? drawHistory(history, rule) : el("p", { class: "notice" }, "There is too little stored history for a chart."),
    el("p", { class: "small dim" }, history.from ? `${counted(history.values.length, "window")}, ${moment(history.from)} to ${moment(history.to)}` : "Nothing is stored yet.", measured.length < history.values.length && `; ${number(history.values.length - measured.length)} could not be determined`),
    history.fired.length > 0 && el("details", { open: history.fired.length <= 5 }, el("summary", {}, "When"), el("ul", { class: "small" }, history.fired.map((one) =>
      el("li", {}, `${moment(one.at)}: ${number(one.value)}${one.event_ids.length ? `, with ${counted(one.event_ids.length, "event")}` : ""}`)))));
}

function drawHistory(history, rule) {
  return chart({
    label: `The value over time, the threshold ${number(rule.threshold)}, and ${counted(history.fired.length, "delivery", "deliveries")}`,
    series: [{ name: "Value", kind: "step", points: history.values.map((one) => ({ x: one.at, y: one.value })) }],
    threshold: typeof rule.threshold === "number" ? { value: rule.threshold, text: `threshold ${number(rule.threshold)}` } : undefined,
    marks: history.fired.map((one) => ({ x: one.at, y: one.value, text: `Triggered ${moment(one.at)}: ${number(one.value)}` })),
  });
}
