// One answer: its text with sources that open in place, its figures, how it was understood, and what to ask next.
import { apiButton } from "../api_call.js";
import { pageLink } from "../address.js";
import { bars, el, externalLink } from "../dom.js";
import { chart } from "../chart.js";
import { counted, number } from "../format.js";

const MARKER = /\[(\d+)(?:-(\d+))?\]/g;
const OPEN_UP_TO = 6;
const KINDS = { story: "story", entity: "entity", conflict: "event" };
const NONE = { story: "", event: "", entity: "" };
/** The end of a refusal's text, which the buttons say. */
const OFFER = / You can ask: (?:“[^”]*” ?)+/;

/** The elements of an answer. `ask(question)` asks another. */
export function shownAnswer(prompt, reply, ask) {
  const { response, citations, figures, understood, refusal, suggestions = [] } = reply;
  return [
    el("p", { class: refusal ? "said refused" : "said" }, cited(suggestions.length ? response.replace(OFFER, " ") : response, citations)),
    figures && drawn(figures),
    sources(citations),
    understood && reading(understood),
    suggestions.length > 0 && el("div", { class: "chips next", role: "group", "aria-label": refusal ? "Questions near this one that have answers" : "What to ask next" }, suggestions.map((text) => el("button", { type: "button", onclick: () => ask(text) }, text))),
    el("p", { class: "small dim by" }, "Model ", el("code", {}, reply.model), ` · ${reply.usage.total_tokens ? `${number(reply.usage.total_tokens)} tokens` : "no tokens"}`, refusal && " · free", " ",
      apiButton(() => ({ service: "defense", method: "POST", path: "/chat", body: { prompt } }), { kind: "text" })),
  ].filter(Boolean);
}

/** The figures of the result itself: days as bars over time, other groups as bars with their names. */
function drawn({ title, measure, is_time, total, rows }) {
  const label = `${measure === "count" ? "Number of" : measure} ${title}`;
  const left = total - rows.length;
  return el("figure", { class: "figures-of-answer" }, el("figcaption", { class: "small dim" }, label[0].toUpperCase() + label.slice(1)),
    is_time ? chart({ label, height: 130, series: [{ name: measure, kind: "bar", points: rows.map((row) => ({ x: row.name, y: row.value })) }] })
      : bars(rows.map((row) => ({ name: row.name, value: row.value || 0, shown: row.value === null ? "–" : number(row.value) })), { wide: true, label }),
    left > 0 && el("p", { class: "small dim" }, `${number(left)} more.`));
}

/** How the question was read, word by word, and what was not used. */
function reading({ about, parts, ignored, corrected }) {
  if (!about && !ignored.length) return null;
  return el("details", { class: "understood", open: ignored.length > 0 || corrected.length > 0 || null }, el("summary", { class: "small" }, "Understood as ", el("strong", {}, about || "a question about the feeds")),
    el("ul", { class: "small" }, parts.map(({ part, words }) => el("li", {}, `“${words}”`, el("span", { class: "dim" }, ` → ${part}`))),
      corrected.map(({ typed, read }) => el("li", {}, `“${typed}”`, el("span", { class: "dim" }, " was read as "), `“${read}”`)),
      ignored.length > 0 && el("li", {}, el("span", { class: "dim" }, "Not used: "), ignored.map((word) => `“${word}”`).join(", "))));
}

/** The text with each `[1]` or `[2-5]` as a link to its source. */
function cited(text, citations) {
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
function sources(citations) {
  if (!citations.length) return null;
  return el("details", { class: "sources", open: citations.length <= OPEN_UP_TO }, el("summary", {}, counted(citations.length, "source")),
    el("ol", {}, citations.map((one) => el("li", {}, linked(one, one.title), el("span", { class: "dim small" }, ` ${kindOf(one) || "brief"}`)))));
}

/** A story, event or entity opens in a drawer here; a figure of the brief links to its publisher. */
function linked(citation, text, attributes = {}) {
  const kind = kindOf(citation);
  if (kind) return pageLink(el("a", attributes, text), { ...NONE, [kind]: citation.id });
  return citation.url ? externalLink(citation.url, text) : el("a", { ...attributes, href: "/board?view=brief" }, text);
}

const kindOf = ({ id }) => KINDS[id.slice(0, id.indexOf("_"))];
