// The mattress search: filters and order in the address, products as cards, one in a drawer, several side by side.
import { apiButton } from "../api_call.js";
import { go, onAddress, pageLink, state } from "../address.js";
import { combobox } from "../combobox.js";
import { announce, byId, el, fill } from "../dom.js";
import { closeDrawer } from "../drawer.js";
import { counted, errorNotice, number } from "../format.js";
import { callOnce, query } from "../server.js";
import { isMadeUp, productCard } from "./card.js";
import { showChips } from "./chips.js";
import { chosenIds, showComparison, showTray, toggle } from "./compare.js";
import { COUNTED, showFacets } from "./filters.js";
import { asked, FILTERS } from "./parameters.js";
import { openProduct } from "./product.js";
import { loadShops } from "./shops.js";
import { parameterOf, suggestions } from "./suggestions.js";

const PER_PAGE = 24;
const LAST_OFFSET = 10_000;
const EXAMPLES = ["firm queen for side sleepers, no latex, under 1500", "cool king, not too soft", "cheapest latex double in stock"];

const shops = loadShops();
let shown = null;
let isComparing = Boolean(state().compare);

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ q: byId("q").value.trim(), compare: "", offset: "" });
});
byId("sort").addEventListener("change", () => go({ sort: byId("sort").value, offset: "" }));
byId("filters").open = matchMedia("(min-width: 60rem)").matches;
byId("api").append(apiButton(() => listCall()));
combobox(byId("q"), { label: "Brands, attributes and products", suggest: suggestions, choose });
// A description of many words is read as more filters than fit in a line: keep room for two, so that the list stays.
byId("chips").classList.toggle("two-lines", (asked().q || "").split(/\s+/).length + 2 * Object.values(asked()).flat().length > 10);
fill(byId("goods"), Array.from({ length: 9 }, () => el("li", { class: "product-card skeleton", "aria-hidden": "true" })));
document.querySelector(".views").dataset.ready = "yes";
onAddress(show);

/** Chosen from the suggestions: a product opens, a value becomes a filter in place of the words. */
function choose({ id, field, value }) {
  if (id) return go({ product: id, compare: "" });
  const name = parameterOf(field);
  go({ q: "", compare: "", offset: "", [name]: [...new Set([...(asked()[name] || []), value])] });
}

async function show() {
  const given = state();
  byId("q").value = given.q || "";
  byId("sort").value = given.sort || "";
  byId("list-view").hidden = Boolean(given.compare);
  byId("comparison").hidden = !given.compare;
  if (given.product) openProduct(given.product);
  else closeDrawer();
  if (given.compare) await showComparison(byId("comparison"), shops);
  else if (JSON.stringify(asked()) !== shown) await showList();
  showTray(byId("tray"));
  // The link that led to the other view is gone: the focus goes to the heading of this one.
  if (isComparing !== Boolean(given.compare)) byId(given.compare ? "comparison-heading" : "found")?.focus();
  isComparing = Boolean(given.compare);
  for (const box of document.querySelectorAll("#goods [data-compare]")) box.checked = chosenIds().includes(box.dataset.compare);
}

/** The call of the API for the address, without the parameters that the API refused before. */
function listCall(refused = {}) {
  const parameters = Object.fromEntries(Object.entries(asked()).filter(([name]) => !(name in refused)));
  return { service: "mattress", path: parameters.q ? "/api/search" : "/api/products", query: { ...parameters, limit: PER_PAGE, facets: COUNTED, include: "price_history" } };
}

