// The operator's page. The session is a cookie that no script can read; the token is not kept.
import { go, pageLink, state } from "./address.js";
import { chart } from "./chart.js";
import { announce, byId, el, fill } from "./dom.js";
import { clockTime, counted, errorNotice, moment, number } from "./format.js";
import { showCalls, startCalls } from "./operator_calls.js";
import { showChain, showLedger, showRevenue, verified } from "./operator_money.js";
import { callerName, fetchPart, part, seconds, table } from "./operator_parts.js";
import { query } from "./server.js";

const WINDOWS = { hour: "Last hour", day: "Day", week: "Week" };
const REFRESH = { traffic: 15_000, others: 30_000 };
const known = {};
let shownWindow = "";

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
  for (const id of ["windows", "leave", "waiting"]) byId(id).hidden = !isOpen;
  fill(byId("trouble"));
  if (!isOpen) return;
  startCalls();
  showWindows();
  // All at once, so that nothing moves; what needs attention is above the rest.
  await Promise.all([showTraffic(), showCalls(), ...showOthers()]);
  byId("waiting").hidden = true;
  byId("figures").hidden = false;
  if (location.hash) document.querySelector(location.hash)?.scrollIntoView();
  part("chain", async () => { known.chain = await fetchPart("chain"); showChain(known.chain); attention(); });
  onAddressChange(() => {
    showWindows();
    if (`${state().window}/${state().operation}` !== shownWindow) showTraffic();
    showCalls();
  });
  repeat(showTraffic, REFRESH.traffic);
  repeat(showOthers, REFRESH.others);
}

function onAddressChange(show) {
  addEventListener("addresschange", show);
  addEventListener("popstate", show);
}

function showWindows() {
  const chosen = state().window in WINDOWS ? state().window : "day";
  fill(byId("windows"), Object.entries(WINDOWS).map(([name, text]) =>
    pageLink(el("a", { "aria-current": name === chosen ? "true" : null }, text), { window: name === "day" ? "" : name })));
}

/** Run this again and again while the tab is visible. */
function repeat(show, milliseconds) {
  setInterval(() => { if (!document.hidden) show(); }, milliseconds);
}

function showOthers() {
  return [
    part("revenue", async () => { known.revenue = await fetchPart("revenue"); showRevenue(known.revenue); verified(known.revenue.verified, attention); }),
    part("sources", showSources),
    part("deliveries", showWebhooks),
    part("ledger", showLedger),
    ...(known.chain ? [part("chain", async () => { known.chain = await fetchPart("chain"); showChain(known.chain); })] : []),
  ];
}

async function showTraffic() {
  const given = state();
  shownWindow = `${given.window}/${given.operation}`;
  const chosen = given.window in WINDOWS ? given.window : "day";
  try {
    const traffic = await fetchPart(`traffic${query({ window: given.window, operation: given.operation })}`);
    fill(byId("trouble"));
    known.traffic = traffic;
    showTiles(traffic, WINDOWS[chosen].toLowerCase());
    showCharts(traffic, given.operation);
    showTops(traffic, given);
    byId("updated").textContent = `Updated ${clockTime(new Date().toISOString())}`;
  } catch (error) {
    if (!error.problem) throw error;
    fill(byId("trouble"), errorNotice(error, showTraffic));
  }
  attention();
}

function showTiles(traffic, name) {
  const { total, before } = traffic;
  const errors = total.requests ? (100 * total.failed) / total.requests : 0;
  const paid = traffic.revenue.payments;
  const yesterday = known.revenue?.yesterday;
  const tile = (title, value, unit, below, isBad = false) => el("div", { class: isBad ? "op-tile bad" : "op-tile" },
    el("h2", {}, title), el("strong", {}, value, unit && el("span", {}, ` ${unit}`)), el("p", {}, below));
  fill(byId("tiles"),
    tile("Requests", number(total.requests), "", change(total.requests, before.requests, name)),
    tile("Failed (5xx)", errors ? `${errors.toFixed(errors < 1 ? 2 : 1)}%` : "0%", "", `${number(total.failed)} failed, ${number(total.refused)} refused`, total.failed > 0),
    tile("Latency p95", total.p95_ms === null ? "–" : readMs(total.p95_ms), "", total.p50_ms === null ? "no calls" : `p50 ${readMs(total.p50_ms)}, p99 ${readMs(total.p99_ms)}`),
    tile("Paid calls", number(paid), "", `of ${counted(total.requests, "call")}`),
    tile("Revenue", traffic.revenue.total_usd, "USD", change(Number(traffic.revenue.total_usd), Number(traffic.revenue_before_usd), name)),
    tile("Yesterday", yesterday ? yesterday.revenue_usd : "–", yesterday ? "USD" : "", yesterday ? `${counted(yesterday.payments, "payment")}; today ${known.revenue.today.revenue_usd} USD` : " "));
}

const readMs = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

