// The studio's catalogue. The note that its prices are indicative comes first.
import { byId, el, fill } from "../dom.js";
import { call } from "../server.js";
import { number, errorNotice } from "../format.js";

try {
  show((await call("studio", "/api/catalogue")).members);
} catch (error) {
  fill(byId("studio"), errorNotice(error));
}

function show(document) {
  byId("studio-name").textContent = document.studio;
  const products = new Map(document.products.map((product) => [product.id, product]));
  const first = document.first_engagement;
  fill(byId("studio"), el("p", { class: "notice" }, document.pricing_note),
    document.operating_layers.map((layer) => el("section", { "aria-labelledby": `layer-${layer.id}` },
      el("h2", { id: `layer-${layer.id}` }, layer.name), el("p", {}, layer.summary),
      el("div", { class: "cards" }, layer.products.map((id) => card(products.get(id), document.currency))))),
    el("section", { "aria-labelledby": "first" }, el("h2", { id: "first" }, `First engagement: ${first.stage}`),
      el("ol", {}, first.steps.map((step) => el("li", {}, step))),
      el("h3", {}, "Outputs"), el("ul", {}, first.outputs.map((text) => el("li", {}, text))), el("p", {}, first.next)),
    el("p", { class: "small dim" }, `Version ${document.version}. This server takes no payments or bookings for it and sends nothing.`));
}

function card(product, currency) {
  const { from, to, unit } = product.indicative_price;
  const price = to === null ? `from ${number(from)} ${currency}` : `${number(from)} to ${number(to)} ${currency}`;
  return el("article", { class: "card" }, el("h3", {}, product.name), el("p", {}, product.summary),
    el("ul", { class: "small" }, product.deliverables.map((text) => el("li", {}, text))),
    el("p", {}, el("strong", {}, `Indicative: ${price}`), ` ${unit}`), el("p", { class: "small dim" }, product.duration));
}
