// The wallet page: balance, registration, deposits, and sample programs that sign a call.
import { onAddress, go, state } from "./address.js";
import { byId, copyButton, el, facts as factsOf, fill, announce, snippet } from "./dom.js";
import { addressOf, call, facts, query } from "./server.js";
import { dollars, moment, number, errorNotice, whole } from "./format.js";

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ address: byId("address").value.trim() });
});
showChain();
showSamples();
onAddress(show);

async function show() {
  const { address = "" } = state();
  byId("address").value = address;
  showDeposit(address);
  if (!address) return fill(byId("balance"));
  try {
    const { members } = await call("", `/api/agent/balance${query({ wallet_address: address })}`);
    fill(byId("balance"), balance(members));
    announce(`The balance is ${members.balance_usd} USD`);
  } catch (error) {
    fill(byId("balance"), error.status === 404 ? unknown(address) : errorNotice(error, error.status ? null : show));
  }
}

function balance(agent) {
  const callsRemaining = Math.floor(Number(agent.balance_usd) / Number(facts.call_usd) + 1e-9);
  return el("section", { class: "panel balance", "aria-label": "Balance" },
    el("p", { class: "big" }, agent.balance_usd, el("span", { class: "unit" }, " USD"), el("span", { class: "dim small" }, callsRemaining > 0 ? `enough for ${number(callsRemaining)} more calls` : "not enough for a call. Make a deposit.")),
    factsOf([["Deposited", dollars(agent.deposited_usd)], ["Spent", dollars(agent.spent_usd)], ["Reserved for calls in progress", dollars(agent.reserved_usd)], ["Paid calls", number(agent.calls)],
      ["Last call", agent.last_call_at ? moment(agent.last_call_at) : "none", "plain"]]),
    el("p", { class: "small dim" }, "Agent ", el("code", {}, agent.agent_id), ", wallet ", el("code", { class: "long" }, agent.wallet_address)),
    el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: show }, "Refresh")));
}

function unknown(address) {
  const failed = el("div");
  const register = async () => {
    try {
      await call("", "/api/agent/register", { method: "POST", body: { wallet_address: address } });
      announce("The wallet is registered");
      await show();
    } catch (error) {
      fill(failed, errorNotice(error));
    }
  };
  return el("div", { class: "notice" }, el("p", {}, "This wallet is not registered here. Registration is free and needs no account."),
    el("p", { class: "actions" }, el("button", { type: "button", onclick: register }, "Register this wallet")), failed);
}

function showDeposit(address) {
  if (!facts.treasury_address) return fill(byId("deposit"), el("p", {}, "This server accepts no deposits: its operator has configured no chain or no treasury."));
  const hash = el("input", { id: "tx-hash", required: true, maxlength: "100", autocomplete: "off", spellcheck: "false", placeholder: "0x…" });
  const result = el("div", { "aria-live": "polite" });
  fill(byId("deposit"),
    el("ol", {}, el("li", {}, "Send at least ", el("strong", {}, `${whole(facts.minimum_usd)} USDC`), " from your wallet to the treasury."),
      el("li", {}, "Enter the transaction's hash. The deposit is credited after ", el("strong", {}, number(facts.confirmations)), facts.confirmations === 1 ? " confirmation." : " confirmations.")),
    el("form", { onsubmit: report }, el("div", { class: "row" }, el("div", { class: "field grow" }, el("label", { for: "tx-hash" }, "Transaction hash"), hash), el("button", { disabled: !address }, "Credit deposit")),
      !address && el("p", { class: "small dim" }, "Enter the wallet's address above first.")), result);

  async function report(event) {
    event.preventDefault();
    fill(result, el("p", { class: "dim" }, "Reading the chain…"));
    try {
      const { members } = await call("", "/api/agent/deposit", { method: "POST", body: { wallet_address: address, tx_hash: hash.value.trim() } });
      fill(result, el("p", { class: "notice good", role: "status" }, `${members.credited_usd} USD ${members.already_credited ? "were already credited" : "credited"}, from block ${number(members.block_number)}.`));
      const { members: agent } = await call("", `/api/agent/balance${query({ wallet_address: address })}`);
      fill(byId("balance"), balance(agent));
    } catch (error) {
      fill(result, errorNotice(error));
    }
  }
}

function showChain() {
  const line = (name, value, isCopied = true) => el("div", {}, el("dt", {}, name), el("dd", {}, isCopied ? el("span", { class: "copied" }, el("code", { class: "long" }, value), copyButton(() => value)) : value));
  fill(byId("chain"), el("dl", { class: "pairs" },
    line("Treasury", facts.treasury_address || "not configured", Boolean(facts.treasury_address)), line("Chain", facts.chain, false), line("USDC contract", facts.usdc_address), line("Price per call", `${facts.call_usd} USD`, false)),
    el("p", { class: "small dim" }, "Only transfers of this token, on this chain, from the registered wallet are credited. Only responses with status 200 are charged."));
}

function showSamples() {
  const chosen = el("div", { id: "sample" });
  const buttons = facts.samples.map((sample) => el("button", { type: "button", class: "quiet", onclick: () => choose(sample) }, sample.title));
  fill(byId("samples"), el("p", {}, "Each program makes one call and prints the response. Your private key stays on your machine; this page never asks for it."),
    el("div", { class: "chips picks", role: "group", "aria-label": "Language" }, buttons), chosen);
  choose(facts.samples[0]);

  function choose(sample) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(facts.samples[at] === sample)));
    fill(chosen, el("h3", {}, "Setup"), snippet(`${sample.install}\nexport TOLLHOUSE_URL=${addressOf(facts.service)}\nexport AGENT_PRIVATE_KEY=0x…`, "Setup"),
      el("h3", {}, "Program"), snippet(sample.code.trim(), sample.title));
  }
}
