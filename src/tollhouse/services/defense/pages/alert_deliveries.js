// One alert: its rule on the metric's history, and its deliveries with their attempts and a button to send each again.
import { ask } from "./alert_calls.js";
import { historyOf } from "./alert_preview.js";
import { sentence } from "./alert_text.js";
import { apiButton } from "../api_call.js";
import { el, fill, announce } from "../dom.js";
import { counted, moment, errorNotice } from "../format.js";

const KINDS = { pending: "medium", delivered: "good", parked: "critical", cancelled: "" };
const RULE = ["metric", "filters", "operator", "threshold", "window_hours", "cooldown_minutes"];

/** The content of an alert's drawer; the history and the deliveries load into it. */
export function alertDetails(alert) {
  const [history, sent] = [el("div", { class: "alert-history" }, el("p", { class: "dim" }, "Reading the stored history…")), el("div", {}, el("p", { class: "dim" }, "Loading…"))];
  const rule = Object.fromEntries(RULE.map((name) => [name, alert[name]]));
  showHistory(history, rule);
  showDeliveries(sent, alert);
  return [el("p", {}, sentence(alert)), el("p", { class: "actions" }, apiButton(() => [{ title: "Deliveries", service: "defense", path: `/api/alerts/${alert.id}/deliveries`, query: { limit: 50 } }, { title: "Preview", service: "defense", method: "POST", path: "/api/alerts/preview", body: rule }])),
    el("h3", {}, "The rule over the stored history"), history, el("h3", {}, "Deliveries"), sent];
}

async function showHistory(place, rule) {
  try {
    fill(place, historyOf(rule, await ask("POST", "/preview", rule)));
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, errorNotice(error, () => showHistory(place, rule)));
  }
}

async function showDeliveries(place, alert) {
  const again = () => showDeliveries(place, alert);
  try {
    const { deliveries } = await ask("GET", `/${alert.id}/deliveries?limit=50`);
    fill(place, el("p", { class: "small dim" }, "To ", el("span", { class: "long" }, alert.url)),
      deliveries.length ? el("ul", { class: "list", id: "sent" }, deliveries.map((one) => line(one, alert, again))) : el("p", { class: "empty" }, "No deliveries yet. Send a test to see one."),
      el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: again }, "Refresh")));
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, errorNotice(error, again));
  }
}

function line(delivery, alert, again) {
  return el("li", {},
    el("div", { class: "bar" }, el("strong", {}, delivery.type), el("span", { class: `badge ${KINDS[delivery.state]}` }, delivery.state),
      el("span", { class: "push" }, delivery.attempt_count > 0 && el("button", { type: "button", class: "quiet small", "aria-label": `Send again: ${delivery.id}`, onclick: () => replay(delivery, alert, again) }, "Send again"))),
    el("div", { class: "about" }, el("span", {}, moment(delivery.created_at)), el("span", {}, counted(delivery.attempt_count, "attempt")), el("code", {}, delivery.id)),
    delivery.attempts.length > 0 && el("details", {}, el("summary", { class: "small" }, "Attempts"), el("ul", { class: "small" }, delivery.attempts.map((one) =>
      el("li", {}, `${moment(one.at)}: ${one.status ? `status ${one.status}` : one.error}, ${one.duration_ms} ms`)))));
}

async function replay(delivery, alert, again) {
  try {
    await ask("POST", `/${alert.id}/deliveries/${delivery.id}/replay`);
    announce("Queued for another attempt");
  } finally {
    await again();
  }
}
