// Suggestions while typing: a text field with a list box, by the combobox pattern of the ARIA Authoring Practices.
import { announce, el, fill } from "./dom.js";
import { counted } from "./format.js";

const PAUSE_MS = 120;
let count = 0;

/**
 * Offer suggestions in a text field. `suggest(text)` returns a promise of `[{text, note}]`, `note` being shown beside it.
 * `choose(suggestion)` runs when one is chosen by a click or Enter; without a chosen one, Enter submits the field's form.
 * Errors of `suggest` show no suggestions. `label` names the list.
 */
export function combobox(input, { suggest, choose, label = "Suggestions" }) {
  count += 1;
  const list = el("ul", { class: "suggestions", id: `suggestions-${count}`, role: "listbox", "aria-label": label, hidden: true });
  const place = el("div", { class: "combobox" });
  input.before(place);
  place.append(input, list);
  for (const [name, value] of Object.entries({ role: "combobox", autocomplete: "off", autocapitalize: "none", spellcheck: "false", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id })) input.setAttribute(name, value);
  let [offered, at, waiting, latest] = [[], -1, 0, 0];

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(load, PAUSE_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) load();
      else move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      take(offered[at]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  });
  input.addEventListener("blur", close);
  input.form?.addEventListener("submit", close);

  async function load() {
    const text = input.value.trim();
    latest += 1;
    const own = latest;
    if (!text) return close();
    const found = await suggest(text).catch(() => []);
    // A later text, or a closed list, is not overwritten by a late response.
    if (own !== latest || document.activeElement !== input) return;
    [offered, at] = [found, -1];
    fill(list, found.map((one, place) => el("li", { role: "option", id: `${list.id}-${place}`, "aria-selected": "false",
      onpointerdown: (event) => event.preventDefault(), onclick: () => take(one) }, el("span", {}, marked(one.text, text)), one.note && el("span", { class: "note" }, one.note))));
    show(found.length > 0);
    if (found.length) announce(counted(found.length, "suggestion"));
  }

  function move(by) {
    at = at + by < -1 ? offered.length - 1 : at + by >= offered.length ? -1 : at + by;
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === at)));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", list.children[at].id);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function take(one) {
    close();
    choose(one);
  }

  function show(isOpen) {
    list.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
    input.removeAttribute("aria-activedescendant");
  }

  function close() {
    clearTimeout(waiting);
    latest += 1;
    at = -1;
    show(false);
  }
}

/** The text with the typed words emphasised where a word of it begins with them. */
function marked(text, typed) {
  const words = typed.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return text.split(new RegExp(`((?<![\\p{L}\\p{N}])(?:${words.join("|")}))`, "giu")).map((part, place) => (place % 2 ? el("b", {}, part) : part));
}
