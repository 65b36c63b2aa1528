// The chat: questions in plain words, answers as they come, each claim with a way to what it rests on.
import { byId, el, fill, say } from "../dom.js";
import { door, keyLine } from "../key_gate.js";
import { facts, key } from "../server.js";
import { told } from "../stream.js";
import { cited, sources } from "./chat_citations.js";
import { forgetTalk, keepTalk, keptTalk } from "./chat_history.js";
import { number, refusal } from "../format.js";

const EXAMPLES = ["Which countries had the most battles?", "What are the deadliest events?", "Compare battles and protests", "Who is mentioned most often?",
  "What are the most significant stories?", "How fresh is the data?"];
const box = byId("question");
const log = byId("conversation");
const turns = [];
let owner = "";
let isAnswering = false;

const wallet = el("span", {}, "Or sign the call with a ", el("a", { href: "/wallet" }, "wallet"), `: ${facts.agent_usd} USD a question, no key.`);
door(byId("door"), { tiers: facts.plans.map((plan) => plan.tier), what: "Asking", otherwise: wallet }, enter);

function enter(status) {
  owner = status.key_id;
  byId("talk").hidden = false;
  fill(byId("examples"), EXAMPLES.map((text) => el("li", {}, el("button", { type: "button", class: "text", onclick: () => ask(text) }, text))));
  fill(byId("cost"), pair("Model", facts.models.length ? facts.models.join(", ") : el("span", {}, el("code", {}, "extractive"), ": no language model, rules over the feeds")),
    pair("With a key", "one request of its plan"), ...facts.plans.map((plan) => pair(`Plan ${plan.tier}`, plan.chat_per_day === null ? "unlimited questions" : `${number(plan.chat_per_day)} questions a day`)), pair("From a wallet", `${facts.agent_usd} USD`));
  fill(byId("key-line"), keyLine(status));
  turns.push(...keptTalk(owner));
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
  const answer = el("p", { class: "said waiting" }, "Looking through the feeds…");
  const shown = article(prompt, answer);
  log.append(shown);
  box.value = "";
  shown.scrollIntoView({ block: "nearest" });
  try {
    const reply = await answered(prompt, answer);
    turns.push({ prompt, reply });
    keepTalk(owner, turns);
    byId("anew").hidden = false;
    shown.replaceWith(finished({ prompt, reply }));
    say(reply.response);
  } catch (error) {
    if (!error.problem) throw error;
    shown.lastChild.replaceChildren(refusal(error, error.status === 403 ? null : () => { shown.remove(); ask(prompt); }));
  } finally {
    busy(false);
    log.lastElementChild.scrollIntoView({ block: "nearest" });
  }
}

/** The whole answer; its words are shown while they come. Raises Refused, also for one that broke off. */
async function answered(prompt, place) {
  const last = turns.at(-1);
  const body = { prompt, stream: true };
  if (last) body.conversation_id = last.reply.conversation_id;
  let text = "";
  for await (const part of told("defense", "/chat", { bearer: key.get(), body })) {
    if (part.type === "done") return part;
    if (part.type === "error") throw Object.assign(new Error(part.detail), { status: part.status, problem: part });
    text = part.type === "retract" ? [...text].slice(0, part.length).join("") : text + part.text;
    place.classList.remove("waiting");
    place.textContent = text;
  }
  throw Object.assign(new Error("The answer broke off."), { status: 0, problem: {} });
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
  return el("div", { class: "empty" }, el("p", {}, "Ask what happened, where, how often, to whom."), el("p", { class: "dim small" }, "Go on from an answer with “and in Eritrea?” or “how many died there?”. What the feeds do not hold is said to be so, never made up."));
}

function pair(name, value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}

byId("anew").addEventListener("click", () => {
  turns.length = 0;
  forgetTalk();
  fill(log, empty());
  byId("anew").hidden = true;
  box.focus({ preventScroll: true });
});
