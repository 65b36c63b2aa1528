// Up to four products side by side: chosen in a tray, compared in a table, both in the address.
import { apiButton } from "../api_call.js";
import { go, pageLink, state } from "../address.js";
import { announce, el, fill } from "../dom.js";
import { day, errorNotice, money } from "../format.js";
import { callOnce, query } from "../server.js";
import { features, isMadeUp, picture, priceLine, shareOff } from "./card.js";
import { disclosure, shopLink, shopName } from "./shops.js";

const MOST = 4;
const named = (name) => [...new Set((state()[name] || "").split(",").filter(Boolean))];
const ids = (name) => named(name).slice(0, MOST);

/** The products chosen to compare: `chosen` in the address, or `compare` while they are side by side. */
export const chosenIds = () => (state().compare ? ids("compare") : ids("chosen"));

/** Choose a product or not; returns whether it is chosen then. More than four are not taken. */
export function toggle(id, isWanted) {
  const others = chosenIds().filter((one) => one !== id);
  if (isWanted && others.length >= MOST) {
    announce(`Only ${MOST} products can be compared. Remove one first.`);
    return false;
  }
  const name = state().compare ? "compare" : "chosen";
  go({ [name]: (isWanted ? [...others, id] : others).join(",") });
  return isWanted;
}

/** The bar at the bottom with the chosen products; gone while none is chosen or they are being compared. */
export function showTray(place) {
  const chosen = ids("chosen");
  place.hidden = !chosen.length || Boolean(state().compare);
  if (place.hidden) return fill(place);
  const title = (id) => document.querySelector(`#goods [data-id="${CSS.escape(id)}"] h3`)?.textContent || id.split(".").at(-1).replaceAll("-", " ");
  fill(place, el("p", {}, el("strong", {}, `${chosen.length} of ${MOST}`), " to compare"),
    el("ul", {}, chosen.map((id) => el("li", { class: "chip" }, el("b", {}, title(id)), el("button", { type: "button", "aria-label": `Remove ${title(id)} from the comparison`, onclick: () => toggle(id, false) }, "×")))),
    el("div", { class: "tray-actions" }, chosen.length > 1 ? pageLink(el("a", { class: "button" }, "Compare"), { compare: chosen.join(","), chosen: "" }) : el("span", { class: "small dim" }, "Choose another one"),
      el("button", { type: "button", class: "quiet", onclick: () => go({ chosen: "" }) }, "Clear")));
}

/** The comparison of the products in the address. */
export async function showComparison(place, shops) {
  const wanted = ids("compare");
  const request = { service: "mattress", path: "/api/products", query: { id: wanted, include: "price_history", limit: MOST } };
  if (!place.firstChild) fill(place, el("div", { class: "comparison-loading", "aria-busy": "true" }));
  try {
    const [{ members }] = await Promise.all([callOnce("mattress", request.path + query(request.query)), shops]);
    if (ids("compare").join() !== wanted.join()) return;
    const byId = new Map(members.products.map((one) => [one.id, one]));
    const products = wanted.map((id) => byId.get(id)).filter(Boolean);
    const missing = wanted.filter((id) => !byId.has(id));
    const only = state().rows === "different";
    fill(place, el("header", { class: "list-head" }, el("h2", { id: "comparison-heading", tabindex: "-1" }, "Comparison"), el("div", { class: "list-tools" },
      pageLink(el("a", { class: "button quiet" }, "← Back to the list"), { compare: "", rows: "", chosen: wanted.join(",") }),
      el("label", { class: "choice" }, el("input", { type: "checkbox", id: "only-different", checked: only, onchange: (event) => go({ rows: event.target.checked ? "different" : "" }) }), "Only differences"),
      el("button", { type: "button", class: "quiet", onclick: () => print() }, "Print"), apiButton(() => request))),
    products.some(isMadeUp) && el("p", { class: "small dim" }, products.every(isMadeUp) ? "Demonstration data: these products, brands and shops are fictional." : `Demonstration data, with a fictional brand and shop: ${products.filter(isMadeUp).map((one) => one.title).join("; ")}.`),
    named("compare").length > MOST && el("p", { class: "notice" }, `At most ${MOST} products are compared. Left out: ${named("compare").slice(MOST).join(", ")}.`),
    missing.map((id) => el("p", { class: "notice", role: "alert" }, "No product has the id ", el("code", {}, id), ". It may have been removed by its retailer. ", pageLink(el("a", {}, "Leave it out"), { compare: wanted.filter((one) => one !== id).join(",") }))),
    products.length ? table(products, only) : el("p", { class: "empty" }, "None of these products is listed."), products.length > 0 && disclosure());
    announce(`Comparison of ${products.length} products`);
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, errorNotice(error, () => showComparison(place, shops)));
  }
}

