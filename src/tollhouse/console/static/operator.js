// The operator's page. The session is a cookie that no script can read; the token is not kept.
import { bars, byId, el, facts, fill, announce } from "./dom.js";
import { call, query } from "./server.js";
import { counted, day, lasted, moment, number, errorNotice } from "./format.js";

const fetchPart = async (path, options = {}) => (await call("", `/operator/api/${path}`, options)).members;

byId("open").addEventListener("submit", async (event) => {
  event.preventDefault();
  const bearer = byId("token").value.trim();
  byId("token").value = "";
  try {
    await fetchPart("session", { method: "POST", bearer });
  } catch (error) {
    return fill(byId("trouble"), errorNotice(error));
  }
  open();
});
byId("leave").addEventListener("click", async () => {
  await fetchPart("session", { method: "DELETE" });
  location.reload();
});
open();

async function open() {
  const isOpen = Boolean((await fetchPart("session")).expires_at);
  byId("open").hidden = isOpen;
  byId("figures").hidden = !isOpen;
  fill(byId("trouble"));
  if (isOpen) await Promise.all([part("revenue", async () => showRevenue(await fetchPart("revenue"))), part("sources", showSources), part("deliveries", () => showDeliveries("")), part("ledger", () => showLedger(""))]);
}

async function part(id, show) {
  try {
    await show();
  } catch (error) {
    fill(byId(id), errorNotice(error, () => part(id, show)));
  }
}

function table(label, heads, rows) {
  if (!rows.length) return el("p", { class: "dim" }, "Nothing yet.");
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, el("table", {},
    el("thead", {}, el("tr", {}, heads.map(([text, kind]) => el("th", { scope: "col", class: kind || null }, text)))),
    el("tbody", {}, rows.map((cells) => el("tr", {}, cells.map((cell, at) => el("td", { class: heads[at][1] || null }, cell ?? "–")))))));
}

function showRevenue(revenue) {
  fill(byId("revenue"),
    facts([["Revenue", `${revenue.revenue_usd} USD`], ["From wallets", `${revenue.by_agents_usd} USD`], ["Per request", `${revenue.per_request_usd} USD`]]),
    revenue.days.length > 0 && el("h3", {}, revenue.days_are_whole ? "By day" : "By day, of the newest 1,000 payments"),
    revenue.days.length > 0 && bars(revenue.days.slice(-14).map((one) => ({ name: day(one.day), value: Number(one.revenue_usd), shown: one.revenue_usd })), { wide: true, label: "Revenue by day in USD" }),
    table("Accounts", [["Account"], ["Meaning"], ["Balance USD", "number"], ["In", "number"], ["Out", "number"], ["Payments", "number"]],
      revenue.accounts.map((one) => [one.name, one.meaning, one.balance_usd, one.in_usd, one.out_usd, number(one.calls)])));
}

async function showSources() {
  const { services } = await fetchPart("sources");
  fill(byId("sources"), el("div", { class: "cards" }, Object.entries(services).map(([name, health]) =>
    el("article", { class: "panel" }, el("h3", {}, `${name} `, el("span", { class: `badge ${health.status === "ok" ? "good" : "high"}` }, health.status)),
      el("p", { class: "small dim" }, `Version ${health.version}, up for ${lasted(health.uptime_seconds)}`),
      (health.sources || []).length > 0 && el("ul", { class: "small" }, health.sources.map((one) => el("li", {},
        `${one.name}: ${one.status}`, one.age_seconds !== null && ` (${lasted(one.age_seconds)} ago)`, one.last_error && el("div", { class: "dim" }, one.last_error)))),
      el("details", {}, el("summary", {}, "Health response"), el("pre", { tabindex: "0", "aria-label": `Health of ${name}` }, JSON.stringify(health, null, 1)))))));
}

async function showDeliveries(state) {
  const { endpoints, deliveries } = await fetchPart(`deliveries${query({ state })}`);
  const choice = el("select", { id: "state", onchange: (event) => part("deliveries", () => showDeliveries(event.target.value)) },
    ["", "pending", "delivered", "parked", "cancelled"].map((value) => el("option", { value, selected: value === state }, value || "all")));
  fill(byId("deliveries"),
    el("h3", {}, "Endpoints"),
    table("Endpoints", [["Service"], ["Address"], ["Email"], ["Status"], ["Failures", "number"], ["Last error"]], endpoints.map((one) => [one.service, one.url, one.email, one.status, number(one.consecutive_failures), one.last_error])),
    el("h3", {}, "Deliveries"),
    el("div", { class: "row" }, el("div", { class: "field" }, el("label", { for: "state" }, "State"), choice)),
    table("Deliveries", [["Created"], ["Type"], ["Subject"], ["State"], ["Attempts", "number"], ["Last response"], [""]],
      deliveries.map((one) => [moment(one.created_at), one.type, one.subject_id, one.state, number(one.attempt_count), one.last_error || one.last_status, again(one, state)])));
}

function again(delivery, state) {
  if (delivery.state === "pending" || delivery.state === "cancelled") return "";
  return el("button", { type: "button", class: "quiet small", "aria-label": `Send again: ${delivery.id}`, onclick: () => part("deliveries", async () => {
    await fetchPart(`deliveries/${encodeURIComponent(delivery.id)}/replay`, { method: "POST" });
    announce("Queued for another attempt");
    await showDeliveries(state);
  }) }, "Send again");
}

async function showLedger(account) {
  const { transfers } = await fetchPart(`transfers${query({ account })}`);
  const box = el("input", { id: "account", value: account, placeholder: "revenue, agent:…" });
  const result = el("div");
  fill(byId("ledger"),
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); part("ledger", () => showLedger(box.value.trim())); } },
      el("div", { class: "field grow" }, el("label", { for: "account" }, "Account"), box), el("button", { class: "quiet" }, "Show"),
      el("button", { type: "button", onclick: () => audit(result) }, "Verify the ledger")),
    result,
    table("Newest transfers", [["When"], ["Kind"], ["From"], ["To"], ["USD", "number"], ["State"], ["Id"]],
      transfers.map((one) => [moment(one.at), one.kind, one.debit, one.credit, one.amount_usd, one.state, one.id])));
}

async function audit(place) {
  try {
    const report = await fetchPart("audit");
    fill(place, el("div", { class: report.balanced ? "notice good" : "notice", role: "status" }, el("p", {}, report.balanced
      ? `The ledger balances: ${counted(report.accounts, "account")}, ${counted(report.transfers, "transfer")}, ${number(report.pending)} pending.`
      : `The ledger does not balance: ${counted(report.differences.length, "difference")}.`), report.differences.length > 0 && el("ul", {}, report.differences.map((text) => el("li", {}, text)))));
  } catch (error) {
    fill(place, errorNotice(error));
  }
}