function change(now, before, name) {
  const percent = Math.round((100 * (now - before)) / before);
  if (!before || percent > 999) return `${before ? number(before) : "none"} in the ${name.replace("last ", "")} before`;
  return `${percent > 0 ? "+" : ""}${percent}% against the ${name.replace("last ", "")} before`;
}

function showCharts(traffic, operation) {
  if (byId("charts").contains(document.activeElement)) return;
  const ends = traffic.width_seconds * 1000;
  const point = (one, y) => ({ x: one.at, y, until: new Date(Date.parse(one.at) + ends).toISOString() });
  const line = (member) => traffic.points.map((one) => ({ x: one.at, y: one[member] }));
  const title = (text) => el("h2", {}, text, operation && el("span", { class: "small dim" }, ` ${operation}`));
  const x = { from: traffic.since, to: traffic.until };
  const refused = traffic.points.map((one) => point(one, one.refused));
  fill(byId("charts"),
    el("article", { class: "panel" }, title("Requests and errors"), chart({ label: "Requests over time", x, height: 170, y: { from: 0 }, series: [
      { name: "answered", kind: "bar", tone: "1", points: traffic.points.map((one) => point(one, one.requests - one.refused - one.failed)) },
      { name: "refused (4xx)", kind: "bar", tone: "2", points: refused },
      { name: "failed (5xx)", kind: "bar", tone: "critical", points: traffic.points.map((one) => point(one, one.failed)) }] })),
    el("article", { class: "panel" }, title("Latency"), chart({ label: "Latency over time", x, height: 170, y: { from: 0, format: readMs }, series: [
      { name: "p50", tone: "1", points: line("p50_ms") }, { name: "p95", tone: "3", points: line("p95_ms") }, { name: "p99", tone: "4", points: line("p99_ms") }] })),
    el("article", { class: "panel" }, el("h2", {}, "Revenue"), chart({ label: "Revenue over time", x, height: 170, y: { from: 0, format: readUsd }, series: [
      { name: "wallet credit", kind: "bar", tone: "1", points: traffic.revenue.points.map((one) => point(one, Number(one.credit_usd))) },
      { name: "per request (x402)", kind: "bar", tone: "3", points: traffic.revenue.points.map((one) => point(one, Number(one.per_request_usd))) }] })));
}

const readUsd = (value) => `${Number(value.toFixed(6))} USD`;

function showTops(traffic, given) {
  if (byId("tops").contains(document.activeElement)) return;
  const list = (title, rows, none) => el("article", { class: "panel" }, el("h2", {}, title), rows.length ? el("ol", {}, rows.map((row) => el("li", {}, row))) : el("p", { class: "dim small" }, none));
  const errors = (one) => [one.refused > 0 && `${number(one.refused)} refused`, one.failed > 0 && `${number(one.failed)} failed`].filter(Boolean).join(", ");
  fill(byId("tops"),
    list("Top operations", traffic.operations.slice(0, 8).map((one) => {
      const isChosen = given.operation === one.name;
      return pageLink(el("a", { "aria-current": isChosen ? "true" : null }, el("strong", { title: one.name }, one.name.trim()), el("span", { class: "amount" }, number(one.requests)),
        el("span", { class: "under" }, [one.p95_ms !== null && `p95 ${readMs(one.p95_ms)}`, errors(one), isChosen && "shown in the charts; press to show all"].filter(Boolean).join(" · "))), { operation: isChosen ? "" : one.name });
    }), "No call in this window."),
    list("Top callers", traffic.callers.slice(0, 8).map((one) => pageLink(el("a", {}, el("strong", { title: one.caller }, callerName(one)), el("span", { class: "amount" }, number(one.requests)),
      el("span", { class: "under" }, [`${one.kind}${one.plan && ` · ${one.plan}`}`, one.name && one.caller, Number(one.paid_usd) > 0 && `paid ${one.paid_usd} USD`, errors(one)].filter(Boolean).join(" · "))), { caller: one.caller })), "No caller in this window."),
    list("Refusals by reason", traffic.refusals.slice(0, 8).map((one) => pageLink(el("a", {}, el("strong", {}, one.code), el("span", { class: "amount" }, number(one.count)),
      el("span", { class: "under" }, one.operations.slice(0, 3).map(([name, count]) => `${name} ${number(count)}`).join(" · "))), { code: one.code })), "No call was refused in this window."));
}

async function showSources() {
  const { sources } = await fetchPart("sources");
  known.sources = sources;
  attention();
  fill(byId("sources"), el("ul", { class: "op-sources" }, sources.map((one) => el("li", {},
    el("span", {}, one.source === one.service ? one.service : `${one.service} · ${one.source}`),
    el("span", { class: ["ok", "indexing"].includes(one.status) ? "dim" : "failing" }, [one.status, one.age_seconds !== null && `${seconds(one.age_seconds)} ago`, one.rows !== null && counted(one.rows, "row")].filter(Boolean).join(" · ")),
    one.last_error && el("span", { class: "under" }, one.last_error)))));
}

