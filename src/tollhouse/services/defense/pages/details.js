// What the details of a story, an event and an entity share: their head, names, reasons and related items.
import { pageLink } from "../address.js";
import { copyButton, el, rooted } from "../dom.js";
import { apiButton } from "../api_call.js";

const KINDS = [["person", "People"], ["organization", "Organizations"], ["platform", "Platforms"], ["location", "Places"]];
// Opening one of them closes the others.
const NONE = { story: "", event: "", entity: "" };

/** A link that opens a story, an event or an entity on the page it stands on. */
export const opens = (kind, id, text, attributes = {}) => pageLink(el("a", attributes, text), { ...NONE, [kind]: id });

/** The line above the details: badges at the left, the permanent link and the API call at the right. */
export function head(kind, id, badges) {
  const address = `${location.origin}${rooted("/board")}?${kind}=${encodeURIComponent(id)}`;
  const path = `/feeds/${{ story: "stories", event: "events", entity: "entities" }[kind]}/${id}`;
  return el("div", { class: "detail-head" }, badges, el("span", { class: "push detail-actions" }, copyButton(() => address, "Copy link"),
    apiButton(() => ({ service: "defense", path, query: {} }))));
}

/** A notice that the requested id is now part of this one. */
export const merged = (succeeds, noun) => succeeds && el("p", { class: "notice", role: "status" }, `The ${noun} `, el("code", {}, succeeds), ` was merged into this one. Its address leads here.`);

export const part = (title, ...children) => el("section", { class: "detail-part" }, el("h3", {}, title), ...children);

/** Named entities by type; each opens. */
export function names(named) {
  const groups = KINDS.map(([type, text]) => [text, named.filter((one) => one.type === type)]).filter(([, ofType]) => ofType.length);
  return el("dl", { class: "names" }, groups.map(([text, ofType]) => el("div", {}, el("dt", {}, text), el("dd", { class: "chips" }, ofType.map((one) => opens("entity", one.id, one.name))))));
}

const LABELS = { severity_tier: "Severity", geo: "Place", event_date: "Date", title: "Headline", source_count: "Sources", fatalities: "Deaths", is_state_on_state: "Between states" };
const FORMULA = /([\d.]+) x ([\d.]+) \(([^()]+)\)/g;

/** The stored reasons, each beside the value it explains. `values` are by the reason's name; reasons are never composed here. */
export function reasonsList(reasons, values) {
  return el("dl", { class: "reasons" }, Object.entries(reasons).map(([name, reason]) => el("div", {},
    el("dt", {}, LABELS[name] || name[0].toUpperCase() + name.slice(1).replaceAll("_", " "), values[name] !== undefined && el("strong", {}, values[name])),
    el("dd", {}, name === "significance" && weights(reason), reason))));
}

/** The terms of the significance as parts of a bar, where the reason has them. */
function weights(reason) {
  const terms = [...reason.matchAll(FORMULA)].map(([, weight, value, text]) => ({ share: weight * value, text }));
  if (terms.length < 2) return null;
  return el("div", { class: "weights", "aria-hidden": "true" }, terms.map(({ share, text }) => {
    const bar = el("span", { title: `${text}: ${share.toFixed(2)}` }, share > 0.06 ? text.split(",")[0] : "");
    bar.style.width = `${100 * Math.max(0, share)}%`;
    return bar;
  }));
}

/** "Both name Ethiopia and Tigray". */
export const sharedNames = (shared) => shared.length > 0 && el("span", {}, `Both name ${new Intl.ListFormat("en").format(shared.slice(0, 4))}`);

/** Grey lines of about the final size, while something loads. */
export function skeleton(lines = 10) {
  return el("div", { class: "skeleton", role: "status", "aria-label": "Loading" }, Array.from({ length: lines }, (_, at) => {
    const line = el("span");
    line.style.width = `${[40, 92, 85, 30, 100, 96, 60, 95, 88, 70][at % 10]}%`;
    return line;
  }));
}
