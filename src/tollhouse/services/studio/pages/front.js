// The piece of the front page: each layer with its products and indicative prices, after the first paint.
import { byId, el, fill } from "../dom.js";
import { errorNotice } from "../format.js";
import { call } from "../server.js";
import { highestPrice, priceBar, priceWords } from "./products.js";

requestAnimationFrame(() => setTimeout(load));

async function load() {
  try {
    show((await call("studio", "/api/catalogue")).members);
  } catch (error) {
    fill(byId("studio-piece"), errorNotice(error, load));
  }
  byId("studio-piece").removeAttribute("aria-busy");
}

function show({ studio, pricing_note: note, operating_layers: layers, products, currency, first_engagement: first }) {
  const byIds = new Map(products.map((one) => [one.id, one]));
  const most = highestPrice(products);
  fill(byId("studio-piece"), layers.map((layer) => el("article", { class: "card" }, el("h3", {}, layer.name),
    el("p", { class: "small dim" }, layer.summary),
    el("ul", {}, layer.products.map((id) => byIds.get(id)).map((one) => el("li", {}, el("div", {}, one.name), priceBar(one.indicative_price, most), el("span", { class: "small dim" }, `${priceWords(one.indicative_price, currency)} ${one.indicative_price.unit}`)))))));
  byId("studio-note").textContent = `${studio}. ${note} First engagement: ${first.stage}, ${first.steps.length} steps.`;
}