const inState = (backlog, name, endpoint) => backlog.filter((one) => one.state === name && (!endpoint || one.endpoint_id === endpoint));
const sum = (rows) => rows.reduce((total, one) => total + one.deliveries, 0);

async function showWebhooks() {
  const chosen = state().state || "";
  const found = await fetchPart(`deliveries${query({ state: chosen })}`);
  known.webhooks = found;
  attention();
  if (byId("deliveries").contains(document.activeElement)) return;
  const { endpoints, backlog, deliveries } = found;
  const choice = el("select", { id: "state", onchange: (event) => { go({ state: event.target.value }); event.target.blur(); part("deliveries", showWebhooks); } },
    ["", "pending", "delivered", "parked", "cancelled"].map((value) => el("option", { value, selected: value === chosen }, value || "all")));
  fill(byId("deliveries"),
    table("Webhook endpoints", [["Endpoint", "wide"], ["Status"], ["Queued", "number"], ["Parked", "number"], ["Last error"], [""]], endpoints.map((one) => {
      const parked = sum(inState(backlog, "parked", one.id));
      return [el("span", {}, one.url, el("span", { class: "dim" }, ` ${one.service}`)), el("span", { class: `badge ${{ active: "good", failing: "high", disabled: "critical" }[one.status]}` }, one.status),
        number(sum(inState(backlog, "pending", one.id))), number(parked), one.last_error && `${one.last_error}, ${counted(one.consecutive_failures, "time")}`,
        parked > 0 && one.status !== "disabled" && el("button", { type: "button", class: "quiet", onclick: () => replay(`endpoints/${one.id}`) }, `Send ${counted(parked, "parked delivery", "parked deliveries")} again`)];
    }), ["No endpoint is registered. Add one with ", el("code", {}, "tollhouse webhooks add"), ", or with an alert."]),
    (deliveries.length > 0 || chosen) && [el("div", { class: "op-bar" }, el("h3", {}, "Deliveries"), el("label", { for: "state", class: "unseen" }, "State"), choice),
      table("Deliveries", [["Created"], ["Type"], ["Subject", "wide"], ["State"], ["Attempts", "number"], ["Last response"], [""]],
        deliveries.slice(0, 15).map((one) => [moment(one.created_at), one.type, one.subject_id, one.state, number(one.attempt_count), one.last_error || one.last_status,
          !["pending", "cancelled"].includes(one.state) && el("button", { type: "button", class: "quiet", "aria-label": `Send again: ${one.id}`, onclick: () => replay(`deliveries/${one.id}`) }, "Send again")]), "No delivery in this state.")].flat());
}

function replay(path) {
  document.activeElement.blur();
  return part("deliveries", async () => {
    await fetchPart(`${path}/replay`, { method: "POST" });
    announce("Queued for another attempt");
    await showWebhooks();
  });
}

/** What needs the operator, most urgent first. */
function attention() {
  const items = [];
  const add = (kind, text, target, link) => items.push(el("li", { class: kind }, el("span", {}, text), target && el("a", { href: target }, link)));
  const check = known.revenue?.verified;
  if (check && !check.result.balanced) add("critical", "The ledger does not balance.", "#ledger-heading", "Ledger");
  if (known.chain?.error) add("critical", `Chain: ${known.chain.error}`, "#chain-heading", "Chain");
  if (known.webhooks) {
    const { endpoints, backlog } = known.webhooks;
    for (const one of endpoints.filter((each) => each.status !== "active")) {
      const since = one.failing_since ? ` since ${moment(one.failing_since)}` : "";
      add("critical", `Webhook ${one.status}${since}: ${one.url} (${one.last_error || one.disabled_reason || "no answer"}), ${number(sum(inState(backlog, "pending", one.id)))} queued, ${number(sum(inState(backlog, "parked", one.id)))} parked.`, "#webhooks-heading", "Webhooks");
    }
  }
  for (const one of (known.sources || []).filter((each) => !["ok", "indexing"].includes(each.status))) add("medium", `Source ${one.service === one.source ? one.service : `${one.service} · ${one.source}`}: ${one.status}${one.last_error ? ` (${one.last_error})` : ""}.`, "#sources-heading", "Sources");
  const traffic = known.traffic;
  if (traffic?.total.failed) add("medium", `${counted(traffic.total.failed, "call")} failed with 5xx in this window.`, "?status=5xx#calls-heading", "Calls");
  const isComplete = known.traffic && known.webhooks && known.sources && known.revenue && known.chain;
  if (!items.length && isComplete) items.push(el("li", { class: "good" }, "No failing webhook or source, and no failed call in this window."));
  fill(byId("attention"), items);
  if (known.traffic && known.revenue && !byId("tiles").contains(document.activeElement)) showTiles(known.traffic, WINDOWS[known.traffic.window].toLowerCase());
}
