// The summary: sentences with numbers of citations that open beneath them, and how old and how complete the data is.
import { pageLink } from "../address.js";
import { el, externalLink, fill } from "../dom.js";
import { moment, share } from "../format.js";

export function summaryLines(page) {
  const note = el("p", { class: "board-note", id: "board-note", role: "status" });
  let count = 0;
  let opened = null;
  const cite = (citation) => {
    count += 1;
    const button = el("button", { type: "button", class: "cite", "aria-expanded": "false", "aria-controls": "board-note", "aria-label": `Citation ${count}: ${citation.title}`, onclick: () => toggle(button, citation) }, `[${count}]`);
    return button;
  };
  return [
    el("p", { class: "board-sentences" }, page.sentences.map(({ text, citations }) => [`${text}`, citations.map(cite), " "]).flat(2),
      !page.sentences.length && "Nothing was reported in the past 24 hours."),
    note, asOf(page),
  ];

  function toggle(button, citation) {
    opened?.setAttribute("aria-expanded", "false");
    if (opened === button) {
      opened = null;
      return fill(note);
    }
    opened = button;
    button.setAttribute("aria-expanded", "true");
    return fill(note, `${button.textContent} `, target(citation));
  }
}

function target({ kind, title, path, id, url }) {
  if (kind === "source") return externalLink(url, title);
  if (kind === "story") return pageLink(el("a", {}, title), { story: id });
  const filters = Object.fromEntries(new URLSearchParams(path.split("?")[1] || ""));
  return pageLink(el("a", {}, `${title} on the map`), { category: "", country: "", ...filters });
}

function asOf(page) {
  const parts = [`As of ${moment(page.as_of)}`, page.source === "recorded" ? "recording" : page.stale ? "live, stale: nothing new for an hour" : "live",
    page.coverage < 1 && `${share(page.coverage)} of the updates read`];
  return el("p", { class: "board-as-of" }, parts.filter(Boolean).join(" · "));
}
