// A wallet's page: what it has, how it registers and deposits, and a program that signs a call.
import { following, go, state } from "./address.js";
import { byId, copyButton, el, facts as factsOf, fill, say, snippet } from "./dom.js";
import { ACCOUNTS, addressOf, call, facts, query } from "./server.js";
import { dollars, moment, number, refusal, whole } from "./format.js";

byId("look").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ address: byId("address").value.trim() });
});
showChain();
showSamples();
following(show);

async function show() {
  const { address = "" } = state();
  byId("address").value = address;
  showDeposit(address);
  if (!address) return fill(byId("balance"));
  try {
    const { members } = await call(ACCOUNTS, `/api/agent/balance${query({ wallet_address: address })}`);
    fill(byId("balance"), balance(members));
    say(`The balance is ${members.balance_usd} USD`);
  } catch (error) {
    fill(byId("balance"), error.status === 404 ? unknown(address) : refusal(error, error.status ? null : show));
  }
}

function balance(agent) {
  const left = Math.floor(Number(agent.balance_usd) / Number(facts.call_usd) + 1e-9);
  return el("section", { class: "panel balance", "aria-label": "Balance" },
    el("p", { class: "big" }, agent.balance_usd, el("span", { class: "unit" }, " USD"), el("span", { class: "dim small" }, left > 0 ? `enough for ${number(left)} more calls` : "not enough for a call: deposit first")),
    factsOf([["Deposited", dollars(agent.deposited_usd)], ["Spent", dollars(agent.spent_usd)], ["Held for calls under way", dollars(agent.reserved_usd)], ["Calls paid", number(agent.calls)],
      ["Last call", agent.last_call_at ? moment(agent.last_call_at) : "none yet", "plain"]]),
    el("p", { class: "small dim" }, "Agent ", el("code", {}, agent.agent_id), ", wallet ", el("code", { class: "long" }, agent.wallet_address)),
    el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: show }, "Refresh")));
}

function unknown(address) {
  const failed = el("div");
  const register = async () => {
    try {
      await call(ACCOUNTS, "/api/agent/register", { method: "POST", body: { wallet_address: address } });
      say("The wallet is registered");
      await show();
    } catch (error) {
      fill(failed, refusal(error));
    }
  };
  return el("div", { class: "notice" }, el("p", {}, "This wallet is not registered here yet. It takes one call, costs nothing, and needs no account."),
    el("p", { class: "actions" }, el("button", { type: "button", onclick: register }, "Register this wallet")), failed);
}

function showDeposit(address) {
  if (!facts.treasury_address) return fill(byId("deposit"), el("p", {}, "This server takes no deposits: its operator has set no chain and no treasury."));
  const hash = el("input", { id: "tx-hash", required: true, maxlength: "100", autocomplete: "off", spellcheck: "false", placeholder: "0x…" });
  const told = el("div", { "aria-live": "polite" });
  fill(byId("deposit"),
    el("ol", {}, el("li", {}, "Send at least ", el("strong", {}, `${whole(facts.minimum_usd)} USDC`), " from your wallet to the treasury."),
      el("li", {}, "Paste the transaction's hash here. It is credited once it has ", el("strong", {}, number(facts.confirmations)), facts.confirmations === 1 ? " confirmation." : " confirmations.")),
    el("form", { onsubmit: report }, el("div", { class: "row" }, el("div", { class: "field grow" }, el("label", { for: "tx-hash" }, "Transaction hash"), hash), el("button", { disabled: !address }, "Credit it")),
      !address && el("p", { class: "small dim" }, "Give the wallet's address above first.")), told);

  async function report(event) {
    event.preventDefault();
    fill(told, el("p", { class: "dim" }, "Reading the chain…"));
    try {
      const { members } = await call(ACCOUNTS, "/api/agent/deposit", { method: "POST", body: { wallet_address: address, tx_hash: hash.value.trim() } });
      fill(told, el("p", { class: "notice good", role: "status" }, `${members.credited_usd} USD ${members.already_credited ? "were credited before" : "credited"}, from block ${number(members.block_number)}.`));
      const { members: agent } = await call(ACCOUNTS, `/api/agent/balance${query({ wallet_address: address })}`);
      fill(byId("balance"), balance(agent));
    } catch (error) {
      fill(told, refusal(error));
    }
  }
}

function showChain() {
  const line = (name, value, isCopied = true) => el("div", {}, el("dt", {}, name), el("dd", {}, isCopied ? el("span", { class: "copied" }, el("code", { class: "long" }, value), copyButton(() => value)) : value));
  fill(byId("chain"), el("dl", { class: "pairs" },
    line("Treasury", facts.treasury_address || "none is set", Boolean(facts.treasury_address)), line("Chain", facts.chain, false), line("USDC contract", facts.usdc_address), line("A call", `${facts.call_usd} USD`, false)),
    el("p", { class: "small dim" }, "Only transfers of this token, on this chain, from the registered wallet itself are credited. Only an answer 200 costs money."));
}

function showSamples() {
  const chosen = el("div", { id: "sample" });
  const buttons = facts.samples.map((sample) => el("button", { type: "button", class: "quiet", onclick: () => choose(sample) }, sample.title));
  fill(byId("samples"), el("p", {}, "Each program makes one call and prints the answer. The private key stays on your machine: this page never asks for it."),
    el("div", { class: "chips picks", role: "group", "aria-label": "Language" }, buttons), chosen);
  choose(facts.samples[0]);

  function choose(sample) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(facts.samples[at] === sample)));
    fill(chosen, el("h3", {}, "Once, to begin with"), snippet(`${sample.install}\nexport TOLLHOUSE_URL=${addressOf(ACCOUNTS)}\nexport AGENT_PRIVATE_KEY=0x…`, "Preparation"),
      el("h3", {}, "The program"), snippet(sample.code.trim(), sample.title));
  }
}