/** The rows: label with unit, the text of a value (null: not stated), and which value is best, where one is. */
function rows(products) {
  const lowest = (product) => product.price_history.reduce((best, one) => (one.sale_price < best.sale_price ? one : best), product.price_history[0]);
  const least = (values) => { const known = values.filter((one) => one !== null); return known.length ? Math.min(...known) : null; };
  const best = least(products.map((one) => one.sale_price));
  return [
    ["Price", "AUD", (one) => money(one.sale_price, one.currency), (one) => one.sale_price === best && "lowest"],
    ["List price", "AUD", (one) => money(one.price, one.currency)],
    ["Reduction", "% of the list price", (one) => (shareOff(one) ? `${shareOff(one)}%` : "none")],
    ["Lowest recorded", "AUD, since listed", (one) => { const point = lowest(one); return point ? `${money(point.sale_price, one.currency)} on ${day(point.at)}` : null; }],
    ["Size", "", (one) => one.size], ["Material", "", (one) => one.material],
    ["Firmness", "1 soft to 10 firm", (one) => one.firmness && `${one.firmness} of 10`], ["Cooling", "1 warm to 5 cool", (one) => one.cooling && `${one.cooling} of 5`],
    ["Sleep positions", "", (one) => one.sleep_positions.join(", ") || null], ["Availability", "", (one) => one.availability],
    ["Features", "the retailer's tags", (one) => features(one).join(", ") || null], ["Brand", "", (one) => one.brand], ["Shop", "", (one) => shopName(one.retailer)],
  ];
}

function table(products, onlyDifferent) {
  const lines = rows(products).map(([label, unit, reads, mark]) => {
    const texts = products.map((one) => reads(one) ?? null);
    const isDifferent = new Set(texts).size > 1;
    return { isDifferent, row: el("tr", { role: "row", class: isDifferent ? "different" : null }, el("th", { scope: "row", role: "rowheader" }, label, unit && el("span", { class: "unit" }, unit), isDifferent && el("span", { class: "unseen" }, " (different)")),
      texts.map((text, at) => el("td", { role: "cell", class: text === null ? "dim" : null }, text ?? "not stated", mark && isDifferent && mark(products[at]) && [" ", el("span", { class: "badge good" }, mark(products[at]))]))) };
  });
  const heads = products.map((one) => el("th", { scope: "col", role: "columnheader" }, picture(one), pageLink(el("a", {}, one.title), { product: one.id }),
    el("span", { class: "head-actions" }, shopLink(one), el("button", { type: "button", class: "text small", "aria-label": `Remove ${one.title} from the comparison`, onclick: () => toggle(one.id, false) }, "Remove"))));
  const sparklines = el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader" }, "Price history", el("span", { class: "unit" }, "each on its own scale")), products.map((one) => el("td", { role: "cell" }, one.price_history.length > 1 ? priceLine(one, { width: 132, height: 34 }) : `no change since ${day(one.created_at)}`)));
  const shown = lines.filter((one) => !onlyDifferent || one.isDifferent).map((one) => one.row);
  const made = el("table", { class: "comparison", role: "table", "data-columns": products.length }, el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("td", { role: "cell" }, el("span", { class: "unseen" }, "Attribute")), heads)),
    el("tbody", { role: "rowgroup" }, shown.slice(0, 1), sparklines, shown.slice(1)));
  return el("div", { class: "comparison-scroll", tabindex: "0", role: "region", "aria-label": "Comparison" }, made);
}
