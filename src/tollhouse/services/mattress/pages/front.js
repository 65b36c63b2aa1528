// The mattress search on the front page: a search in words, what was understood of it, and four products.
import { apiButton } from "../api_call.js";
import { changed } from "../address.js";
import { combobox } from "../combobox.js";
import { announce, byId, el, fill, rooted } from "../dom.js";
import { counted, errorNotice } from "../format.js";
import { callOnce, query } from "../server.js";
import { isMadeUp, productCard } from "./card.js";
import { showChips } from "./chips.js";
import { loadShops } from "./shops.js";
import { parameterOf, suggestions } from "./suggestions.js";

const PAGE = "/mattresses";
const SHOWN = 4;
const START = { sort: "discount", in_stock: "true" };
const [field, goods] = [byId("mattress-q"), byId("mattress-goods")];
let latest = 0;
let shown = {};

const set = (parameters) => Object.fromEntries(Object.entries(parameters).filter(([, value]) => value?.length || value === true || typeof value === "number"));
const listCall = (given) => ({ service: "mattress", path: given.q ? "/api/search" : "/api/products", query: { ...(Object.keys(given).length ? given : START), limit: SHOWN, include: "price_history" } });
const pageOf = (parameters) => rooted(PAGE) + query(parameters);

fill(goods, Array.from({ length: SHOWN }, () => el("li", { class: "product-card skeleton", "aria-hidden": "true" })));
byId("mattress-api").append(apiButton(() => listCall(set(shown))));
combobox(field, { label: "Brands, attributes and products", suggest: suggestions, choose: ({ id, field: name, value }) => {
  if (id) location.assign(pageOf({ product: id }));
  else move({ q: "", [parameterOf(name)]: value });
} });
byId("mattress-search").addEventListener("submit", (event) => {
  event.preventDefault();
  move({ q: field.value.trim() });
});
field.value = new URLSearchParams(location.search).get("mattress") || "";
show(field.value ? { q: field.value } : {});

/** Another search in place; the words, but no other filter, stay in the address. */
function move(parameters) {
  field.value = parameters.q || "";
  history.replaceState(null, "", changed({ mattress: field.value }));
  show(parameters);
}

async function show(parameters) {
  latest += 1;
  const own = latest;
  shown = parameters;
  const given = set(parameters);
  const isStart = !Object.keys(given).length;
  try {
    const { path, query: asked } = listCall(given);
    const [{ members }] = await Promise.all([callOnce("mattress", path + query(asked)), loadShops()]);
    if (own !== latest) return;
    if (isStart) fill(byId("mattress-chips"), el("span", { class: "small dim" }, "Largest reductions in stock"));
    else showChips(byId("mattress-chips"), members, {}, move);
    fill(goods, members.products.length ? members.products.map((one) => productCard(one, { title: el("a", { href: pageOf({ ...given, product: one.id }) }, one.title) }))
      : el("li", { class: "empty" }, "No mattress matches. Remove a filter or change the words."));
    byId("mattress-all").href = pageOf(given);
    byId("mattress-all").textContent = isStart ? "All mattresses" : `All ${counted(members.total, "mattress", "mattresses")}`;
    byId("mattress-made-up").hidden = !members.products.some(isMadeUp);
    if (!isStart) announce(counted(members.total, "mattress", "mattresses"));
  } catch (error) {
    if (!error.problem) throw error;
    if (own === latest) fill(goods, el("li", { class: "empty" }, errorNotice(error, () => show(parameters))));
  }
}
