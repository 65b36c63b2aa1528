// Mattress search: words, facets and order in the address; one product with its price history over the list.
import { following, go, here, state, values } from "./address.js";
import { byId, closeDialog, el, fill, say, showDialog } from "./dom.js";
import { showFacets } from "./mattress_facets.js";
import { productInside } from "./mattress_product.js";
import { callOnce, query } from "./server.js";
import { counted, money, number, refusal } from "./words.js";

const LISTS = ["brand", "size", "material", "retailer", "sleep_position"];
const NUMBERS = ["min_price", "max_price", "firmness_min", "firmness_max", "cooling_min"];
const PER_PAGE = 24;
const COUNTED = "size,material,sleep_position,brand,retailer,price";
let shown = "";

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ q: byId("q").value.trim(), sort: byId("sort").value, offset: "" });
});
byId("sort").addEventListener("change", () => go({ sort: byId("sort").value, offset: "" }));
byId("filters").open = matchMedia("(min-width: 60rem)").matches;
following(show);

function asked() {
  const given = state();
  const lists = Object.fromEntries(LISTS.map((name) => [name, values(name)]));
  const numbers = Object.fromEntries(NUMBERS.map((name) => [name, given[name]]));
  const more = { in_stock: given.in_stock, sort: given.sort, offset: given.offset, q: given.q, limit: PER_PAGE, facets: COUNTED };
  return (given.q ? "/api/search" : "/api/products") + query({ ...lists, ...numbers, ...more });
}

async function show() {
  const given = state();
  byId("q").value = given.q || "";
  byId("sort").value = given.sort || "";
  if (asked() !== shown) await showList(asked());
  if (given.product) openProduct(given.product);
  else closeDialog();
}

async function showList(path) {
  shown = path;
  try {
    const { members, headers } = await callOnce("mattress", path);
    if (shown !== path) return;
    fill(byId("trouble"));
    byId("found").textContent = told(members, headers);
    say(counted(members.total, "product"));
    showFacets(byId("facets"), members.facets || {}, members.applied_filters);
    fill(byId("goods"), members.products.length ? members.products.map(card) : el("li", { class: "empty" }, "No mattress fits. Take a filter away, or use other words."));
    showPages(members);
  } catch (error) {
    if (!error.problem) throw error;
    shown = "";
    fill(byId("goods"));
    fill(byId("trouble"), error.status === 402 ? allowanceUsed(error) : refusal(error, show));
  }
}

function told(page, headers) {
  const left = headers.get("x-ratelimit-remaining");
  const parts = [counted(page.total, "product")];
  const understood = page.applied_filters.understood;
  if (understood && understood.corrected && Object.keys(understood.corrected).length) parts.push("spelling corrected");
  if (left !== null) parts.push(`${number(Number(left))} free requests left today`);
  return parts.join(" · ");
}

function allowanceUsed(error) {
  const isSold = (error.problem.accepts || []).length > 0;
  return el("div", { class: "notice", role: "alert" }, el("p", {}, error.message),
    isSold && el("p", {}, "A program can go on by paying for each request (x402): the answer 402 says how much, to whom and on which chain."),
    el("p", {}, "In these pages it goes on at midnight UTC."),
    el("p", { class: "small" }, el("a", { href: "/problems/payment-required" }, "About this answer")));
}

function card(product) {
  const isReduced = product.sale_price < product.price;
  return el("li", { class: "card" }, picture(product), el("h3", {}, here(el("a", {}, product.title), { product: product.id })),
    el("p", { class: "price" }, money(product.sale_price, product.currency), isReduced && [" ", el("s", { "aria-label": `before ${money(product.price, product.currency)}` }, money(product.price, product.currency))]),
    el("p", { class: "small dim" }, [product.brand, product.size, product.material, product.firmness && `firmness ${product.firmness}/10`].filter(Boolean).join(" · ")),
    product.availability !== "in stock" && el("p", { class: "small" }, el("span", { class: "badge" }, product.availability)));
}

/** Only pictures of this server are shown: a retailer's would tell the retailer who is looking. */
export function picture(product, kind = "") {
  const url = new URL(product.image_url || "about:blank", location.href);
  if (!url.pathname.includes("/images/") || !url.pathname.endsWith(`${product.id}.svg`)) return null;
  return el("img", { src: url.pathname, alt: "", class: kind, loading: "lazy", width: 320, height: 200 });
}

function showPages(page) {
  const to = (offset, text) => here(el("a", { class: "button quiet" }, text), { offset: offset > 0 ? String(offset) : "" });
  const from = page.offset + 1;
  fill(byId("pages"), page.offset > 0 && to(page.offset - PER_PAGE, "← Earlier"),
    page.total > 0 && el("span", { class: "dim" }, `${number(from)} to ${number(page.offset + page.count)} of ${number(page.total)}`),
    page.offset + page.count < page.total && to(page.offset + PER_PAGE, "More →"));
}

async function openProduct(id) {
  const place = el("div", {}, el("p", {}, "Loading…"));
  const dialog = showDialog("Product", place, () => go({ product: "" }));
  try {
    const { title, children } = await productInside(id, picture);
    dialog.querySelector("h2").textContent = title;
    fill(place, children);
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, error.status === 402 ? allowanceUsed(error) : refusal(error));
  }
}
