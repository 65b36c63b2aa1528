// The wallet page: balance, registration, deposits, and sample programs that sign a call.
import { onAddress, go, state } from "./address.js";
import { byId, copyButton, el, facts as factsOf, fill, announce, snippet } from "./dom.js";
import { addressOf, call, facts, query } from "./server.js";
import { chart } from "./chart.js";
import { dayAfter, dollars, moment, number, errorNotice, whole } from "./format.js";

const MOST_SERIES = 5;

byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ address: byId("address").value.trim() });
});
onAddress(show);
showChain();
showSamples();

async function show() {
  const { address = "" } = state();
  byId("address").value = address;
  showDeposit(address);
  if (!address) return fill(byId("balance"));
  if (!byId("balance").firstChild) fill(byId("balance"), el("p", { class: "dim loading" }, "Reading the balance…"));
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
    el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: show }, "Refresh")), spending(agent.wallet_address));
}

/** What the balance was spent on: only the wallet sees it, and signs for it in the browser's own wallet. */
function spending(address) {
  const place = el("div", { "aria-live": "polite" });
  const section = (...children) => el("section", { class: "usage-history", "aria-label": "Spending" }, el("h3", {}, "Spending by day and operation"), children);
  const guide = el("a", { href: "/guide/agents" }, "With a program");
  if (!window.ethereum) return section(el("p", { class: "small dim" }, "Only the wallet itself sees this: it signs the request. This browser has no wallet. ", guide, "."));
  const ask = async () => {
    fill(place, el("p", { class: "dim" }, "Confirm the signature in your wallet. It costs nothing and sends no transaction."));
    try {
      fill(place, spent(await signedUsage(address)));
    } catch (error) {
      fill(place, error.problem ? errorNotice(error) : el("p", { class: "notice", role: "alert" }, error.message || "The wallet did not sign."));
    }
  };
  return section(el("p", { class: "small dim" }, "Only the wallet itself sees this. Your wallet signs a message, and no transaction is sent. ", guide, "."),
    el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: ask }, "Sign and show")), place);
}

async function signedUsage(address) {
  const accounts = await window.ethereum.request({ method: "eth_requestAccounts" });
  const account = accounts.find((one) => one.toLowerCase() === address.toLowerCase());
  if (!account) throw new Error("The wallet of this browser has other accounts than this one. Choose it there and try again.");
  const path = `/api/agent/usage${query({ signed_at: Math.floor(Date.now() / 1000) })}`;
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
  const message = hex(new TextEncoder().encode(`${facts.prefix}:${path}:${nonce}`));
  const signature = await window.ethereum.request({ method: "personal_sign", params: [`0x${message}`, account] });
  return (await call("", path, { headers: { "X-Agent-Address": account, "X-Agent-Nonce": nonce, "X-Agent-Signature": signature } })).members.days;
}

const hex = (bytes) => [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");

function spent(days) {
  const nameOf = (one) => (one.operation ? `${one.service} ${one.operation}` : "before operations were recorded");
  const totals = new Map();
  for (const one of days.flatMap((day) => day.operations)) {
    const total = totals.get(nameOf(one)) || { calls: 0, spent: 0 };
    totals.set(nameOf(one), { calls: total.calls + one.calls, spent: total.spent + Number(one.spent_usd) });
  }
  if (!totals.size) return el("p", { class: "empty" }, "No paid calls in the last 30 days.");
  const names = [...totals.keys()].sort((one, other) => totals.get(other).spent - totals.get(one).spent);
  const shown = names.slice(0, MOST_SERIES);
  const onDay = (day, isWanted) => day.operations.filter((one) => isWanted(nameOf(one))).reduce((sum, one) => sum + Number(one.spent_usd), 0);
  const bars = (name, isWanted) => ({ name, kind: "bar", points: days.map((day) => ({ x: day.day, y: onDay(day, isWanted), until: dayAfter(day.day) })) });
  const format = (amount) => `${amount.toFixed(3).replace(/0$/, "")} USD`;
  return [chart({ label: "Spending a day of the last 30 days, by operation", y: { title: "USD", format }, table: false,
    series: [...shown.map((name) => bars(name, (one) => one === name)), ...(names.length > MOST_SERIES ? [bars("others", (one) => !shown.includes(one))] : [])] }),
  el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Spending by operation" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, "Operation"), el("th", { class: "number" }, "Calls"), el("th", { class: "number" }, "Spent"))),
    el("tbody", {}, names.map((name) => el("tr", {}, el("td", {}, name), el("td", { class: "number" }, number(totals.get(name).calls)), el("td", { class: "number" }, format(totals.get(name).spent)))))))];
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
