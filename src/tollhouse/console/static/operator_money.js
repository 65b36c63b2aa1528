// The money of the operator's page: revenue by day, the chain, the ledger and its statements.
import { go, state } from "./address.js";
import { chart } from "./chart.js";
import { byId, el, facts, fill } from "./dom.js";
import { counted, errorNotice, moment, number } from "./format.js";
import { fetchPart, part, seconds, table } from "./operator_parts.js";
import { query } from "./server.js";

/** Revenue of today, yesterday and the last weeks, and the subscriptions. */
export function showRevenue(revenue) {
  if (byId("revenue").contains(document.activeElement)) return;
  const day = (one, member) => ({ x: one.at, y: Number(one[member]), until: new Date(Date.parse(one.at) + 86_400_000).toISOString() });
  fill(byId("revenue"),
    facts([["Today", `${revenue.today.revenue_usd} USD`], ["Yesterday", `${revenue.yesterday.revenue_usd} USD`], ["Last 7 days", `${revenue.last_7_days_usd} USD`], ["All time", `${revenue.revenue_usd} USD`]]),
    chart({ label: "Revenue by day in USD", height: 150, y: { from: 0 }, series: [
      { name: "wallet credit", kind: "bar", tone: "1", points: revenue.days.map((one) => day(one, "credit_usd")) },
      { name: "per request (x402)", kind: "bar", tone: "3", points: revenue.days.map((one) => day(one, "per_request_usd")) }] }),
    revenue.subscriptions && (revenue.subscriptions.length ? table("Subscriptions", [["Plan"], ["Status"], ["Subscriptions", "number"], ["USD a month", "number"]],
      revenue.subscriptions.map((one) => [one.plan, one.status, number(one.subscriptions), one.month_usd])) : el("p", { class: "small dim" }, "No subscription.")),
    el("p", { class: "small dim" }, revenue.subscriptions ? "Subscriptions at list prices; their invoices are at Stripe and not in the figures above." : "Plans sold through Stripe would be listed here: stripe_secret_key is not set."));
}

/** What the chain's node and the account that pays for gas say. */
export function showChain(chain) {
  if (!chain.is_configured) return fill(byId("chain"), el("p", { class: "small dim" }, "No chain is configured: set ", el("code", {}, "evm_rpc_url"), " to take deposits and payments."));
  fill(byId("chain"), chain.error && el("p", { class: "notice" }, chain.error), facts([
    ["Head", chain.head === null ? "–" : number(chain.head)], ["Age of the head", chain.head_age_seconds === null ? "–" : seconds(chain.head_age_seconds)], ["Chain", String(chain.chain_id)],
    ["Pending settlements", chain.pending ? `${number(chain.pending)}, oldest ${seconds(chain.oldest_pending_seconds)}` : "0"],
    ...(chain.account ? [["Balance for gas", `${chain.balance_usd} USD`], ["Gas of a payment", `${chain.gas_per_payment_usd} USD`], ["Gas today", `${chain.gas_today_usd} USD`]] : [])]),
    chain.account && el("p", { class: "small dim" }, "Account that pays for gas ", el("code", { class: "long" }, chain.account)));
}

/** The last verification of the ledger, with a button for another, and the form for a statement. */
export function verified(check, onVerified) {
  // The form keeps the days that the operator chose.
  if (byId("verified")) return fill(byId("verified"), describeCheck(check));
  const result = el("p", { class: "op-verified", id: "verified", role: "status" }, describeCheck(check));
  const button = el("button", { type: "button", onclick: verify }, "Verify now");
  const today = new Date().toISOString().slice(0, 10);
  const day = (name, label, value) => el("div", { class: "field" }, el("label", { for: name }, label), el("input", { id: name, name, type: "date", value, required: true, max: today }));
  const form = el("form", { action: "/operator/api/statement", method: "get", "aria-label": "Statement" }, day("since", "Statement from", `${today.slice(0, 8)}01`), day("until", "to", today), el("button", { class: "quiet" }, "Download CSV"));
  fill(byId("audit"), el("div", { class: "op-ledger" }, result, button, form));

  async function verify() {
    button.disabled = true;
    fill(result, "Computing every balance again…");
    try {
      const report = await fetchPart("audit");
      fill(result, describeCheck({ at: Date.now() / 1000, result: report }));
    } catch (error) {
      fill(result, errorNotice(error));
    }
    button.disabled = false;
    onVerified();
  }
}

function describeCheck(check) {
  if (!check) return [el("span", { class: "badge" }, "not verified"), " The ledger has not been verified yet."];
  const { result } = check;
  const when = moment(new Date(check.at * 1000).toISOString());
  if (!result.balanced) return [el("span", { class: "badge critical" }, "not balanced"), ` ${when}: ${result.differences.join("; ")}`];
  return [el("span", { class: "badge good" }, "✓ balanced"), ` ${when}: ${counted(result.accounts, "account")}, ${counted(result.transfers, "transfer")}, ${number(result.pending)} pending`];
}

/** The newest transfers, of the account in the address or of all. */
export async function showLedger() {
  const account = state().account || "";
  const { transfers } = await fetchPart(`transfers${query({ account })}`);
  if (byId("ledger").contains(document.activeElement)) return;
  const box = el("input", { id: "account", value: account, placeholder: "revenue, treasury, agent:…" });
  const show = (name) => { document.activeElement.blur(); go({ account: name }); part("ledger", showLedger); };
  fill(byId("ledger"),
    el("form", { class: "op-ledger", onsubmit: (event) => { event.preventDefault(); show(box.value.trim()); } },
      el("div", { class: "field grow" }, el("label", { for: "account" }, "Transfers of account"), box), el("button", { class: "quiet" }, "Show"),
      el("button", { type: "button", class: "quiet", onclick: () => show("treasury") }, "Deposits"), account && el("button", { type: "button", class: "quiet", onclick: () => show("") }, "All")),
    table("Newest transfers", [["When"], ["Kind"], ["From"], ["To"], ["USD", "number"], ["State"], ["Id"]],
      transfers.slice(0, 20).map((one) => [moment(one.at), one.kind, one.debit, one.credit, one.amount_usd, one.state, el("span", { class: "long", title: one.id }, one.id.length > 28 ? `${one.id.slice(0, 26)}…` : one.id)]), "No transfer yet."));
}