async function showList() {
  const now = JSON.stringify(asked());
  shown = now;
  byId("goods").setAttribute("aria-busy", "true");
  try {
    const [{ members, refused }] = await Promise.all([load(), shops]);
    if (shown !== now) return;
    fill(byId("trouble"));
    showFacets(byId("facets"), members);
    showChips(byId("chips"), members, refused);
    const isMixed = new Set(members.products.map(isMadeUp)).size > 1;
    byId("made-up").hidden = !members.products.some(isMadeUp);
    byId("made-up").textContent = `Demonstration data: ${isMixed ? "products marked “demo data” are" : "these products, brands and shops are"} fictional. `;
    nameOrder(members);
    if (refused.sort) byId("sort").value = "";
    byId("found").textContent = counted(members.total, "mattress", "mattresses");
    announce(counted(members.total, "mattress", "mattresses"));
    fill(byId("goods"), members.products.length ? members.products.map((product) => card(product, isMixed)) : nothing());
    showPages(members);
    if (!Object.keys(asked()).length) fill(byId("chips"), el("span", { class: "small dim" }, "Try: "), EXAMPLES.map((text) => pageLink(el("a", { class: "small" }, text), { q: text })));
  } catch (error) {
    if (!error.problem) throw error;
    if (shown !== now) return;
    shown = null;
    byId("found").textContent = "The list could not be loaded";
    fill(byId("goods"));
    fill(byId("pages"));
    fill(byId("trouble"), errorNotice(error, show));
  } finally {
    byId("goods").removeAttribute("aria-busy");
  }
}

/** The list without the parameters that the API refuses: a mistyped filter stays in the address, with its message. */
async function load(refused = {}) {
  const { path, query: parameters } = listCall(refused);
  try {
    return { refused, members: (await callOnce("mattress", path + query(parameters))).members };
  } catch (error) {
    const name = error.problem?.parameter;
    if (error.status !== 400 || !(name in asked()) || name in refused) throw error;
    return load({ ...refused, [name]: error.message });
  }
}

function card(product, isMixed) {
  const box = el("input", { type: "checkbox", "data-compare": product.id, "aria-label": `Compare ${product.title}`, checked: chosenIds().includes(product.id),
    onchange: (event) => { event.target.checked = toggle(product.id, event.target.checked); } });
  return productCard(product, { title: pageLink(el("a", {}, product.title), { product: product.id }), isMixed, more: el("label", { class: "choice compare-choice" }, box, "Compare") });
}

/** What the order is where none was chosen: a described product is listed by price, unless the words name an order. */
function nameOrder({ query: words, applied_filters: { understood = {} } }) {
  const [none, ...orders] = byId("sort").options;
  const read = understood.words || understood.conditions || understood.sort;
  const label = orders.find((one) => one.value === (understood.sort || "price")).text;
  none.text = read ? label : words ? "Relevance" : "Catalogue order";
}

function nothing() {
  const clear = Object.fromEntries([...FILTERS, "q", "offset"].map((name) => [name, ""]));
  return el("li", { class: "empty" }, el("p", {}, "No mattress matches."), el("p", {}, "Remove a filter above, or ", pageLink(el("a", {}, "start again"), clear), "."));
}

function showPages({ offset, count, total }) {
  const last = Math.min(Math.ceil(total / PER_PAGE), Math.floor(LAST_OFFSET / PER_PAGE) + 1);
  const current = Math.floor(offset / PER_PAGE) + 1;
  const link = (page, text, label) => pageLink(el("a", { class: "button quiet", "aria-label": label, "aria-current": page === current ? "page" : null, onclick: () => byId("find").scrollIntoView() }, text), { offset: page > 1 ? String((page - 1) * PER_PAGE) : "" });
  const numbers = [...new Set([1, current - 1, current, current + 1, last])].filter((page) => page >= 1 && page <= last);
  const numbered = numbers.flatMap((page, at) => [at && page - numbers[at - 1] > 1 ? el("span", { class: "dim", "aria-hidden": "true" }, "…") : null, link(page, number(page), `Page ${page}`)]);
  fill(byId("pages"), last > 1 && [current > 1 && link(current - 1, "←", "Previous page"), numbered, current < last && link(current + 1, "→", "Next page")].flat(),
    count > 0 && el("span", { class: "small dim" }, `${number(offset + 1)}–${number(offset + count)} of ${number(total)}`));
}
