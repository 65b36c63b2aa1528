// Which key opens a page that not every tier may use, and what to do when the visitor's does not.
import { ownKeyForm } from "./key_form.js";
import { el, fill } from "./dom.js";
import { ACCOUNTS, call, key } from "./server.js";
import { refusal } from "./format.js";

/** Ask for a key of one of `tiers` in `place`, and call `enter(status)` once there is one. `what` is what it opens, in words. */
export async function door(place, { tiers, what, otherwise }, enter) {
  const again = () => door(place, { tiers, what, otherwise }, enter);
  if (!key.get()) return fill(place, closed(`${what} needs a key of tier ${tiers.join(" or ")}.`, again, otherwise));
  fill(place, el("p", { class: "dim" }, "Looking at your key…"));
  try {
    const { members } = await call(ACCOUNTS, "/api/keys/verify", { bearer: key.get() });
    if (!tiers.includes(members.tier)) return fill(place, closed(`Your key is of tier ${members.tier}. ${what} needs tier ${tiers.join(" or ")}.`, again, otherwise, true));
    fill(place);
    enter(members);
  } catch (error) {
    fill(place, refusal(error, error.status === 401 ? null : again), error.status === 401 && closed(`${what} needs a key of tier ${tiers.join(" or ")}.`, again, otherwise));
  }
}

function closed(told, again, otherwise, hasKey = false) {
  return el("section", { class: "panel door", "aria-labelledby": "door-heading" },
    el("h2", { id: "door-heading" }, told),
    el("p", {}, hasKey ? "Upgrade it and come back: the key stays the same. " : "Make a free key, then upgrade it: the key stays the same. ", otherwise || ""),
    el("p", { class: "actions" }, el("a", { class: "button", href: hasKey ? "/keys#upgrade-heading" : "/keys" }, hasKey ? "Upgrade this key" : "Get a key and upgrade it"), el("a", { href: "/keys#plan-heading" }, "Compare plans")),
    el("hr"), ownKeyForm(again));
}

/** Which key is in use, and the way to another one. */
export function keyLine(status) {
  return el("p", { class: "small dim key-line" }, "Key ", el("code", {}, status.key_id), status.label && ` (${status.label})`, ` · ${status.tier} · `, el("a", { href: "/keys" }, "usage"));
}
