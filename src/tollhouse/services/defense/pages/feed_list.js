// A list of a feed with its filters: they stay where the API refuses one, with the reason; the list grows page by page.
import { go } from "../address.js";
import { apiButton } from "../api_call.js";
import { announce, byId, el, fill } from "../dom.js";
import { errorNotice, number } from "../format.js";
import { skeleton } from "./details.js";
import { windowOf } from "./feeds.js";

/**
 * `controls` are the fields of the form; each has a name as its id. `load(cursor)` returns a page, `member` names its items,
 * `counted(total)` says how many there are, `draw(items)` makes the list, `request()` is the call for its first page.
 */
export async function showFeedList(place, { title, controls, given, load, member, counted, draw, request }) {
  const names = controls.map(({ id }) => id);
  const list = el("div", { class: "feed-list" }, skeleton(12));
  const count = el("p", { class: "dim", role: "status" }, "\u00a0");
  const more = el("p", { class: "actions" });
  const apply = () => go(Object.fromEntries(controls.map((control) => [control.id, control.value.trim()])));
  for (const control of controls) if (control.tagName === "SELECT") control.addEventListener("change", apply);
  fill(place, el("form", { class: "row feed-filters", role: "search", onsubmit: (event) => { event.preventDefault(); apply(); } },
    controls.map((control) => el("div", { class: control.tagName === "INPUT" ? "field grow" : "field" }, el("label", { for: control.id }, control.dataset.label), control)), el("button", {}, "Filter"),
    names.some((name) => given[name]) && el("button", { type: "button", class: "quiet", onclick: () => go(Object.fromEntries(names.map((name) => [name, ""]))) }, "Clear"), apiButton(request)),
    count, list, more);
  const items = [];
  await next();

  async function next(cursor) {
    try {
      const page = await load(cursor);
      items.push(...page[member]);
      count.textContent = counted(page.total) + (items.length < page.total ? `; the first ${number(items.length)} are shown` : "");
      byId("status").textContent = `${title} of ${windowOf(page)}.`;
      announce(count.textContent);
      fill(list, items.length ? draw(items) : el("p", { class: "empty" }, "Nothing in these 24 hours matches. Remove a filter, or change a word."));
      fill(more, page.next_cursor && el("button", { type: "button", class: "quiet", onclick: () => next(page.next_cursor) }, "Show more"));
    } catch (error) {
      if (!error.problem) throw error;
      const wrong = controls.find(({ id }) => id === error.problem.parameter);
      if (wrong) wrong.setAttribute("aria-invalid", "true");
      count.textContent = "\u00a0";
      fill(cursor ? more : list, errorNotice(error, error.status === 400 ? null : () => next(cursor)));
    }
  }
}

/** A choice among values; one that is not among them stays, so that its message can be read beside it. */
export function choiceOf(id, label, values, chosen) {
  const all = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  const select = el("select", { id }, el("option", { value: "" }, "All"), all.map((value) => el("option", { value, selected: value === chosen }, value)));
  select.dataset.label = label;
  return select;
}

export function textOf(id, label, value) {
  const input = el("input", { id, value: value || "", maxlength: "100" });
  input.dataset.label = label;
  return input;
}
