// Numbers, moments and refusals in words.
import { el } from "./dom.js";

const numbers = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "–" : numbers.format(value));
export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
export const money = (value, currency = "AUD") =>
  new Intl.NumberFormat("en-AU", { style: "currency", currency, maximumFractionDigits: value % 1 ? 2 : 0 }).format(value);
export const billions = (value) => (value === null || value === undefined ? "–" : `$${value.toFixed(1)} B`);

/** 2020-11-15 11:00 UTC: the moments here are the world's, not the reader's. */
export function moment(iso) {
  return iso ? `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC` : "–";
}

export const day = (iso) => (iso ? iso.slice(0, 10) : "–");

/** Many or one. */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** What went wrong, and what can be done about it. */
export function refusal(error, again) {
  const problem = error.problem || {};
  const wait = problem.retry_after_seconds;
  const lines = [el("p", {}, error.message)];
  if (wait) lines.push(el("p", {}, `Try again in ${wait < 120 ? counted(wait, "second") : counted(Math.ceil(wait / 60), "minute")}.`));
  if (problem.allowed && problem.allowed.length < 12) lines.push(el("p", {}, `Possible: ${problem.allowed.join(", ")}.`));
  if (problem.type) lines.push(el("p", { class: "small" }, el("a", { href: problem.type }, "About this answer")));
  if (again) lines.push(el("p", {}, el("button", { type: "button", class: "quiet", onclick: again }, "Try again")));
  return el("div", { class: "notice", role: "alert" }, lines);
}

/** A host's name, for a link to an article. */
export function hostOf(url) {
  try {
    return new URL(url).hostname.replace(/^www\./, "");
  } catch {
    return url;
  }
}

