// A search page: filters and order in the address, the matching items, and a dialog with one of them.
import { onAddress, go, pageLink, state } from "./address.js";
import { byId, closeDialog, el, fill, announce, showDialog } from "./dom.js";
import { callOnce } from "./server.js";
import { counted, number, errorNotice } from "./format.js";

const PER_PAGE = 24;
const LAST_OFFSET = 10_000;

/** The path and paging for the address: the search where there are words, `all` otherwise. */
export const listRequest = (all) => ({ path: state().q ? "/api/search" : all, page: { sort: state().sort, offset: state().offset, limit: PER_PAGE } });

/**
 * Show the items that match the address, now and whenever it changes. `noun` and `nouns` name them, and the parameter
 * `name` opens one. `listPath()` is the path of the list, `list(members)` shows the filters and returns the cards, and
 * `details(id)` returns the title and content of one item.
 */
export function showListPage({ service, noun, nouns = `${noun}s`, name, listPath, list, details }) {
  let shown = "";
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    go({ q: byId("q").value.trim(), sort: byId("sort").value, offset: "" });
  });
  byId("sort").addEventListener("change", () => go({ sort: byId("sort").value, offset: "" }));
  byId("filters").open = matchMedia("(min-width: 60rem)").matches;
  onAddress(show);

  async function show() {
    const given = state();
    byId("q").value = given.q || "";
    byId("sort").value = given.sort || "";
    if (listPath() !== shown) await showList(listPath());
    if (given[name]) open(given[name]);
    else closeDialog();
  }

  async function showList(path) {
    shown = path;
    try {
      const { members, headers } = await callOnce(service, path);
      if (shown !== path) return;
      fill(byId("trouble"));
      byId("found").textContent = summary(members, headers, noun, nouns);
      announce(counted(members.total, noun, nouns));
      const cards = list(members);
      fill(byId("goods"), cards.length ? cards : el("li", { class: "empty" }, `No ${noun} matches. Remove a filter or change the search.`));
      showPages(members);
    } catch (error) {
      if (!error.problem) throw error;
      shown = "";
      fill(byId("goods"));
      fill(byId("pages"));
      fill(byId("trouble"), listError(error, show));
    }
  }

  async function open(id) {
    const place = el("div");
    const dialog = showDialog("Loading…", place, () => go({ [name]: "" }));
    try {
      const { title, children } = await details(id);
      dialog.querySelector("h2").textContent = title;
      fill(place, children);
    } catch (error) {
      if (!error.problem) throw error;
      fill(place, listError(error));
    }
  }
}

function summary(page, headers, noun, nouns) {
  const remaining = headers.get("x-ratelimit-remaining");
  const corrected = Object.keys(page.applied_filters.understood?.corrected || {});
  return [counted(page.total, noun, nouns), corrected.length > 0 && "spelling corrected", remaining !== null && `${number(Number(remaining))} free requests remaining today`].filter(Boolean).join(" · ");
}

function showPages(page) {
  const to = (offset, text) => pageLink(el("a", { class: "button quiet" }, text), { offset: offset > 0 ? String(offset) : "" });
  fill(byId("pages"), page.offset > 0 && to(page.offset - PER_PAGE, "← Previous"),
    page.count > 0 && el("span", { class: "dim" }, `${number(page.offset + 1)} to ${number(page.offset + page.count)} of ${number(page.total)}`),
    page.offset + page.count < page.total && page.offset + PER_PAGE <= LAST_OFFSET && to(page.offset + PER_PAGE, "Next →"));
}

function listError(error, again) {
  if (error.status !== 402) return errorNotice(error, again);
  const isSold = (error.problem.accepts || []).length > 0;
  return el("div", { class: "notice", role: "alert" }, el("p", {}, error.message),
    isSold && el("p", {}, "Programs can pay for each further request (x402). The 402 response has the price, the recipient and the chain."),
    el("p", {}, "These pages work again at midnight UTC."),
    el("p", { class: "small" }, el("a", { href: "/problems/payment-required" }, "About this error")));
}
