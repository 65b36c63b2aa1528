// The chat: what is being done, the answer as it is written, its sources, figures, and what to ask next.
import { go, onAddress, state } from "../address.js";
import { byId, el, fill, announce } from "../dom.js";
import { keyLine, requireKey } from "../key_gate.js";
import { call, facts, key } from "../server.js";
import { streamEvents } from "../stream.js";
import { shownAnswer } from "./chat_answer.js";
import { forgetConversation, storeConversation, storedConversation } from "./chat_history.js";
import { number, errorNotice } from "../format.js";
import { showDetails } from "./open_details.js";

const STEPS = { read: "Reading", query: "Running a query:" };
const box = byId("question");
const log = byId("conversation");
const turns = [];
let owner = "";
let bearer = "";
let isAnswering = false;

open();

/** Without a key the page asks as a visitor, where no model answers; a key whose plan includes the chat is used. */
async function open() {
  const tiers = facts.plans.map((plan) => plan.tier);
  const status = key.get() && (await call("", "/api/keys/verify", { bearer: key.get() }).catch(() => null))?.members;
  if (status && tiers.includes(status.tier)) return enter(status);
  if (!facts.models.length) return enter(null);
  const wallet = el("span", {}, "Or sign the call with a ", el("a", { href: "/wallet" }, "wallet"), `: ${facts.agent_usd} USD a question, no key.`);
  requireKey(byId("key-gate"), { tiers, otherwise: wallet }, enter);
}

function enter(status) {
  owner = status ? status.key_id : "visitor";
  bearer = status ? key.get() : "";
  byId("talk").hidden = false;
  fill(byId("examples"), facts.examples.map((text) => el("li", {}, el("button", { type: "button", class: "text", onclick: () => ask(text) }, text))));
  fill(byId("cost"), pair("Model", facts.models.length ? facts.models.join(", ") : el("span", {}, el("code", {}, "extractive"), ": rules over the feeds, no language model")),
    !facts.models.length && pair("In this page", `${number(facts.visitor_questions)} questions a day, free`), ...facts.plans.map((plan) => pair(`Plan ${plan.tier}`, plan.chat_per_day === null ? "unlimited questions" : `${number(plan.chat_per_day)} questions a day`)), pair("From a wallet", `${facts.agent_usd} USD`),
    pair("Refusals", "free"));
  fill(byId("key-line"), status ? keyLine(status) : el("p", { class: "small dim" }, el("a", { href: "/keys" }, "Use a key"), " for more questions."));
  turns.push(...storedConversation(owner));
  for (const turn of turns) log.append(finished(turn));
  if (!turns.length) fill(log, empty());
  byId("anew").hidden = !turns.length;
  box.focus({ preventScroll: true });
  onAddress(showDetails);
  const { q } = state();
  if (!q) return;
  go({ q: "" }, { replace: true });
  if (turns.at(-1)?.prompt !== q) ask(q);
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
  for (const old of log.querySelectorAll(".next")) old.remove();
  const steps = el("ol", { class: "steps", "aria-label": "Progress" });
  const text = el("p", { class: "said" });
  const shown = article(prompt, [steps, text]);
  log.append(shown);
  box.value = "";
  shown.scrollIntoView({ block: "nearest" });
  try {
    const reply = await answered(prompt, steps, text);
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

/** The complete answer; its steps and its text are shown as they arrive. Throws ApiError, also for an interrupted answer. */
async function answered(prompt, steps, place) {
  const last = turns.at(-1);
  const body = { prompt, stream: true, steps: true };
  if (last) body.conversation_id = last.reply.conversation_id;
  let text = "";
  for await (const part of streamEvents("defense", "/chat", { bearer, body })) {
    if (part.type === "done") return part;
    if (part.type === "error") throw Object.assign(new Error(part.detail), { status: part.status, problem: part });
    if (part.type === "step") steps.append(el("li", {}, STEPS[part.name], " ", el("span", { class: "dim" }, part.detail)));
    else text = part.type === "retract" ? [...text].slice(0, part.length).join("") : text + part.text;
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
  return article(prompt, shownAnswer(prompt, reply, ask));
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
