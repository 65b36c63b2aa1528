// The question box: what was understood, the answer, and what can be asked next.
import { announce, byId, el, fill } from "../dom.js";
import { errorNotice } from "../format.js";
import { call } from "../server.js";
import { companyLink, worded } from "./catalogue.js";

const EXAMPLES = ["Who supplies HBM to NVIDIA?", "Which suppliers of the suppliers of TSMC are in Japan?", "What fails without ASML?", "How many companies are in Taiwan?"];
const NAMES_SHOWN = 20;

/** Answer questions below the form, newest first; `highlight(ids, edges)` marks them in the graph. */
export function connectAssistant(highlight) {
  const [form, box, place] = [byId("ask"), byId("question"), byId("answers")];
  let conversation;
  fill(byId("examples"), EXAMPLES.map(chip));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(box.value.trim());
  });

  function chip(text) {
    return el("button", { type: "button", onclick: () => ask(text) }, text);
  }

  async function ask(message) {
    if (!message) return;
    const waiting = el("article", { class: "panel", "aria-busy": "true" }, el("h3", {}, message), el("p", { class: "dim" }, "Reading the graph…"));
    place.prepend(waiting);
    try {
      const body = conversation ? { message, conversation_id: conversation } : { message };
      const { members } = await call("infra", "/api/infra/chat", { method: "POST", body });
      conversation = members.conversation_id;
      box.value = "";
      waiting.replaceWith(answered(message, members));
      announce(members.reply);
    } catch (error) {
      waiting.replaceWith(errorNotice(error, () => ask(message)));
    }
  }

  function answered(message, members) {
    const { query, companies, edges, suggestions } = members;
    return el("article", { class: "panel" }, el("h3", {}, message), el("p", { class: "said" }, members.reply),
      companies.length > 0 && el("div", { class: "chips" }, companies.slice(0, NAMES_SHOWN).map(companyLink),
        companies.length > 1 && el("button", { type: "button", onclick: () => highlight(companies, edges) }, "Show in the graph")),
      query ? el("details", {}, el("summary", { class: "small" }, "What was understood"), understood(query))
        : el("p", { class: "small dim" }, "The question was not understood as one about these data, so nothing was looked up."),
      suggestions.length > 0 && [el("p", { class: "small dim" }, "Ask next"), el("div", { class: "chips", role: "group", "aria-label": "Suggestions" }, suggestions.map(chip))]);
  }
}

/** The query that was read, part by part; what is empty was not asked for. */
function understood(query) {
  const isGiven = (value) => value !== null && value !== false && value !== "" && !(Array.isArray(value) && !value.length);
  const given = (name, value) => (value === false || isGiven(value) ? value : undefined);
  const pairs = Object.entries(query).filter(([, value]) => isGiven(value));
  return el("dl", { class: "pairs small" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, worded(name)), el("dd", {}, typeof value === "object" ? el("code", {}, JSON.stringify(value, given)) : worded(String(value))))));
}
