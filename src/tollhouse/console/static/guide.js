// The guide: copy buttons on every sample, and the search over headings.
import { byId, copyButton, el, fill } from "./dom.js";

const MOST = 20;
// Without a public address, samples show the address at which the reader found the server.
const defaultRoot = document.querySelector("[data-default-root]")?.dataset.defaultRoot;

for (const box of document.querySelectorAll(".snippet")) {
  const code = box.querySelector("code");
  if (defaultRoot) code.textContent = code.textContent.replaceAll(defaultRoot, location.origin);
  box.append(copyButton(() => code.textContent));
}

const words = byId("words");
if (words) {
  byId("search").hidden = false;
  let loading;
  const headings = () => (loading ??= fetch("/guide/headings.json").then((response) => response.json()));
  words.addEventListener("input", async () => {
    const terms = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = terms.length ? await headings() : [];
    const matches = all.filter((one) => terms.every((word) => `${one.page} ${one.heading}`.toLowerCase().includes(word)));
    const items = matches.slice(0, MOST).map((one) =>
      el("li", {}, el("a", { href: one.address }, one.heading), " ", el("span", { class: "dim small" }, one.page)),
    );
    fill(byId("found"), ...(terms.length && !matches.length ? [el("li", {}, "No heading contains these words.")] : items));
  });
}
