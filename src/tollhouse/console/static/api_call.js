// "Get this as API": a drawer with programs that make the call whose answer is in view, its terms and its answer.
import { openDrawer } from "./drawer.js";
import { copyButton, el, fill } from "./dom.js";
import { errorNotice, number, dollars } from "./format.js";
import { newKeyForm, ownKeyForm, keyInUse } from "./key_form.js";
import { highlight } from "./code.js";
import { call, callOnce, key, query as queryText } from "./server.js";

const PLACEHOLDER = "YOUR_KEY";
const ROWS_SHOWN = 2;
const LONGEST_TEXT = 160;
const NOTES = { curl: "", Python: "Needs Python 3.8 or newer and `pip install requests`.", TypeScript: "Runs as it stands in Node.js 20 or newer, Deno and Bun, as TypeScript or JavaScript (a module)." };
let chosenTab = "curl";

/**
 * A button that opens the drawer. `describe()` is called when it is pressed and returns the call in view as
 * `{service, method = "GET", path, query, body}`, `path` below the service's prefix and `query` an object whose lists
 * repeat a parameter; or a list of such calls, each with a `title`.
 */
export function apiButton(describe, { label = "Get this as API", kind = "quiet" } = {}) {
  return el("button", { type: "button", class: `${kind} api-button`, onclick: () => openApiDrawer(describe()) },
    el("span", { class: "api-mark", "aria-hidden": "true" }, "‹/›"), ` ${label}`);
}

/** Open the drawer for one call or a list of calls. */
export function openApiDrawer(described) {
  const calls = [described].flat();
  const place = el("div", { class: "api-call" });
  const picks = el("div", { class: "chips", role: "group", "aria-label": "Call" },
    calls.map((one) => el("button", { type: "button", onclick: () => choose(one) }, one.title)));
  openDrawer({ title: "Get this as API", body: [calls.length > 1 && picks, place], wide: true, over: true });
  choose(calls[0]);

  function choose(one) {
    [...picks.children].forEach((button, at) => button.setAttribute("aria-pressed", String(calls[at] === one)));
    showCall(place, one);
  }
}

async function showCall(place, described, created) {
  const { service, method = "GET", path, query = {}, body } = described;
  const again = (made) => showCall(place, described, made);
  fill(place, el("p", { class: "dim", role: "status" }, "Loading…"));
  const pairs = [...new URLSearchParams(queryText(query))];
  const status = await keyStatus();
  const isPaid = (plans) => plans.some((plan) => plan.tier === status?.tier && Number(plan.price_per_month_usd) > 0);
  try {
    let shown = await samplesOf(false);
    // A paid plan replaces the allowance of the address.
    if (!shown.has_key && shown.access.free_per_day !== null && isPaid(shown.plans)) shown = await samplesOf(true);
    const preview = el("div", { class: "api-answer" });
    fill(place, route(method, shown), keyLine(shown, status, created, again), tabs(shown), terms(shown, status), el("h3", {}, "Answer"), preview);
    await showAnswer(preview, service, method, path + queryText(query));
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, errorNotice(error, () => again()));
  }

  async function samplesOf(withKey) {
    const given = { service, method, path, query: pairs, body, origin: location.origin, with_key: withKey };
    return (await call("", "/console/samples", { method: "POST", body: given })).members;
  }
}

/** The key's plan and usage, or null without a valid key. */
async function keyStatus() {
  if (!key.get()) return null;
  return call("", "/api/keys/verify", { bearer: key.get() }).then(({ members }) => members, () => null);
}

function route(method, shown) {
  return el("div", { class: "api-route" }, el("span", { class: "api-method" }, method), el("code", {}, shown.url), copyButton(() => shown.url, "Copy URL"));
}

function keyLine(shown, status, created, again) {
  if (!shown.has_key) return null;
  if (created) {
    return el("section", { class: "panel api-key", "aria-label": "Your new key" }, el("p", {}, el("strong", {}, "Your key."), " Copy it now: it is shown only once. The programs below contain it."),
      el("code", { class: "key" }, created.api_key), el("p", { class: "actions" }, copyButton(() => created.api_key, "Copy the key")));
  }
  if (status) return [keyInUse(() => again()), el("p", { class: "small dim" }, "The programs below contain it: masked here, whole when you copy them.")];
  const place = el("div");
  const open = (form) => { fill(place, form); form.querySelector("input").focus(); };
  return el("div", { class: "panel api-key" }, el("div", { class: "api-need" }, el("span", {}, key.get() ? "Your key was refused." : shown.access.minimum_tier && shown.access.entitlement ? `This call needs an API key on the plan ${shown.access.minimum_tier} or higher. Create one, then upgrade it.` : "This call needs an API key. A free one takes an email address."),
    el("button", { type: "button", onclick: () => open(newKeyForm(again)) }, "Create a free key"), el("button", { type: "button", class: "quiet", onclick: () => open(ownKeyForm(() => again())) }, "Use my key")), place);
}

function tabs(shown) {
  const samples = shown.samples.map((one) => ({ ...one, name: one.language === "js" ? "TypeScript" : one.label }));
  const all = [...samples.map((one) => ({ name: one.name, content: () => program(one) })), { name: "MCP", content: () => mcp(shown) }];
  const panel = el("div", { role: "tabpanel", id: "api-panel", tabindex: "0" });
  const buttons = all.map(({ name }, at) => el("button", { type: "button", role: "tab", id: `api-tab-${at}`, "aria-controls": "api-panel", onclick: () => choose(at), onkeydown: (event) => move(event, at) }, name));
  choose(Math.max(0, all.findIndex(({ name }) => name === chosenTab)));
  return [el("div", { class: "api-tabs", role: "tablist", "aria-label": "Language" }, buttons), panel];

  function choose(at) {
    chosenTab = all[at].name;
    buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(index === at));
      button.tabIndex = index === at ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `api-tab-${at}`);
    fill(panel, all[at].content());
  }

  function move(event, at) {
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + all.length) % all.length;
    choose(next);
    buttons[next].focus();
  }
}

