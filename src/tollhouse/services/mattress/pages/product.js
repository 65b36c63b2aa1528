// One mattress: its data, its price history, and similar ones.
import { pageLink } from "../address.js";
import { el, facts, externalLink } from "../dom.js";
import { callOnce } from "../server.js";
import { day, hostOf, money } from "../format.js";

const WIDTH = 640;
const HEIGHT = 190;
const { d3 } = globalThis;

/** The tag of fictional products. */
export const DEMO = "demo data";

export const isMadeUp = (product) => product.tags.includes(DEMO);

export async function productDetails(id, picture) {
  const path = `/api/products/${encodeURIComponent(id)}`;
  const [{ members: product }, { members: similar }] = await Promise.all([callOnce("mattress", path), callOnce("mattress", `${path}/similar?limit=4`)]);
  const isReduced = product.sale_price < product.price;
  const children = [
    isMadeUp(product) && el("p", { class: "notice" }, "Demonstration data: this product, its brand and its retailer are fictional."),
    picture(product, "product"),
    facts([["Price now", money(product.sale_price, product.currency)], ...(isReduced ? [["List price", money(product.price, product.currency)]] : []),
      ["Lowest in 30 days", money(product.lowest_30_days, product.currency)], ["Size", product.size || "–", "plain"], ["Material", product.material || "–", "plain"],
      ["Firmness", product.firmness ? `${product.firmness} of 10` : "–", "plain"], ["Cooling", product.cooling ? `${product.cooling} of 5` : "–", "plain"],
      ["For sleepers on", product.sleep_positions.join(", ") || "–", "plain"], ["Availability", product.availability, "plain"]]),
    product.description && el("p", {}, product.description),
    el("p", {}, externalLink(product.affiliate_url, `At ${hostOf(product.affiliate_url)}`), el("span", { class: "dim small" }, " (an affiliate link)")),
    el("h3", {}, "Price history"), ...history(product),
    el("h3", {}, "Similar products"),
    el("ul", {}, similar.products.map((one) => el("li", {}, pageLink(el("a", {}, one.title), { product: one.id }), ` ${money(one.sale_price, one.currency)}`))),
  ];
  return { title: product.title, children: children.filter(Boolean) };
}

function history(product) {
  const points = product.price_history.map((one) => ({ ...one, when: new Date(one.at) }));
  const rows = [...points].reverse().map((one) => el("tr", {}, el("td", {}, day(one.at)), el("td", { class: "number" }, money(one.sale_price, product.currency)), el("td", { class: "number" }, money(one.price, product.currency))));
  const table = el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "From"), el("th", { scope: "col", class: "number" }, "Price"), el("th", { scope: "col", class: "number" }, "List price"))), el("tbody", {}, rows));
  if (points.length < 2) return [el("p", { class: "dim" }, "The price has not changed since it was listed."), table];
  return [chart(points, product), el("details", {}, el("summary", {}, "As a table"), table)];
}

function chart(points, product) {
  const box = document.createElement("div");
  const drawn = [...points, { ...points.at(-1), when: new Date() }];
  const x = d3.scaleUtc(d3.extent(drawn, (one) => one.when), [52, WIDTH - 10]);
  const y = d3.scaleLinear([0, d3.max(drawn, (one) => one.price)], [HEIGHT - 24, 10]).nice();
  const svg = d3.select(box).append("svg").attr("class", "chart").attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`).attr("role", "img")
    .attr("aria-label", `Price history in ${product.currency}, also as a table below`);
  svg.append("g").attr("transform", `translate(0,${HEIGHT - 24})`).call(d3.axisBottom(x).ticks(5));
  svg.append("g").attr("transform", "translate(52,0)").call(d3.axisLeft(y).ticks(4));
  const step = (member) => d3.line().x((one) => x(one.when)).y((one) => y(one[member])).curve(d3.curveStepAfter)(drawn);
  svg.append("path").attr("class", "line list-price").attr("d", step("price"));
  svg.append("path").attr("class", "line").attr("d", step("sale_price"));
  return box;
}
