// The guide: every example is copied with one click, and the index finds headings by their words.
import { byId, copyButton, el, fill } from "./dom.js";

const MOST = 20;
// A server that was not told its public address is reached where the reader found it.
const usual = document.querySelector("[data-usual]")?.dataset.usual;

for (const box of document.querySelectorAll(".snippet")) {
  const code = box.querySelector("code");
  if (usual) code.textContent = code.textContent.replaceAll(usual, location.origin);
  box.append(copyButton(() => code.textContent));
}

const words = byId("words");
if (words) {
  byId("search").hidden = false;
  let asked;
  const headings = () => (asked ??= fetch("/guide/headings.json").then((answer) => answer.json()));
  words.addEventListener("input", async () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = wanted.length ? await headings() : [];
    const found = all.filter((one) => wanted.every((word) => `${one.page} ${one.heading}`.toLowerCase().includes(word)));
    const items = found.slice(0, MOST).map((one) =>
      el("li", {}, el("a", { href: one.address }, one.heading), " ", el("span", { class: "dim small" }, one.page)),
    );
    fill(byId("found"), ...(wanted.length && !found.length ? [el("li", {}, "No heading has these words.")] : items));
  });
}
