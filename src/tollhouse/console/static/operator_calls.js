// The live log of calls: the newest of all processes, filtered by the address, refreshed while the tab is visible.
import { go, state } from "./address.js";
import { byId, el, fill, snippet } from "./dom.js";
import { openDrawer } from "./drawer.js";
import { errorNotice, moment } from "./format.js";
import { callerName, fetchPart, table } from "./operator_parts.js";
import { query } from "./server.js";

const REFRESH = 3_000;
const FILTERS = ["operation", "status", "caller", "code"];
const STATUSES = { "": "any status", "2xx": "2xx answered", "4xx": "4xx refused", "5xx": "5xx failed" };
const exact = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });
let shown = "";
let rejected = false;  // the filters of the address, as a 400 says: asking again would not help

/** Build the filters and begin to refresh. */
export function startCalls() {
  const box = (name, label) => el("input", { id: `filter-${name}`, name, placeholder: label, "aria-label": label, value: state()[name] || "" });
  const status = el("select", { id: "filter-status", name: "status", "aria-label": "Status", onchange: apply }, choices());
  fill(byId("call-filters"), box("operation", "Operation"), status, box("caller", "Caller"), box("code", "Problem code"),
    el("button", { class: "quiet small" }, "Filter"), el("button", { type: "button", class: "quiet small", onclick: () => go(Object.fromEntries(FILTERS.map((name) => [name, ""]))) }, "Clear"));
  byId("call-filters").addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  setInterval(() => { if (!document.hidden && !rejected) showCalls(); }, REFRESH);
}

function choices() {
  const chosen = state().status || "";
  const known = chosen in STATUSES ? STATUSES : { ...STATUSES, [chosen]: chosen };
  return Object.entries(known).map(([value, text]) => el("option", { value, selected: value === chosen }, text));
}

function apply() {
  go(Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value.trim()])));
}

/** Show the newest calls that match the address. */
export async function showCalls() {
  const given = state();
  const path = `calls${query(Object.fromEntries(FILTERS.map((name) => [name, given[name]])))}`;
  if (path !== shown) {
    shown = path;
    fill(byId("filter-status"), choices());
    for (const name of FILTERS) if (document.activeElement !== byId(`filter-${name}`)) byId(`filter-${name}`).value = given[name] || "";
  } else if (byId("calls").contains(document.activeElement) || byId("calls").matches(":hover")) {
    // A row must not move away from under the pointer.
    byId("live").textContent = "paused";
    return;
  }
  try {
    const { calls } = await fetchPart(path);
    if (path !== shown) return;
    rejected = false;
    byId("live").hidden = false;
    byId("live").textContent = "live";
    byId("filter-status").removeAttribute("aria-invalid");
    fill(byId("calls"), table("Newest calls", [["Time", "time"], ["Status", "status"], ["Operation", "operation"], ["Caller", "caller"], ["Reason of a refusal", "reason wide"], ["Latency", "ms number"], ["Price", "price number"]],
      calls.map(row), FILTERS.some((name) => given[name]) ? "No call matches among the newest 1,000 answered and 1,000 refused ones." : "No call yet. Calls appear here within two seconds.", "op-calls"));
  } catch (error) {
    if (!error.problem) throw error;
    if (path !== shown) return;
    rejected = error.problem.status === 400;
    byId("live").hidden = true;
    if (error.problem.parameter === "status") byId("filter-status").setAttribute("aria-invalid", "true");
    fill(byId("calls"), errorNotice(error, showCalls));
  }
}

const kindOf = (status) => (status >= 500 ? "failed" : status >= 400 ? "refused" : "answered");

function row(one) {
  return [exact.format(new Date(one.at)), el("span", { class: `op-status ${kindOf(one.status)}` }, String(one.status)),
    el("button", { type: "button", class: "text", onclick: () => details(one), title: `${one.method} ${one.path}` }, `${one.service} ${one.operation}`.trim()),
    el("span", {}, callerName(one), el("span", { class: "dim" }, ` ${[one.kind, one.plan].filter(Boolean).join(" · ")}`)),
    one.code && el("span", { class: "op-reason" }, el("strong", {}, one.code), one.detail && ` ${one.detail}`),
    `${one.ms < 10 ? one.ms.toFixed(1) : Math.round(one.ms)} ms`, Number(one.price_usd) ? `${one.price_usd} USD` : one.payment || ""];
}

function details(one) {
  const pairs = [["Time", `${moment(one.at)} (${one.at})`], ["Request", `${one.method} ${one.path}`], ["Operation", `${one.service} ${one.operation}`.trim()], ["Status", String(one.status)],
    ["Problem", one.code && el("a", { href: `/problems/${one.code}` }, one.code)], ["Reason", one.detail], ["Latency", `${one.ms} ms`], ["Caller", `${one.kind} ${one.caller}`], ["Name", one.name], ["Plan", one.plan],
    ["Paid with", one.payment], ["Price", Number(one.price_usd) ? `${one.price_usd} USD` : ""], ["Request id", el("code", {}, one.request_id)]];
  openDrawer({ title: `${one.status} ${one.operation}`, body: [
    el("dl", { class: "pairs" }, pairs.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: "long" }, value)))),
    el("p", { class: "small dim" }, "The log has the same request id:"), snippet(`journalctl -u tollhouse | grep -F -- ${one.request_id}`, "Command that finds the request in the log")] });
}
