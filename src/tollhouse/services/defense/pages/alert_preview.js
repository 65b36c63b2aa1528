// When a rule would have triggered over the stored history, as a chart and in words.
import { sentence } from "./alert_text.js";
import { el, fill, announce } from "../dom.js";
import { counted, moment, number } from "../format.js";

const WIDTH = 560;
const HEIGHT = 200;
const LEFT = 44;
const { d3 } = globalThis;

export function showPreview(place, rule, history) {
  const summary = history.would_fire ? `It would have triggered ${counted(history.would_fire, "time")}.` : "It would not have triggered.";
  announce(summary);
  const measured = history.values.filter((one) => one.value !== null);
  fill(place, el("h3", {}, "Preview"), el("p", {}, el("strong", {}, summary)), el("p", { class: "small dim" }, sentence(rule)),
    measured.length > 1 ? chart(history, rule) : el("p", { class: "notice" }, "There is too little stored history for a chart."),
    el("p", { class: "small dim" }, history.from ? `${counted(history.values.length, "window")}, ${moment(history.from)} to ${moment(history.to)}` : "Nothing is stored yet.", measured.length < history.values.length && `; ${number(history.values.length - measured.length)} could not be determined`),
    history.fired.length > 0 && el("details", { open: history.fired.length <= 5 }, el("summary", {}, "When"), el("ul", { class: "small" }, history.fired.map((one) =>
      el("li", {}, `${moment(one.at)}: ${number(one.value)}${one.event_ids.length ? `, with ${counted(one.event_ids.length, "event")}` : ""}`)))));
}

function chart(history, rule) {
  const threshold = typeof rule.threshold === "number" ? rule.threshold : 0;
  const points = history.values.map((one) => ({ ...one, when: new Date(one.at) }));
  const top = Math.max(threshold, d3.max(points, (one) => one.value) || 0, 1);
  const box = document.createElement("div");
  const x = d3.scaleUtc(d3.extent(points, (one) => one.when), [LEFT, WIDTH - 8]);
  const y = d3.scaleLinear([Math.min(0, threshold, d3.min(points, (one) => one.value) || 0), top], [HEIGHT - 24, 12]).nice();
  const svg = d3.select(box).append("svg").attr("class", "chart preview").attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`).attr("role", "img")
    .attr("aria-label", `The value over time, the threshold ${number(threshold)}, and ${counted(history.fired.length, "delivery", "deliveries")}; in words below`);
  svg.append("g").attr("transform", `translate(0,${HEIGHT - 24})`).call(d3.axisBottom(x).ticks(5, d3.utcFormat("%-d %b %H:%M")));
  svg.append("g").attr("transform", `translate(${LEFT},0)`).call(d3.axisLeft(y).ticks(4));
  svg.append("path").attr("class", "line").attr("d", d3.line().defined((one) => one.value !== null).x((one) => x(one.when)).y((one) => y(one.value)).curve(d3.curveStepAfter)(points));
  svg.append("line").attr("class", "threshold").attr("x1", LEFT).attr("x2", WIDTH - 8).attr("y1", y(threshold)).attr("y2", y(threshold));
  svg.append("text").attr("class", "threshold-name").attr("x", LEFT + 6).attr("y", y(threshold) - 5).text(`threshold ${number(threshold)}`);
  svg.selectAll("circle").data(history.fired).join("circle").attr("class", "fired").attr("cx", (one) => x(new Date(one.at))).attr("cy", (one) => y(one.value)).attr("r", 4.5);
  return box;
}
