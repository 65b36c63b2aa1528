// One alert: its rule in words, its state, its endpoint, and its actions.
import { go } from "../address.js";
import { ask } from "./alert_calls.js";
import { sentence } from "./alert_text.js";
import { el, fill } from "../dom.js";
import { counted, hostOf, moment, number, errorNotice } from "../format.js";

const STATES = { pending: ["not yet evaluated", ""], met: ["matches now", "high"], not_met: ["does not match", "good"], no_data: ["no data", "medium"] };
const ENDPOINTS = { active: "good", failing: "high", disabled: "critical" };

/** `onDone(text)` runs after an action; `change(alert)` and `gone(alert)` are the page's own actions. */
export function alertCard(alert, { change, gone, onDone }) {
  const [stateText, kind] = STATES[alert.state.status];
  const failed = el("div");
  const act = (text, work, extra = {}) => el("button", { type: "button", class: "quiet small", ...extra, onclick: () => guarded(work) }, text);
  return el("article", { class: "card alert", "aria-label": alert.name, "data-alert": alert.id },
    el("div", { class: "bar" }, el("h3", {}, alert.name), el("span", { class: `badge push ${kind}` }, stateText)),
    el("p", {}, sentence(alert)),
    el("dl", { class: "pairs" },
      pair("Value now", alert.state.value === null ? "–" : number(alert.state.value)),
      pair("Last triggered", alert.state.last_triggered_at ? moment(alert.state.last_triggered_at) : "never"),
      pair("Endpoint", [el("span", { class: "long" }, hostOf(alert.url)), " ", el("span", { class: `badge ${ENDPOINTS[alert.endpoint.status]}` }, alert.endpoint.status)])),
    trouble(alert.endpoint),
    el("p", { class: "actions" },
      act("Send a test", async () => {
        await ask("POST", `/${alert.id}/test`);
        await onDone(`A test of “${alert.name}” was queued. See its deliveries.`);
      }),
      act("History and deliveries", () => go({ alert: alert.id })),
      act("Change", () => change(alert)),
      alert.endpoint.status === "disabled" && act("Enable again", async () => {
        await ask("PATCH", `/${alert.id}`, { url: alert.url });
        await onDone(`“${alert.name}” is enabled again.`);
      }),
      act("Delete", async () => {
        if (!confirm(`Delete “${alert.name}”? Its pending deliveries are cancelled.`)) return;
        await ask("DELETE", `/${alert.id}`);
        await gone(alert);
      })), failed);

  async function guarded(work) {
    fill(failed);
    try {
      await work();
    } catch (error) {
      if (!error.problem) throw error;
      fill(failed, errorNotice(error));
    }
  }
}

function trouble(endpoint) {
  const lines = [];
  if (endpoint.status === "failing") lines.push(`${counted(endpoint.consecutive_failures, "attempt")} failed since ${moment(endpoint.failing_since)}: ${endpoint.last_error}`);
  if (endpoint.status === "disabled") lines.push(`Disabled since ${moment(endpoint.disabled_at)}: ${endpoint.disabled_reason}`);
  if (endpoint.parked_count) lines.push(`${counted(endpoint.parked_count, "delivery", "deliveries")} failed permanently. You can send them again.`);
  return lines.length > 0 && el("div", { class: "small" }, lines.map((line) => el("p", {}, line)));
}

function pair(name, value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}
