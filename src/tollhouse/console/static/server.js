// Calls to this server, the visitor's key and visit token, and errors.

import { rooted } from "./dom.js";

const root = document.documentElement;
// The root, "", has the endpoints of accounts: keys, wallets, checkout.
const BASES = Object.fromEntries(Object.entries({ "": "", ...JSON.parse(root.dataset.services) }).map(([name, prefix]) => [name, root.dataset.root + prefix]));
const KEY = "tollhouse-key";
const VISIT = "tollhouse-visit";
const VISIT_MARGIN_SECONDS = 60;
const responses = new Map();

export const facts = JSON.parse(root.dataset.facts);
/** The facts that a service's entry on the front page declares; on its own pages, those of the page. */
export const factsOf = (service) => (location.pathname === `${root.dataset.root}/` ? facts[service] : facts) || {};
export const filesAt = root.dataset.files;
/** The path of an example call that needs a key; empty where there is none. */
export const keyedCall = root.dataset.keyedCall;

/** The base URL of a service, for examples. */
export const addressOf = (service) => location.origin + BASES[service];

const forgotten = new Map();
const noStorage = { getItem: (name) => forgotten.get(name), setItem: (name, text) => forgotten.set(name, text), removeItem: (name) => forgotten.delete(name) };

/** The storage of this tab, or of this device; where a browser refuses both, they last for this page. */
function storage(place) {
  try {
    return place === "local" ? localStorage : sessionStorage;
  } catch {
    return noStorage;
  }
}

/**
 * The visitor's key. It is stored in this tab until the tab closes, or on this device where the visitor wants that; then
 * every tab has it. It is never in an address or a cookie.
 */
export const key = {
  get: () => storage("session").getItem(KEY) || storage("local").getItem(KEY) || "",
  set(text, isRemembered = key.isRemembered()) {
    for (const place of ["session", "local"]) storage(place).removeItem(KEY);
    if (text) storage(isRemembered ? "local" : "session").setItem(KEY, text);
    keyChanged();
  },
  forget: () => key.set(""),
  isRemembered: () => Boolean(storage("local").getItem(KEY)),
  /** The key as it may be shown: its first and last characters. */
  masked: () => key.get().replace(/^(.{8}).*(.{4})$/, "$1…$2"),
  /** Run this when this tab or another one sets or forgets the key. */
  onChange: (run) => addEventListener("keychange", run),
};

function keyChanged() {
  responses.clear();
  dispatchEvent(new Event("keychange"));
}

addEventListener("storage", (event) => {
  if (event.storageArea === storage("local") && (event.key === KEY || event.key === null)) keyChanged();
});

/** An error response. `problem` is its body (RFC 9457). */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server responded with status ${status}.`);
    this.status = status;
    this.problem = problem;
  }
}

/**
 * The response of a service. Throws ApiError unless the status is 2xx. Without `bearer`, the page reads on the budget
 * that its visitor's address has for reading without a key; beyond it, with the visitor's key if there is one. `headers` are
 * those of a wallet that signs the call.
 */
export async function send(service, path, options = {}) {
  if (options.bearer || !service) return sendOnce(service, path, options);
  const visit = await visitToken();
  try {
    return await sendOnce(service, path, visit ? { ...options, visit } : { ...options, bearer: key.get() });
  } catch (error) {
    if (error.problem?.code === "invalid-visit") return sendOnce(service, path, { ...options, visit: await visitToken(true) });
    if (!visit || !key.get() || ![401, 429].includes(error.status)) throw error;
    return sendOnce(service, path, { ...options, bearer: key.get() });
  }
}

async function sendOnce(service, path, { method = "GET", body, bearer, visit, accept = "application/json", headers: signed = {} }) {
  const headers = { Accept: accept, ...signed };
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  if (visit) headers["X-Visit-Token"] = visit;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(BASES[service] + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiError(0, { detail: "The server cannot be reached. It may be restarting. Try again in a moment." });
  }
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return response;
}

let visiting = null;

/** The token of this visit, empty where the pages need a key. All calls of a page share one, and all pages of a tab. */
function visitToken(isRefused = false) {
  if (root.dataset.visits !== "yes") return "";
  if (isRefused) storage("session").removeItem(VISIT);
  const [token, until] = (storage("session").getItem(VISIT) || "").split(" ");
  if (Number(until) > Date.now()) return token;
  visiting ||= sendOnce("", "/console/visit", { method: "POST" }).then((response) => response.json()).then((given) => {
    storage("session").setItem(VISIT, `${given.token} ${Date.now() + 1000 * (given.valid_seconds - VISIT_MARGIN_SECONDS)}`);
    return given.token;
  }).catch((error) => {
    if (!error.problem) throw error;
    return "";
  }).finally(() => { visiting = null; });
  return visiting;
}

/** The JSON body and the headers of a response. Throws ApiError. */
export async function call(service, path, options = {}) {
  const response = await send(service, path, options);
  return { members: await response.json().catch(() => ({})), headers: response.headers };
}

/** Like `call`, but cached until the page is left. */
export function callOnce(service, path, options = {}) {
  const name = `${service} ${path}`;
  if (!responses.has(name)) {
    const response = call(service, path, options);
    response.catch(() => responses.delete(name));
    responses.set(name, response);
  }
  return responses.get(name);
}

/** A query string of the values that are not empty. A list repeats its parameter. */
export function query(given) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(given)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "" && one !== false) parts.append(name, one);
    }
  }
  const text = parts.toString();
  return text ? `?${text}` : "";
}
