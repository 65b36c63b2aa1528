// The status page: the state of each service and source, their age, and incidents. It reads again by itself.
import { byId, el, fill } from "./dom.js";
import { counted, errorNotice, lasted, moment, number } from "./format.js";
import { call } from "./server.js";

const AGAIN_MS = 30_000;
const WORDS = { ok: "Operational", indexing: "Indexing", stale: "Stale", failing: "Failing" };
const OVERALL = { ok: "All services are operational", indexing: "A table is being indexed", stale: "Some data are stale", failing: "Some sources or services fail" };
const KINDS = { failing: "Failed", stale: "Stale", stopped: "Stopped" };

show();
setInterval(() => { if (!document.hidden) show(); }, AGAIN_MS);

async function show() {
  try {
    const { members } = await call("", "/status.json");
    fill(byId("trouble"));
    const ongoing = members.incidents.filter((one) => !one.ended_at);
    fill(byId("overall"), state(members.state, ongoing.length && members.state === "ok" ? counted(ongoing.length, "incident lasts", "incidents last") : OVERALL[members.state]));
    byId("checked").textContent = `As of ${moment(members.as_of)} · version ${members.version}`;
    fill(byId("services"), members.services.filter((one) => one.components.length).map(service));
    byId("services").removeAttribute("aria-busy");
    byId("incidents-section").hidden = false;
    fill(byId("incidents"), members.incidents.length ? el("ul", { class: "list incidents" }, members.incidents.map((one) => incident(one, members.services))) : el("p", { class: "empty" }, "No incident was recorded."));
  } catch (error) {
    if (!error.problem) throw error;
    fill(byId("overall"), state("failing", "The status cannot be read"));
    fill(byId("trouble"), errorNotice(error, show));
  }
}

/** A state as a sign and a word: never colour alone. */
function state(name, text = WORDS[name]) {
  return el("span", { class: `state ${name}` }, el("span", { class: "sign", "aria-hidden": "true" }), text);
}

function service(one) {
  return el("section", { class: "panel", "aria-label": one.title }, el("header", {}, el("h3", {}, one.title), state(one.state)),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Sources of ${one.title}` }, el("table", {},
      el("thead", {}, el("tr", {}, ["Source", "State", "Rows", "Data up to", "Last read", "Age"].map((name, at) => el("th", { scope: "col", class: at === 2 || at === 5 ? "number" : null }, name)))),
      el("tbody", {}, one.components.map((part) => el("tr", {},
        el("th", { scope: "row" }, part.title, part.detail && el("div", { class: "small dim" }, part.detail)),
        cell("State", state(part.state)), cell("Rows", number(part.rows), "number"), cell("Data up to", moment(part.as_of)), cell("Last read", moment(part.updated_at)),
        cell("Age", part.age_seconds === null ? "–" : lasted(part.age_seconds), "number")))))));
}

/** On a phone, the name of its column stands beside a value. */
function cell(name, value, kind) {
  return el("td", { class: kind, "data-name": name }, value);
}

function incident(one, services) {
  const title = services.find((each) => each.name === one.service)?.title || "Server";
  const length = one.duration_seconds < 120 ? counted(one.duration_seconds, "second") : lasted(one.duration_seconds);
  return el("li", {}, el("div", { class: "bar" }, el("strong", {}, `${title}: ${one.title}`), el("span", { class: "badge" }, KINDS[one.kind]), !one.ended_at && el("span", { class: "badge critical" }, "ongoing")),
    el("p", { class: "small dim" }, one.detail, one.detail && " ", `${moment(one.began_at)} to ${one.ended_at ? moment(one.ended_at) : "now"} (${length})`));
}
