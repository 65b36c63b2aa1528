// The guide: samples with this server's address and the reader's key, copy buttons, the search, and the section in view.
import { combobox } from "./combobox.js";
import { byId, copyButton, el, rooted } from "./dom.js";
import { key, query } from "./server.js";

const kept = key.get();
for (const place of document.querySelectorAll('[data-fill="address"]')) place.textContent = location.origin + rooted("/").slice(0, -1);
if (kept) {
  for (const place of document.querySelectorAll('pre [data-fill="key"]')) {
    place.textContent = kept;
    place.closest(".snippet").after(el("p", { class: "small dim filled-key" }, "With the key that this browser keeps. Only you see it here."));
  }
}
for (const box of document.querySelectorAll(".snippet")) box.append(copyButton(() => box.querySelector("code").textContent));

const words = byId("words");
if (words) {
  const suggest = async (text) => {
    const response = await fetch(`${rooted("/guide/search")}${query({ q: text.slice(0, 200) })}`, { headers: { Accept: "application/json" } });
    return (await response.json()).results.map(({ heading, page, address }) => ({ text: heading, note: heading === page ? "" : page, address }));
  };
  // The server indexes the guide on its first search: ask before the first word is typed.
  words.addEventListener("focus", () => suggest("").catch(() => {}), { once: true });
  combobox(words, { label: "Sections of the guide", suggest, choose: ({ address }) => location.assign(rooted(address)) });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input, textarea, select, dialog")) return;
    event.preventDefault();
    words.focus();
  });
}

const entries = new Map([...document.querySelectorAll(".guide-here a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
const headings = [...entries.keys()].map(byId).filter(Boolean);
if (headings.length) {
  const mark = () => {
    const current = headings.findLast((heading) => heading.getBoundingClientRect().top < innerHeight / 4) || headings[0];
    for (const [id, link] of entries) link.toggleAttribute("data-current", id === current.id);
  };
  new IntersectionObserver(mark, { rootMargin: "0px 0px -75%", threshold: [0, 1] }).observe(headings[0]);
  addEventListener("scroll", mark, { passive: true });
}
