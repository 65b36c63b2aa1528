// One mattress in a drawer: price and its history, the sizes and shops of its model, attributes and where they were read.
import { apiButton } from "../api_call.js";
import { changed, go, pageLink } from "../address.js";
import { chart } from "../chart.js";
import { copyButton, el } from "../dom.js";
import { openDrawer } from "../drawer.js";
import { day, errorNotice, money } from "../format.js";
import { callOnce } from "../server.js";
import { features, isMadeUp, picture, price, pricePoints, shareOff, stock } from "./card.js";
import { chosenIds, toggle } from "./compare.js";
import { disclosure, loadShops, shopLink, shopName } from "./shops.js";

const ATTRIBUTES = [["size", "Size", String], ["material", "Material", String], ["firmness", "Firmness", (value) => `${value} of 10 (10 is firmest)`],
  ["cooling", "Cooling", (value) => `${value} of 5 (5 is coolest)`], ["sleep_positions", "Sleep positions", (value) => value.join(", ")]];
const PLACES = { title: "title", tags: "tags", description: "description" };

/** Open the product's drawer; closing it leaves the product's address. */
export async function openProduct(id) {
  const drawer = openDrawer({ title: "Loading…", wide: true, body: el("div", { class: "product-loading", "aria-busy": "true" }), onClose: () => go({ product: "" }) });
  const path = `/api/products/${encodeURIComponent(id)}`;
  try {
    const [{ members: product }, { members: similar }] = await Promise.all([callOnce("mattress", path), callOnce("mattress", `${path}/similar?limit=4`), loadShops()]);
    drawer.show(product.title, details(product, similar.products, path));
  } catch (error) {
    if (!error.problem) throw error;
    drawer.show(error.status === 404 ? "This product is not listed" : "The product could not be loaded", [errorNotice(error, error.status === 404 ? null : () => openProduct(id))]);
  }
}

function details(product, similar, path) {
  return [
    isMadeUp(product) && el("p", { class: "notice small" }, "Demonstration data: this product, its brand and its shop are fictional."),
    el("div", { class: "product-head" }, picture(product), el("div", {},
      el("p", { class: "dim" }, [product.brand, shopName(product.retailer)].filter(Boolean).join(" · ")), price(product),
      el("p", { class: "small" }, stock(product), el("span", { class: "dim" }, ` · price since ${day(product.price_history.at(-1)?.at)} · lowest in 30 days ${money(product.lowest_30_days, product.currency)}`)),
      el("p", { class: "actions" }, shopLink(product), compareButton(product), apiButton(() => ({ service: "mattress", path })), copyButton(() => location.origin + changed({ chosen: "", compare: "" }), "Copy link")),
      disclosure())),
    el("h3", {}, "Price history"), history(product),
    product.offers.length > 1 && [el("h3", {}, "Sizes and shops"), offers(product)],
    el("h3", {}, "Attributes"), attributes(product),
    product.description && [el("h3", {}, "From the retailer's description"), el("p", {}, product.description)],
    similar.length > 0 && [el("h3", {}, "Similar mattresses"), el("ul", { class: "similar" }, similar.map((one) => el("li", {}, pageLink(el("a", {}, one.title), { product: one.id }),
      el("span", { class: "dim small" }, shopName(one.retailer)), el("span", { class: "number" }, money(one.sale_price, one.currency)))))],
  ].flat().filter(Boolean);
}

function compareButton(product) {
  const text = () => (chosenIds().includes(product.id) ? "Chosen to compare ✓" : "Compare");
  const button = el("button", { type: "button", class: "quiet", "aria-pressed": String(chosenIds().includes(product.id)), onclick: () => {
    const isChosen = toggle(product.id, !chosenIds().includes(product.id));
    button.setAttribute("aria-pressed", String(isChosen));
    button.textContent = text();
  } }, text());
  return button;
}

function history(product) {
  const series = [{ name: "Price", kind: "step", tone: "1", points: pricePoints(product, "sale_price") }];
  if (product.price_history.some((one) => one.sale_price < one.price)) series.push({ name: "List price", kind: "step", tone: "6", points: pricePoints(product, "price") });
  const reads = (value) => money(value, product.currency);
  if (product.price_history.length < 2) return el("p", { class: "dim" }, `${reads(product.sale_price)} since ${day(product.created_at)}, when it was listed.`);
  return chart({ label: `Price of ${product.title} in ${product.currency}`, series, x: { format: (at) => day(new Date(at).toISOString()) }, y: { format: reads } });
}

function offers(product) {
  const sizes = Map.groupBy(product.offers, (one) => one.size || "Size not stated");
  const cell = (one) => el("li", { "aria-current": one.id === product.id ? "true" : null }, pageLink(el("a", {}, shopName(one.retailer)), { product: one.id }),
    el("span", { class: "dim small" }, [shareOff(one) > 0 && `−${shareOff(one)}%`, one.availability !== "in stock" && one.availability].filter(Boolean).join(" · ")), el("span", { class: "number" }, money(one.sale_price, product.currency)));
  return el("div", { class: "offers-by-size" }, [...sizes].map(([size, rows]) => el("section", {}, el("h4", {}, size), el("ul", {}, rows.map(cell)))));
}

function attributes(product) {
  const tags = features(product);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Attributes" }, el("table", { class: "attribute-table" },
    el("thead", {}, el("tr", {}, ["Attribute", "Value", "Where it was read"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ATTRIBUTES.map(([name, label, reads]) => {
      const [value, source] = [product[name], product.attribute_sources[name]];
      const isKnown = Array.isArray(value) ? value.length > 0 : value !== null;
      return el("tr", {}, el("th", { scope: "row" }, label), el("td", { class: isKnown ? null : "dim" }, isKnown ? reads(value) : source ? "contradictory" : "not stated"), el("td", { class: "small" }, provenance(source)));
    }), tags.length > 0 && el("tr", {}, el("th", { scope: "row" }, "Tags"), el("td", {}, tags.join(", ")), el("td", { class: "small" }, "the retailer's tags")))));
}

function provenance(source) {
  if (!source) return "–";
  if (!source.words.length) return "stated by the retailer's feed";
  const words = source.words.flatMap((one, at) => [at > 0 && ", ", el("q", {}, one)]).filter(Boolean);
  return [...words, PLACES[source.place] ? ` in the ${PLACES[source.place]}` : " in a field of the retailer's feed"];
}
