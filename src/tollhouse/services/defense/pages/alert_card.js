// One alert: its rule in words, what it came to, how its endpoint does, and what can be done with it.
import { go } from "../address.js";
import { ask } from "./alert_calls.js";
import { sentence } from "./alert_text.js";
import { el, fill } from "../dom.js";
import { counted, hostOf, moment, number, refusal } from "../format.js";

const STATES = { pending: ["not yet evaluated", ""], met: ["true now", "high"], not_met: ["not true now", "good"], no_data: ["cannot be told", "medium"] };
const ENDPOINTS = { active: "good", failing: "high", disabled: "critical" };

/** `told(text)` after something was done; `change(alert)` and `gone(alert)` for what the page does itself. */
export function alertCard(alert, { change, gone, told }) {
  const [stateText, kind] = STATES[alert.state.status];
  const failed = el("div");
  const act = (text, work, extra = {}) => el("button", { type: "button", class: "quiet small", ...extra, onclick: () => guarded(work) }, text);
  return el("article", { class: "card alert", "aria-label": alert.name, "data-alert": alert.id },
    el("div", { class: "bar" }, el("h3", {}, alert.name), el("span", { class: `badge push ${kind}` }, stateText)),
    el("p", {}, sentence(alert)),
    el("dl", { class: "pairs" },
      pair("Value now", alert.state.value === null ? "–" : number(alert.state.value)),
      pair("Last told", alert.state.last_triggered_at ? moment(alert.state.last_triggered_at) : "never"),
      pair("Endpoint", [el("span", { class: "long" }, hostOf(alert.url)), " ", el("span", { class: `badge ${ENDPOINTS[alert.endpoint.status]}` }, alert.endpoint.status)])),
    trouble(alert.endpoint),
    el("p", { class: "actions" },
      act("Send a test", async () => {
        await ask("POST", `/${alert.id}/test`);
        await told(`A test of “${alert.name}” is on its way: see its deliveries.`);
      }),
      act("Deliveries", () => go({ alert: alert.id })),
      act("Change", () => change(alert)),
      alert.endpoint.status === "disabled" && act("Enable again", async () => {
        await ask("PATCH", `/${alert.id}`, { url: alert.url });
        await told(`“${alert.name}” calls its endpoint again.`);
      }),
      act("Delete", async () => {
        if (!confirm(`“${alert.name}” ends, and what was still to be delivered is cancelled. Delete it?`)) return;
        await ask("DELETE", `/${alert.id}`);
        await gone(alert);
      })), failed);

  async function guarded(work) {
    fill(failed);
    try {
      await work();
    } catch (error) {
      if (!error.problem) throw error;
      fill(failed, refusal(error));
    }
  }
}

function trouble(endpoint) {
  const lines = [];
  if (endpoint.status === "failing") lines.push(`${counted(endpoint.consecutive_failures, "try", "tries")} failed since ${moment(endpoint.failing_since)}: ${endpoint.last_error}`);
  if (endpoint.status === "disabled") lines.push(`Disabled since ${moment(endpoint.disabled_at)}: ${endpoint.disabled_reason}`);
  if (endpoint.parked_count) lines.push(`${counted(endpoint.parked_count, "delivery", "deliveries")} given up on: they can be sent again.`);
  return lines.length > 0 && el("div", { class: "small" }, lines.map((line) => el("p", {}, line)));
}

function pair(name, value) {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}
