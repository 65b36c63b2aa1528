// Talking to this server: where its services are, the visitor's key, and what a refusal says.

const root = document.documentElement;
/** The name under which the endpoints of accounts (keys, wallets, checkout) are called. No service can have it. */
export const ACCOUNTS = "/accounts";
const BASES = { ...JSON.parse(root.dataset.services), [ACCOUNTS]: root.dataset.accounts };
const KEY = "tollhouse-key";
const TOKEN = "tollhouse-operator";
const kept = new Map();

export const facts = JSON.parse(root.dataset.facts);
export const filesAt = root.dataset.files;
/** The path of an example call that needs a key; empty where there is none. */
export const keyedCall = root.dataset.keyedCall;

/** Where a service answers, for examples to paste. */
export const addressOf = (service) => location.origin + BASES[service];

/** The key lives in this tab alone: not in the address, not in a cookie, and gone when the tab is closed. */
export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => { kept.clear(); sessionStorage.setItem(KEY, text); },
  forget: () => { kept.clear(); sessionStorage.removeItem(KEY); },
};
export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set: (text) => sessionStorage.setItem(TOKEN, text),
};

/** A refusal: `problem` is the server's own account of it (RFC 9457). */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The server answered ${status}.`);
    this.status = status;
    this.problem = problem;
  }
}

/** A service's answer as it came, once its status says that it is one. Raises Refused. */
export async function send(service, path, { method = "GET", body, bearer = "", accept = "application/json" } = {}) {
  const headers = { Accept: accept };
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const base = service ? BASES[service] : "";
  let answer;
  try {
    answer = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(0, { detail: "The server cannot be reached. It may be starting again: try once more in a moment." });
  }
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

/** What a service answers, as JSON, with the headers beside it. Raises Refused. */
export async function call(service, path, options = {}) {
  const answer = await send(service, path, options);
  return { members: await answer.json().catch(() => ({})), headers: answer.headers };
}

/** The same, asked once: a feed costs a request of the plan, so an answer is kept until the page is left. */
export function callOnce(service, path, options = {}) {
  if (!kept.has(path)) {
    const asked = call(service, path, options);
    asked.catch(() => kept.delete(path));
    kept.set(path, asked);
  }
  return kept.get(path);
}

/** A query string of what is not empty; a list is repeated. */
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
