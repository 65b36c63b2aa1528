// The studio's catalogue: a layer at a time, each product with its deliverables and indicative price; printable.
import { byId, el, fill } from "../dom.js";
import { apiButton } from "../api_call.js";
import { errorNotice } from "../format.js";
import { call } from "../server.js";
import { highestPrice, priceBar, priceWords } from "./products.js";

fill(byId("studio-tools"), el("button", { type: "button", class: "quiet", onclick: () => print() }, "Print"), apiButton(() => ({ service: "studio", path: "/api/catalogue" })));
load();

async function load() {
  try {
    show((await call("studio", "/api/catalogue")).members);
  } catch (error) {
    fill(byId("studio"), errorNotice(error, load));
  }
  byId("studio").removeAttribute("aria-busy");
}

function show(document) {
  byId("studio-name").textContent = document.studio;
  byId("pricing-note").textContent = document.pricing_note;
  const products = new Map(document.products.map((product) => [product.id, product]));
  const most = highestPrice(document.products);
  const first = document.first_engagement;
  fill(byId("studio"),
    document.operating_layers.map((layer, at) => el("section", { class: "layer", "aria-labelledby": `layer-${layer.id}` },
      el("header", {}, el("p", { class: "small dim" }, `Layer ${at + 1}`), el("h2", { id: `layer-${layer.id}` }, layer.name), el("p", { class: "dim" }, layer.summary)),
      el("ul", { class: "list" }, layer.products.map((id) => productLine(products.get(id), document.currency, most))))),
    el("section", { class: "layer first", "aria-labelledby": "first" },
      el("header", {}, el("p", { class: "small dim" }, "First engagement"), el("h2", { id: "first" }, first.stage), el("p", { class: "dim" }, first.next)),
      el("div", { class: "first-parts" }, el("div", {}, el("h3", {}, "Steps"), el("ol", { class: "steps" }, first.steps.map((step) => el("li", {}, step)))),
        el("div", {}, el("h3", {}, "Outputs"), el("ul", {}, first.outputs.map((text) => el("li", {}, text)))))),
    el("p", { class: "small dim" }, `Version ${document.version}. Bars compare the indicative prices on one scale. This server takes no payments or bookings for the studio and sends nothing.`));
}

function productLine(product, currency, most) {
  return el("li", { class: "product" },
    el("div", {}, el("h3", {}, product.name), el("p", {}, product.summary), el("ul", { class: "deliverables small", "aria-label": `Deliverables of ${product.name}` }, product.deliverables.map((text) => el("li", {}, text)))),
    el("div", { class: "indicative" }, el("p", {}, el("strong", {}, priceWords(product.indicative_price, currency)), el("span", { class: "dim" }, ` ${product.indicative_price.unit}`)),
      priceBar(product.indicative_price, most), el("p", { class: "small dim" }, `Indicative · ${product.duration}`)));
}
