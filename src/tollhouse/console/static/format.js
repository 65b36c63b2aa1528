// Formats numbers, times and errors.
import { el } from "./dom.js";

const numbers = new Intl.NumberFormat("en");
export const number = (value) => (value === null || value === undefined ? "–" : numbers.format(value));
export const share = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)}%`);
/** "$449" for Australian dollars, "€449" and "US$449" for others. */
export const money = (value, currency = "AUD") =>
  new Intl.NumberFormat(currency === "AUD" ? "en-AU" : "en", { style: "currency", currency, maximumFractionDigits: value % 1 ? 2 : 0 }).format(value);
/** "4990.00" -> "4,990": cents are shown only where there are some. */
export function whole(amount) {
  const [units, cents = "00"] = amount.split(".");
  return numbers.format(units) + (cents === "00" ? "" : `.${cents}`);
}
export const dollars = (amount) => `${whole(amount)} USD`;
export const billions = (value) => (value === null || value === undefined ? "–" : `$${value.toFixed(1)} B`);

const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const times = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

/** 15 Nov 2020. What is not a whole date (a year, a month) stays as it is. */
export function day(iso) {
  if (!iso) return "–";
  return /^\d{4}-\d{2}-\d{2}/.test(iso) ? days.format(new Date(iso)) : iso;
}

/** 15 Nov 2020, 11:00 UTC: times are in UTC, not in the time zone of the reader. */
export function moment(iso) {
  return iso ? `${day(iso)}, ${clockTime(iso)}` : "–";
}

/** 11:00 UTC, on one line. */
export const clockTime = (iso) => `${times.format(new Date(iso))}\u00a0UTC`;

/** The date after an ISO date. */
export const dayAfter = (date) => new Date(Date.parse(date) + 86_400_000).toISOString().slice(0, 10);

/** A duration in its largest unit. */
export function lasted(seconds) {
  if (seconds < 7200) return counted(Math.floor(seconds / 60), "minute");
  return seconds < 172_800 ? counted(Math.floor(seconds / 3600), "hour") : counted(Math.floor(seconds / 86_400), "day");
}

/** A count with its noun in the singular or plural. */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** A notice with the error, the wait, and a button to try again. */
export function errorNotice(error, again) {
  const problem = error.problem || {};
  const wait = problem.retry_after_seconds;
  const lines = [el("p", {}, coded(error.message))];
  if (wait) lines.push(el("p", {}, `Try again in ${wait < 120 ? counted(wait, "second") : counted(Math.ceil(wait / 60), "minute")}.`));
  if (problem.allowed && problem.allowed.length < 12) lines.push(el("p", {}, `Possible values: ${problem.allowed.join(", ")}.`));
  if (problem.type) lines.push(el("p", { class: "small" }, el("a", { href: problem.type }, "About this error")));
  if (again) lines.push(el("p", {}, el("button", { type: "button", class: "quiet", onclick: again }, "Try again")));
  return el("div", { class: "notice", role: "alert" }, lines);
}

/** Text in backticks becomes code. */
function coded(text) {
  return text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));
}

/** The host of a URL without `www.`. */
export function hostOf(url) {
  try {
    return new URL(url).hostname.replace(/^www\./, "");
  } catch {
    return url;
  }
}

