// The citations of an answer: its markers as links, and the list of sources.
import { el, externalLink } from "../dom.js";
import { counted } from "../format.js";

const MARKER = /\[(\d+)(?:-(\d+))?\]/g;
const OPEN_UP_TO = 6;

/** The text with each `[1]` or `[2-5]` as a link to its source. */
export function cited(text, citations) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(MARKER)) {
    const first = citations[Number(match[1]) - 1];
    if (!first) continue;
    const title = match[2] ? `${first.title}, and ${counted(Number(match[2]) - Number(match[1]), "more", "more")}` : first.title;
    parts.push(text.slice(from, match.index), linked(first, match[0], { class: "cite", title }));
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)];
}

/** Every citation by its number; a long list is collapsed. */
export function sources(citations) {
  if (!citations.length) return null;
  return el("details", { class: "sources", open: citations.length <= OPEN_UP_TO }, el("summary", {}, counted(citations.length, "source")),
    el("ol", {}, citations.map((one) => el("li", {}, linked(one, one.title), el("span", { class: "dim small" }, ` ${kindOf(one.id)}`)))));
}

/** A story, event or entity opens on the dashboard; a figure of the brief links to its publisher. */
function linked(citation, text, attributes = {}) {
  const kind = kindOf(citation.id);
  if (kind === "story") return el("a", { ...attributes, href: `/board?view=stories&story=${encodeURIComponent(citation.id)}` }, text);
  if (kind === "entity") return el("a", { ...attributes, href: `/board?view=entities&entity=${encodeURIComponent(citation.id)}` }, text);
  if (kind === "event") return el("a", { ...attributes, href: `/board?event=${encodeURIComponent(citation.id)}` }, text);
  return citation.url ? externalLink(citation.url, text) : el("a", { ...attributes, href: "/board?view=brief" }, text);
}

function kindOf(id) {
  if (id.startsWith("story_")) return "story";
  if (id.startsWith("entity_")) return "entity";
  return id.startsWith("brief:") ? "brief" : "event";
}
