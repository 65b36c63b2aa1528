// Asks for a key whose plan includes a page's feature, and shows how to get one.
import { ownKeyForm } from "./key_form.js";
import { el, fill } from "./dom.js";
import { call, key } from "./server.js";
import { errorNotice } from "./format.js";

/** Request a key of one of `tiers` in `place`, then call `enter(status)`. */
export async function requireKey(place, { tiers, otherwise }, enter) {
  const again = () => requireKey(place, { tiers, otherwise }, enter);
  if (!key.get()) return fill(place, closed(`This page needs a key on the ${tiers.join(" or ")} plan.`, again, otherwise));
  fill(place, el("p", { class: "dim" }, "Checking your key…"));
  try {
    const { members } = await call("", "/api/keys/verify", { bearer: key.get() });
    if (!tiers.includes(members.tier)) return fill(place, closed(`Your key is on the ${members.tier} plan. This page needs the ${tiers.join(" or ")} plan.`, again, otherwise, true));
    fill(place);
    enter(members);
  } catch (error) {
    fill(place, errorNotice(error, error.status === 401 ? null : again), error.status === 401 && closed(`This page needs a key on the ${tiers.join(" or ")} plan.`, again, otherwise));
  }
}

function closed(message, again, otherwise, hasKey = false) {
  return el("section", { class: "panel key-gate", "aria-labelledby": "key-gate-heading" },
    el("h2", { id: "key-gate-heading" }, message),
    el("p", {}, hasKey ? "Upgrade this key. The key itself stays the same. " : "Create a free key, then upgrade it. The key itself stays the same. ", otherwise || ""),
    el("p", { class: "actions" }, el("a", { class: "button", href: hasKey ? "/keys#upgrade-heading" : "/keys" }, hasKey ? "Upgrade this key" : "Create and upgrade a key"), el("a", { href: "/keys#plan-heading" }, "Compare plans")),
    el("hr"), ownKeyForm(again));
}

/** The key in use, with a link to its usage. */
export function keyLine(status) {
  return el("p", { class: "small dim key-line" }, "Key ", el("code", {}, status.key_id), status.label && ` (${status.label})`, ` · ${status.tier} · `, el("a", { href: "/keys" }, "usage"));
}
