// A page that searches many things: words and order in the address, the list that they leave, one thing over it.
import { following, go, here, state } from "./address.js";
import { byId, closeDialog, el, fill, say, showDialog } from "./dom.js";
import { callOnce } from "./server.js";
import { counted, number, refusal } from "./format.js";

const PER_PAGE = 24;
const LAST_OFFSET = 10_000;

/** Which operation lists what the address asks for: the search where words are given, `all` otherwise. */
export const asking = (all) => ({ path: state().q ? "/api/search" : all, page: { sort: state().sort, offset: state().offset, limit: PER_PAGE } });

/**
 * Show what the address asks for, now and whenever it changes. `noun` is what there are many of (`nouns`), `name` the
 * parameter that opens one of them; `asked()` is the path of the list, `list(members)` shows the filters and gives the
 * cards, `inside(id)` gives the title and the parts of one thing.
 */
export function showListPage({ service, noun, nouns = `${noun}s`, name, asked, list, inside }) {
  let shown = "";
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    go({ q: byId("q").value.trim(), sort: byId("sort").value, offset: "" });
  });
  byId("sort").addEventListener("change", () => go({ sort: byId("sort").value, offset: "" }));
  byId("filters").open = matchMedia("(min-width: 60rem)").matches;
  following(show);

  async function show() {
    const given = state();
    byId("q").value = given.q || "";
    byId("sort").value = given.sort || "";
    if (asked() !== shown) await showList(asked());
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
      say(counted(members.total, noun, nouns));
      const cards = list(members);
      fill(byId("goods"), cards.length ? cards : el("li", { class: "empty" }, `No ${noun} fits. Take a filter away, or use other words.`));
      showPages(members);
    } catch (error) {
      if (!error.problem) throw error;
      shown = "";
      fill(byId("goods"));
      fill(byId("pages"));
      fill(byId("trouble"), told(error, show));
    }
  }

  async function open(id) {
    const place = el("div");
    const dialog = showDialog("Loading…", place, () => go({ [name]: "" }));
    try {
      const { title, children } = await inside(id);
      dialog.querySelector("h2").textContent = title;
      fill(place, children);
    } catch (error) {
      if (!error.problem) throw error;
      fill(place, told(error));
    }
  }
}

function summary(page, headers, noun, nouns) {
  const left = headers.get("x-ratelimit-remaining");
  const corrected = Object.keys(page.applied_filters.understood?.corrected || {});
  return [counted(page.total, noun, nouns), corrected.length > 0 && "spelling corrected", left !== null && `${number(Number(left))} free requests left today`].filter(Boolean).join(" · ");
}

function showPages(page) {
  const to = (offset, text) => here(el("a", { class: "button quiet" }, text), { offset: offset > 0 ? String(offset) : "" });
  fill(byId("pages"), page.offset > 0 && to(page.offset - PER_PAGE, "← Earlier"),
    page.count > 0 && el("span", { class: "dim" }, `${number(page.offset + 1)} to ${number(page.offset + page.count)} of ${number(page.total)}`),
    page.offset + page.count < page.total && page.offset + PER_PAGE <= LAST_OFFSET && to(page.offset + PER_PAGE, "More →"));
}

function told(error, again) {
  if (error.status !== 402) return refusal(error, again);
  const isSold = (error.problem.accepts || []).length > 0;
  return el("div", { class: "notice", role: "alert" }, el("p", {}, error.message),
    isSold && el("p", {}, "A program can go on by paying for each request (x402): the answer 402 says how much, to whom and on which chain."),
    el("p", {}, "In these pages it goes on at midnight UTC."),
    el("p", { class: "small" }, el("a", { href: "/problems/payment-required" }, "About this answer")));
}
