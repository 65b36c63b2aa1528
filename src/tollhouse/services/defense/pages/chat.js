// The chat: streamed answers, each claim with a link to its source.
import { byId, el, fill, announce } from "../dom.js";
import { keyLine, requireKey } from "../key_gate.js";
import { facts, key } from "../server.js";
import { streamEvents } from "../stream.js";
import { cited, sources } from "./chat_citations.js";
import { forgetConversation, storeConversation, storedConversation } from "./chat_history.js";
import { number, errorNotice } from "../format.js";

const EXAMPLES = ["Which countries had the most battles?", "What are the deadliest events?", "Compare battles and protests", "Who is mentioned most often?",
  "What are the most significant stories?", "How fresh is the data?"];
const box = byId("question");
const log = byId("conversation");
const turns = [];
let owner = "";
let isAnswering = false;

const wallet = el("span", {}, "Or sign the call with a ", el("a", { href: "/wallet" }, "wallet"), `: ${facts.agent_usd} USD a question, no key.`);
requireKey(byId("key-gate"), { tiers: facts.plans.map((plan) => plan.tier), what: "The chat", otherwise: wallet }, enter);

function enter(status) {
  owner = status.key_id;
  byId("talk").hidden = false;
  fill(byId("examples"), EXAMPLES.map((text) => el("li", {}, el("button", { type: "button", class: "text", onclick: () => ask(text) }, text))));
  fill(byId("cost"), pair("Model", facts.models.length ? facts.models.join(", ") : el("span", {}, el("code", {}, "extractive"), ": rules over the feeds, no language model")),
    pair("With a key", "one request of its plan"), ...facts.plans.map((plan) => pair(`Plan ${plan.tier}`, plan.chat_per_day === null ? "unlimited questions" : `${number(plan.chat_per_day)} questions a day`)), pair("From a wallet", `${facts.agent_usd} USD`));
  fill(byId("key-line"), keyLine(status));
  turns.push(...storedConversation(owner));
  for (const turn of turns) log.append(finished(turn));
  if (!turns.length) fill(log, empty());
  byId("anew").hidden = !turns.length;
  box.focus({ preventScroll: true });
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask(box.value.trim());
});
box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});

async function ask(prompt) {
  if (!prompt || isAnswering) return;
  busy(true);
  if (!turns.length) fill(log);
  const answer = el("p", { class: "said waiting" }, "Searching the feeds…");
  const shown = article(prompt, answer);
  log.append(shown);
  box.value = "";
  shown.scrollIntoView({ block: "nearest" });
  try {
    const reply = await answered(prompt, answer);
    turns.push({ prompt, reply });
    storeConversation(owner, turns);
    byId("anew").hidden = false;
    shown.replaceWith(finished({ prompt, reply }));
    announce(reply.response);
  } catch (error) {
    if (!error.problem) throw error;
    shown.lastChild.replaceChildren(errorNotice(error, error.status === 403 ? null : () => { shown.remove(); ask(prompt); }));
  } finally {
    busy(false);
    log.lastElementChild.scrollIntoView({ block: "nearest" });
  }
}

/** The complete answer; its text is shown as it arrives. Throws ApiError, also for an interrupted answer. */
async function answered(prompt, place) {
  const last = turns.at(-1);
  const body = { prompt, stream: true };
  if (last) body.conversation_id = last.reply.conversation_id;
  let text = "";
  for await (const part of streamEvents("defense", "/chat", { bearer: key.get(), body })) {
    if (part.type === "done") return part;
    if (part.type === "error") throw Object.assign(new Error(part.detail), { status: part.status, problem: part });
    text = part.type === "retract" ? [...text].slice(0, part.length).join("") : text + part.text;
    place.classList.remove("waiting");
    place.textContent = text;
  }
  throw Object.assign(new Error("The answer was interrupted."), { status: 0, problem: {} });
}

function busy(now) {
  isAnswering = now;
  byId("ask").querySelector("button").disabled = now;
  log.setAttribute("aria-busy", String(now));
}

function article(prompt, answer) {
  return el("article", { class: "turn" }, el("h3", { class: "asked" }, prompt), el("div", { class: "answer" }, answer));
}

function finished({ prompt, reply }) {
  const tokens = reply.usage.total_tokens ? `${number(reply.usage.total_tokens)} tokens` : "no tokens";
  return article(prompt, [el("p", { class: "said" }, cited(reply.response, reply.citations)), sources(reply.citations),
    el("p", { class: "small dim by" }, "Model ", el("code", {}, reply.model), ` · ${tokens}`)]);
}

function empty() {
  return el("div", { class: "empty" }, el("p", {}, "Ask what happened, where, how often, and to whom."), el("p", { class: "dim small" }, "Follow up with “and in Eritrea?” or “how many died there?”. If the feeds have no data, the answer says so."));
}

function pair(name, value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}

byId("anew").addEventListener("click", () => {
  turns.length = 0;
  forgetConversation();
  fill(log, empty());
  byId("anew").hidden = true;
  box.focus({ preventScroll: true });
});
