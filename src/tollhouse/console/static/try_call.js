// The API reference: send a request from the page, and see the response.
import { el, fill } from "./dom.js";
import { counted } from "./format.js";
import { ApiError, key, query, send } from "./server.js";

const LONGEST_SHOWN = 20_000;
const USAGE = /^(x-ratelimit-|x-credits-|ratelimit|retry-after|x-request-id|content-type)/;

for (const place of document.querySelectorAll("[data-call]")) {
  const button = el("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) return place.lastChild.remove();
    place.append(form(JSON.parse(place.dataset.call), place.dataset.name));
    place.querySelector("form").querySelector("input, select, textarea, button").focus();
  } }, "Try it");
  place.append(button);
}

function form(called, name) {
  const answer = el("div", { role: "status" });
  const fields = called.parameters.map((one) => [one, field(called, one)]);
  const body = called.body === null ? null : el("textarea", { id: `${called.id}-body`, rows: 6, spellcheck: "false" }, called.body);
  const submit = async (event) => {
    event.preventDefault();
    fill(answer, el("p", { class: "dim" }, "Sending…"));
    fill(answer, await outcome(called, fields.map(([one, input]) => [one, input.value.trim()]), body && body.value));
  };
  return el("form", { class: "try-form", "aria-label": `Try: ${name}`, onsubmit: submit },
    fields.map(([one, input]) => el("div", { class: "field" }, el("label", { for: input.id }, one.name, one.required ? " (required)" : ""), input)),
    body && el("div", { class: "field grow" }, el("label", { for: body.id }, "Body (JSON)"), body),
    el("p", { class: "actions" }, el("button", {}, "Send"), el("span", { class: "small dim" }, called.needs_key && !key.get() ? ["Needs a key: ", el("a", { href: "/keys" }, "create one"), "."] : key.get() ? "Sent with your key; it counts against its plan." : "")),
    answer);
}

function field(called, one) {
  const id = `${called.id}-${one.name}`;
  if (!one.choices.length) return el("input", { id, value: one.example, required: one.required, autocomplete: "off" });
  const options = [!one.required && el("option", { value: "" }, ""), ...one.choices.map((choice) => el("option", { selected: choice === one.example }, choice))];
  return el("select", { id }, options);
}

/** The response as it is shown: status, time, headers about the plan, and the beginning of the body. */
async function outcome(called, values, body) {
  const inQuery = {};
  let path = called.path;
  for (const [one, value] of values) {
    if (one.in === "path") path = path.replace(`{${one.name}}`, encodeURIComponent(value));
    else if (value) inQuery[one.name] = one.is_list ? value.split(",").map((each) => each.trim()) : value;
  }
  const began = performance.now();
  const took = () => counted(Math.round(performance.now() - began), "millisecond");
  try {
    const sent = body ? JSON.parse(body) : undefined;
    const response = await send("", path + query(inQuery), { method: called.method, body: sent, bearer: key.get(), accept: called.accept });
    const text = await response.text();
    const usage = [...response.headers].filter(([name]) => USAGE.test(name)).map(([name, value]) => `${name}: ${value}`);
    return [el("p", {}, el("strong", {}, String(response.status)), ` · ${took()} · ${counted(text.length, "character")}`), shown(usage.join("\n"), "Headers"), shown(readable(text), "Response")];
  } catch (error) {
    if (error instanceof SyntaxError) return [el("p", { class: "notice", role: "alert" }, `The body is not JSON: ${error.message}`)];
    if (!(error instanceof ApiError)) throw error;
    return [el("p", {}, el("strong", {}, String(error.status || "No response")), ` · ${took()}`), shown(JSON.stringify(error.problem, null, 2), "Problem")];
  }
}

function shown(text, label) {
  const isCut = text.length > LONGEST_SHOWN;
  return el("div", { class: "snippet" }, el("pre", { tabindex: 0, "aria-label": label }, el("code", {}, isCut ? `${text.slice(0, LONGEST_SHOWN)}…` : text)));
}

function readable(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