/** A program with the reader's key: masked on the screen, whole when copied. */
function program({ language, source, name, label }) {
  const note = NOTES[name];
  return [code(source, language, `Program in ${name || label}`), note && el("p", { class: "small dim" }, note.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part)))];
}

function mcp(shown) {
  if (!shown.tool) return el("p", {}, "This call is not offered over MCP.");
  const name = `tollhouse-${new URL(shown.tool.url).pathname.split("/")[1].replace(/^mcp$/, "server")}`;
  const headers = shown.has_key ? { headers: { Authorization: `Bearer ${PLACEHOLDER}` } } : {};
  const client = { mcpServers: { [name]: { type: "http", url: shown.tool.url, ...headers } } };
  return [el("h3", {}, "Configure the client"), code(JSON.stringify(client, null, 2), "json", "Configuration of an MCP client"),
    el("h3", {}, "Call the tool ", el("code", {}, shown.tool.tool)), code(JSON.stringify(shown.tool.arguments, null, 2), "json", "Arguments of the tool")];
}

function code(source, language, label) {
  const withKey = (text) => source.replaceAll(PLACEHOLDER, text);
  return el("div", { class: "snippet" }, el("pre", { tabindex: "0", "aria-label": label }, el("code", {}, highlight(withKey(key.masked() || PLACEHOLDER), language))),
    copyButton(() => withKey(key.get() || PLACEHOLDER)));
}

function terms(shown, status) {
  const { access, plans } = shown;
  const paths = el("p", { class: "small" }, el("a", { href: shown.reference }, `Reference: ${shown.summary}`), access.request_usd !== null && [" · ", el("a", { href: "/guide/x402" }, "Paying per request")], access.wallet_usd !== null && [" · ", el("a", { href: "/wallet" }, "Wallet")]);
  if (!access.is_metered) return [el("h3", {}, "Price and terms"), el("p", {}, access.needs_key ? "Needs a key; free, without a limit." : "Free, without a key and without a limit."), paths];
  const rows = [];
  if (access.free_per_day !== null) rows.push(["No key", "free", `${number(access.free_left)} of ${number(access.free_per_day)} requests left today`]);
  for (const plan of plans) {
    const price = Number(plan.price_per_month_usd);
    const isOwn = plan.tier === status?.tier;
    if ((access.entitlement && !plan.entitlements.includes(access.entitlement)) || (!access.needs_key && !price)) continue;
    const limit = plan.requests_per_day === null ? `${number(plan.requests_per_minute)} requests a minute` : `${number(plan.requests_per_day)} requests a day`;
    rows.push([isOwn ? el("strong", {}, `Your key, plan ${plan.tier}`) : `Key, plan ${plan.tier}`, price ? `${dollars(plan.price_per_month_usd)} a month` : "free", isOwn ? el("strong", {}, left(status.usage)) : limit]);
  }
  if (access.wallet_usd !== null) rows.push(["Wallet credit", `${dollars(access.wallet_usd)} a call`, ""]);
  if (access.request_usd !== null) rows.push(["Per request (x402)", `${dollars(access.request_usd)} a request`, access.takes_payments ? "" : "not accepted by this server yet"]);
  return [el("h3", {}, "Price and terms"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Price and terms" }, el("table", { class: "api-terms" },
    el("thead", {}, el("tr", {}, ["With", "Price", "Limit"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))))), paths];
}

const left = ({ day, minute }) => (day.limit === null ? `${number(minute.remaining)} of ${number(minute.limit)} requests left this minute` : `${number(day.remaining)} of ${number(day.limit)} requests left today`);

async function showAnswer(place, service, method, address) {
  if (method !== "GET") return fill(place, el("p", { class: "small dim" }, "Run the program to see its answer: this call is not made for a preview."));
  fill(place, el("p", { class: "dim" }, "Loading…"));
  try {
    const { members } = await callOnce(service, address);
    const [name, rows] = Object.entries(members).find(([, value]) => Array.isArray(value) && value.length && typeof value[0] === "object") || [];
    const about = rows ? `The first ${Math.min(ROWS_SHOWN, rows.length)} of ${number(rows.length)} in \u201c${name}\u201d; long texts and lists are cut here.` : "Long texts and lists are cut here.";
    fill(place, el("p", { class: "small dim" }, about), el("div", { class: "snippet" },
      el("pre", { tabindex: "0", "aria-label": "Answer" }, el("code", {}, highlight(JSON.stringify(cut(rows ? { [name]: rows, ...members } : members, rows), null, 2), "json")))));
  } catch (error) {
    if (!error.problem) throw error;
    fill(place, errorNotice(error));
  }
}

/** The answer without most of its rows, long lists and long texts. */
function cut(value, rows) {
  if (typeof value === "string") return value.length > LONGEST_TEXT ? `${value.slice(0, LONGEST_TEXT)}…` : value;
  if (Array.isArray(value)) return value.slice(0, value === rows ? ROWS_SHOWN : ROWS_SHOWN + 1).map((one) => cut(one));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, rows)]));
}
