// Mattress search: matching products as cards, and a dialog with one product.
import { pageLink, state, values } from "../address.js";
import { byId, el } from "../dom.js";
import { listRequest, showListPage } from "../list_page.js";
import { showChips } from "./chips.js";
import { LISTS, NUMBERS, OTHERS, showFacets } from "./filters.js";
import { DEMO, isMadeUp, productDetails } from "./product.js";
import { query } from "../server.js";
import { money } from "../format.js";

const COUNTED = "size,material,sleep_position,brand,retailer,price";

showListPage({
  service: "mattress", noun: "mattress", nouns: "mattresses", name: "product", listPath,
  list: (members) => {
    showFacets(byId("facets"), members.facets || {});
    showChips(byId("chips"), byId("read"), members.applied_filters);
    byId("made-up").hidden = !members.products.some(isMadeUp);
    return members.products.map(card);
  },
  details: (id) => productDetails(id, picture),
});

function listPath() {
  const given = state();
  const lists = Object.fromEntries([...LISTS, ...OTHERS].map((name) => [name, values(name)]));
  const numbers = Object.fromEntries(NUMBERS.map((name) => [name, given[name]]));
  const { path, page } = listRequest("/api/products");
  return path + query({ ...lists, ...numbers, ...page, q: given.q, facets: COUNTED });
}

function card(product) {
  const isReduced = product.sale_price < product.price;
  return el("li", { class: "card" }, picture(product), el("h3", {}, pageLink(el("a", {}, product.title), { product: product.id })),
    el("p", { class: "price" }, money(product.sale_price, product.currency), isReduced && [" ", el("s", { "aria-label": `before ${money(product.price, product.currency)}` }, money(product.price, product.currency))]),
    el("p", { class: "small dim" }, [product.brand, product.size, product.material, product.firmness && `firmness ${product.firmness}/10`].filter(Boolean).join(" · ")),
    el("p", { class: "small" }, marks(product).flatMap((mark) => [el("span", { class: "badge" }, mark), " "])));
}

function marks(product) {
  return [product.availability !== "in stock" && product.availability, isMadeUp(product) && DEMO].filter(Boolean);
}

/** Only images of this server are shown: a retailer's image would reveal the visitor to the retailer. */
function picture(product, kind = "") {
  const url = new URL(product.image_url || "about:blank", location.href);
  if (!url.pathname.includes("/images/") || !url.pathname.endsWith(`${product.id}.svg`)) return null;
  return el("img", { src: url.pathname, alt: "", class: kind, loading: "lazy", width: 320, height: 200 });
}
