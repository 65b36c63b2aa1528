// Retailers by name, and the links to them.
import { el } from "../dom.js";
import { callOnce } from "../server.js";

const names = new Map();

/** Load the names of the retailers; until then, and without them, names are made from ids. */
export async function loadShops() {
  try {
    const { members } = await callOnce("mattress", "/api/retailers");
    for (const { id, name } of members.retailers) names.set(id, name);
  } catch {
    // The list itself reports the error.
  }
}

export function shopName(id) {
  return names.get(id) || id.split("-").map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join(" ");
}

/** A link to the product at its retailer, named after the retailer and not after the host of the affiliate network. */
export function shopLink(product, { quiet = false } = {}) {
  if (!/^https?:\/\//i.test(product.affiliate_url)) return null;
  const text = `View at ${shopName(product.retailer)}`;
  return el("a", { class: quiet ? "button quiet shop-link" : "button shop-link", href: product.affiliate_url, target: "_blank", rel: "sponsored nofollow noopener noreferrer", "aria-label": `${text}: ${product.title} (opens a new tab)` },
    text, el("span", { "aria-hidden": "true" }, " ↗"));
}

/** Where the affiliate links are explained. */
export const disclosure = () => el("p", { class: "small dim disclosure" }, "Affiliate link: this site may earn a commission. ", el("a", { href: "/mattresses#affiliate-links" }, "How it works"));
