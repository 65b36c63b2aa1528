// Products with their indicative prices, on one scale.
import { el } from "../dom.js";
import { number } from "../format.js";

/** "6,000 to 9,000 EUR" or "from 6,000 EUR". */
export function priceWords({ from, to }, currency) {
  if (to === null) return `from ${number(from)} ${currency}`;
  return from === to ? `${number(from)} ${currency}` : `${number(from)} to ${number(to)} ${currency}`;
}

/** The range of a price on the scale from 0 to `most`; one without an end fades out. */
export function priceBar({ from, to }, most) {
  const bar = el("span", { class: to === null ? "range open" : "range" });
  bar.style.left = `${(100 * from) / most}%`;
  bar.style.width = `${Math.max(1.5, (100 * ((to ?? most) - from)) / most)}%`;
  return el("span", { class: "price-scale", "aria-hidden": "true" }, bar);
}

/** The end of the scale: the highest price of all. */
export const highestPrice = (products) => Math.max(1, ...products.map(({ indicative_price: { from, to } }) => to ?? from * 1.5));
