// Alerts: the key's own, each with what it came to and what became of its deliveries, and the way to a new one.
import { following, go, state } from "../address.js";
import { alertCard } from "./alert_card.js";
import { showDeliveries } from "./alert_deliveries.js";
import { ruleForm } from "./alert_form.js";
import { showPreview } from "./alert_preview.js";
import { ask } from "./alert_calls.js";
import { byId, closeDialog, copyButton, el, fill, say, showDialog } from "../dom.js";
import { door, keyLine } from "../key_gate.js";
import { facts } from "../server.js";
import { counted, refusal } from "../format.js";

let alerts = [];

door(byId("door"), { tiers: facts.tiers, what: "An alert" }, enter);

async function enter(status) {
  byId("desk").hidden = false;
  fill(byId("key-line"), keyLine(status));
  newForm();
  await refresh();
  following(openDeliveries);
}

async function refresh() {
  try {
    const { alerts: found, limit } = await ask("GET", "");
    alerts = found;
    byId("counted").textContent = found.length ? `${found.length} of at most ${limit}` : "";
    fill(byId("alerts"), found.map((one) => alertCard(one, { change: changeForm, gone, told })));
    if (!found.length) fill(byId("alerts"), el("p", { class: "empty" }, "No alert yet. Fill in the form, look at its preview, and create it."));
  } catch (error) {
    fill(byId("alerts"), refusal(error, refresh));
  }
}

/** Something was done with an alert: say so above the list, and show what it is now. */
async function told(text) {
  fill(byId("told"), el("p", { class: "notice good", role: "status" }, text));
  await refresh();
}

async function gone(alert) {
  await told(`“${alert.name}” was deleted.`);
}

function newForm() {
  byId("make").textContent = "New alert";
  fill(byId("form"), ruleForm({}, { preview, submit: "Create the alert", done: async (rule) => {
    const made = await ask("POST", "", rule);
    await refresh();
    fill(byId("told"), secretOnce(made));
    byId("told").scrollIntoView({ block: "nearest" });
    newForm();
  } }));
  fill(byId("preview"), el("h3", {}, "Preview"), el("p", { class: "dim" }, "See when a rule would have fired over the stored history before anybody is woken by it. Nothing is sent."));
}

function changeForm(alert) {
  byId("make").textContent = `Change “${alert.name}”`;
  fill(byId("form"), ruleForm(alert, { preview, submit: "Save the change", cancel: newForm, done: async (rule) => {
    const { version } = await ask("PATCH", `/${alert.id}`, rule);
    newForm();
    await told(`“${rule.name}” was changed: version ${version}.`);
  } }));
  byId("maker").scrollIntoView({ block: "start" });
  byId("form").querySelector("input").focus();
}

async function preview(rule) {
  const place = byId("preview");
  fill(place, el("h3", {}, "Preview"), el("p", { class: "dim" }, "Reading the stored history…"));
  try {
    showPreview(place, rule, await ask("POST", "/preview", rule));
    place.scrollIntoView({ block: "nearest" });
  } catch (error) {
    fill(place, el("h3", {}, "Preview"), refusal(error));
  }
}

function secretOnce(made) {
  say("The alert was made. Copy its secret now.");
  return el("section", { class: "panel", "aria-label": "The new alert's secret", id: "secret" }, el("h3", {}, `“${made.name}” watches from now on`),
    el("p", {}, "Copy the secret now: it is shown this once. Your endpoint verifies with it that a delivery comes from here (Standard Webhooks)."),
    el("code", { class: "key" }, made.secret), el("p", { class: "actions" }, copyButton(() => made.secret, "Copy the secret")));
}

function openDeliveries() {
  const alert = alerts.find((one) => one.id === state().alert);
  if (!alert) return closeDialog();
  const place = el("div", {}, el("p", { class: "dim" }, "Loading…"));
  showDialog(`Deliveries of “${alert.name}”`, place, () => go({ alert: "" }));
  showDeliveries(place, alert);
}
