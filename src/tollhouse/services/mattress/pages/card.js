// A product in a list: picture, price with its history, attributes, and the link to its retailer.
import { sparkline } from "../chart.js";
import { el } from "../dom.js";
import { counted, day, money } from "../format.js";
import { addressOf } from "../server.js";
import { shopLink, shopName } from "./shops.js";

/** The tag of fictional products. */
const DEMO = "demo data";
const STOCK = { "in stock": "in", "low stock": "low" };

export const isMadeUp = (product) => product.tags.includes(DEMO);
/** The tags that say something about the product. */
export const features = (product) => product.tags.filter((tag) => tag !== DEMO);
/** The share off the list price, in whole percent; 0 without a reduction. */
export const shareOff = (product) => (product.sale_price < product.price ? Math.round(100 * (1 - product.sale_price / product.price)) : 0);

/** `title` is the heading's link, `more` what stands beside the stock; `isMixed`: fictional products are among others. */
export function productCard(product, { title, more = null, isMixed = false }) {
  return el("li", { class: "product-card", "data-id": product.id }, picture(product),
    el("p", { class: "small dim maker" }, [product.brand, shopName(product.retailer)].filter(Boolean).join(" · ")),
    el("h3", {}, title),
    el("div", { class: "price-line" }, price(product), priceLine(product)),
    attributes(product),
    el("div", { class: "small state" }, stock(product), isMixed && isMadeUp(product) && el("span", { class: "badge" }, DEMO), more),
    el("div", { class: "card-actions" }, shopLink(product, { quiet: true })));
}

/** The current price; where it is reduced, also the list price and the share off. */
export function price(product) {
  const off = shareOff(product);
  const reduced = product.sale_price < product.price ? [" ", el("s", {}, el("span", { class: "unseen" }, "list price "), money(product.price, product.currency)), " ", off > 0 && el("span", { class: "off" }, `−${off}%`)] : [];
  return el("p", { class: "price" }, el("strong", {}, money(product.sale_price, product.currency)), reduced);
}

/** The current price since the product was listed; a flat line where it never changed. */
export function priceLine(product, size = { width: 84, height: 26 }) {
  const points = pricePoints(product, "sale_price");
  const [values, changes] = [points.map((one) => money(one.y, product.currency)), product.price_history.length - 1];
  const label = changes > 0 ? `Price history: ${counted(changes, "change")}, from ${values[0]} to ${values.at(-1)}` : `Price: ${values[0]} since ${day(product.created_at)}`;
  return sparkline(points, { ...size, kind: "step", tone: changes > 0 ? "1" : "6", label });
}

/** Prices as points of a chart; the last price holds until now. */
export function pricePoints(product, member) {
  const points = product.price_history.map((one) => ({ x: one.at, y: one[member] }));
  return points.length ? [...points, { x: new Date().toISOString(), y: points.at(-1).y }] : points;
}

function attributes(product) {
  const known = [product.size, product.material, product.firmness && `Firmness ${product.firmness}/10`, product.cooling && `Cooling ${product.cooling}/5`].filter(Boolean);
  return el("ul", { class: "small attributes" }, (known.length ? known : ["No attributes stated"]).map((text) => el("li", {}, text)));
}

export const stock = (product) => el("span", { class: `stock ${STOCK[product.availability] || "out"}` }, product.availability.slice(0, 1).toUpperCase() + product.availability.slice(1));

/** The picture that this server draws of the attributes. A retailer's own image would reveal the visitor to the retailer. */
export function picture(product) {
  return el("img", { class: "product-picture", src: `${addressOf("mattress")}/images/${encodeURIComponent(product.id)}.svg`, alt: "", loading: "lazy", width: 480, height: 240 });
}
