// The filters beside the products, each value with how many products it would leave.
import { go, state, values } from "./address.js";
import { el, fill } from "./dom.js";
import { money, number } from "./words.js";

const NAMES = { size: "Size", material: "Material", sleep_position: "Sleeps on", brand: "Brand", retailer: "Retailer" };
const SHOWN = 8;
const { d3 } = globalThis;

export function showFacets(place, facets, applied) {
  const focused = document.activeElement && document.activeElement.id;
  fill(place, price(facets.price), range("firmness", "Firmness (1 soft, 10 firm)"), cooling(), stock(),
    Object.entries(NAMES).filter(([name]) => (facets[name] || []).length).map(([name, text]) => choices(name, text, facets[name])),
    Object.keys(applied).length > 0 && el("button", { type: "button", class: "quiet", onclick: clear }, "Clear filters"));
  // The list is made anew with every answer; whoever was at a filter stays there.
  const again = focused && document.getElementById(focused);
  if (again && place.contains(again)) again.focus();
}

function clear() {
  go(Object.fromEntries([...Object.keys(NAMES), "min_price", "max_price", "firmness_min", "firmness_max", "cooling_min", "in_stock", "offset"].map((name) => [name, ""])));
}

function choices(name, text, counts) {
  const chosen = values(name);
  const isChosen = (value) => chosen.some((one) => one.toLowerCase() === String(value).toLowerCase());
  const line = ({ value, count }) => {
    const id = `${name}-${String(value).replace(/[^a-z0-9]+/gi, "-")}`;
    return el("label", { class: "choice", for: id },
      el("input", { type: "checkbox", id, checked: isChosen(value), onchange: (event) => go({ [name]: event.target.checked ? [...chosen, value] : chosen.filter((one) => one.toLowerCase() !== String(value).toLowerCase()), offset: "" }) }),
      String(value), el("span", { class: "count" }, number(count)));
  };
  const [first, rest] = [counts.slice(0, SHOWN), counts.slice(SHOWN)];
  return el("fieldset", {}, el("legend", {}, text), first.map(line),
    rest.length > 0 && el("details", { open: rest.some((one) => isChosen(one.value)) }, el("summary", { class: "small" }, `${rest.length} more`), rest.map(line)));
}

function range(name, text) {
  const given = state();
  const pick = (end, label) => el("select", { id: `${name}-${end}`, "aria-label": `${text}: ${label}`, onchange: (event) => go({ [`${name}_${end}`]: event.target.value, offset: "" }) },
    el("option", { value: "" }, label), d3.range(1, 11).map((value) => el("option", { value, selected: given[`${name}_${end}`] === String(value) }, value)));
  return el("fieldset", {}, el("legend", {}, text), el("div", { class: "row" }, pick("min", "at least"), pick("max", "at most")));
}

function cooling() {
  return el("div", { class: "field" }, el("label", { for: "cooling" }, "Cooling, at least (5 coolest)"),
    el("select", { id: "cooling", onchange: (event) => go({ cooling_min: event.target.value, offset: "" }) }, el("option", { value: "" }, "any"),
      d3.range(1, 6).map((value) => el("option", { value, selected: state().cooling_min === String(value) }, value))));
}

function stock() {
  return el("label", { class: "choice", for: "in-stock" }, el("input", { type: "checkbox", id: "in-stock", checked: state().in_stock === "true",
    onchange: (event) => go({ in_stock: event.target.checked ? "true" : "", offset: "" }) }), "In stock only");
}

function price(spread) {
  const given = state();
  const low = el("input", { id: "min-price", type: "number", min: 0, step: 50, value: given.min_price || "", "aria-label": "Price from", placeholder: "from" });
  const high = el("input", { id: "max-price", type: "number", min: 0, step: 50, value: given.max_price || "", "aria-label": "Price to", placeholder: "to" });
  return el("form", { onsubmit: (event) => { event.preventDefault(); go({ min_price: low.value, max_price: high.value, offset: "" }); } },
    el("fieldset", {}, el("legend", {}, "Price"), spread && spread.histogram.length > 1 && histogram(spread),
      el("div", { class: "row" }, el("div", { class: "grow" }, low), el("div", { class: "grow" }, high), el("button", { class: "quiet" }, "Set"))));
}

function histogram(spread) {
  const box = document.createElement("div");
  const x = d3.scaleLinear([spread.histogram[0].from, spread.histogram.at(-1).to], [0, 240]);
  const y = d3.scaleLinear([0, d3.max(spread.histogram, (bar) => bar.count)], [0, 46]);
  const svg = d3.select(box).append("svg").attr("class", "chart").attr("viewBox", "0 0 240 62").attr("role", "img")
    .attr("aria-label", `Prices from ${money(spread.min)} to ${money(spread.max)}`);
  svg.selectAll("rect").data(spread.histogram).join("rect").attr("class", "bar").attr("x", (bar) => x(bar.from) + 0.5)
    .attr("width", (bar) => Math.max(1, x(bar.to) - x(bar.from) - 1)).attr("y", (bar) => 48 - y(bar.count)).attr("height", (bar) => y(bar.count));
  svg.append("text").attr("x", 0).attr("y", 60).text(money(spread.min));
  svg.append("text").attr("x", 240).attr("y", 60).attr("text-anchor", "end").text(money(spread.max));
  return box;
}
