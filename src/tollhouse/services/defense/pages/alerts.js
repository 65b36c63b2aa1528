// The alerts of a key, with their state and deliveries, and the form for a new one.
import { onAddress, go, state } from "../address.js";
import { alertCard } from "./alert_card.js";
import { alertDetails } from "./alert_deliveries.js";
import { ruleForm } from "./alert_form.js";
import { showPreview } from "./alert_preview.js";
import { ask } from "./alert_calls.js";
import { byId, copyButton, el, fill, announce } from "../dom.js";
import { closeDrawer, openDrawer } from "../drawer.js";
import { keyLine, requireKey } from "../key_gate.js";
import { facts } from "../server.js";
import { counted, errorNotice } from "../format.js";

let alerts = [];
let previewed = null;

requireKey(byId("key-gate"), { tiers: facts.tiers }, enter);

async function enter(status) {
  byId("manage").hidden = false;
  fill(byId("key-line"), keyLine(status));
  newForm();
  await refresh();
  onAddress(openDeliveries);
}

async function refresh() {
  try {
    const { alerts: listed, limit } = await ask("GET", "");
    alerts = listed;
    byId("counted").textContent = listed.length ? `${listed.length} of at most ${limit}` : "";
    fill(byId("alerts"), listed.map((one) => alertCard(one, { change: changeForm, gone, onDone: showDone })));
    if (!listed.length) fill(byId("alerts"), el("p", { class: "empty" }, "No alerts yet. Fill in the form, check the preview, and create one."));
  } catch (error) {
    fill(byId("alerts"), errorNotice(error, refresh));
  }
}

/** Show the outcome of an action above the list, and reload the list. */
async function showDone(text) {
  fill(byId("notice"), el("p", { class: "notice good", role: "status" }, text));
  await refresh();
}

async function gone(alert) {
  await showDone(`“${alert.name}” was deleted.`);
}

function newForm() {
  byId("make").textContent = "New alert";
  fill(byId("form"), ruleForm({}, { preview, submit: "Create the alert", done: async (rule) => {
    const made = await ask("POST", "", rule);
    await refresh();
    fill(byId("notice"), secretOnce(made));
    byId("notice").scrollIntoView({ block: "nearest" });
    newForm();
  } }));
  fill(byId("preview"), el("h3", {}, "Preview"), el("p", { class: "dim" }, "Change the rule to see when it would have triggered over the stored history. Nothing is sent."));
}

function changeForm(alert) {
  byId("make").textContent = `Change “${alert.name}”`;
  fill(byId("form"), ruleForm(alert, { preview, submit: "Save the change", cancel: newForm, done: async (rule) => {
    const { version } = await ask("PATCH", `/${alert.id}`, rule);
    newForm();
    await showDone(`“${rule.name}” was changed to version ${version}.`);
  } }));
  byId("maker").scrollIntoView({ block: "start" });
  byId("form").querySelector("input").focus();
}

async function preview(rule) {
  const place = byId("preview");
  previewed = rule;
  fill(place, el("h3", {}, "Preview"), el("p", { class: "dim" }, "Reading the stored history…"));
  try {
    const history = await ask("POST", "/preview", rule);
    if (previewed === rule) showPreview(place, rule, history);
  } catch (error) {
    fill(place, el("h3", {}, "Preview"), errorNotice(error));
  }
}

function secretOnce(made) {
  announce("The alert was created. Copy its secret now.");
  return el("section", { class: "panel", "aria-label": "The new alert's secret", id: "secret" }, el("h3", {}, `“${made.name}” is active`),
    el("p", {}, "Copy the secret now: it is shown only once. Your endpoint uses it to verify deliveries (Standard Webhooks)."),
    el("code", { class: "key" }, made.secret), el("p", { class: "actions" }, copyButton(() => made.secret, "Copy the secret")));
}

function openDeliveries() {
  const alert = alerts.find((one) => one.id === state().alert);
  if (!alert) return closeDrawer();
  openDrawer({ title: alert.name, body: alertDetails(alert), wide: true, onClose: () => go({ alert: "" }) });
}
