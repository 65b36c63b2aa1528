// The keys page: get one, see what is left of its plan, replace it, give it back, upgrade it.
import { state } from "./address.js";
import { byId, el, fill, say } from "./dom.js";
import { newKeyForm, ownKeyForm, shownOnce } from "./key_form.js";
import { ACCOUNTS, call, facts, key } from "./server.js";
import { clockTime, dollars, moment, number, refusal } from "./format.js";

const made = byId("made");
const usage = byId("usage");
const TIER_BEFORE = "tollhouse-tier-before";
const LOOKS = 12;
const LOOK_AGAIN_MS = 2500;

fill(byId("new-key"), newKeyForm((created) => {
  fill(made, shownOnce(created));
  showUsage();
}));
showPlans();
showUsage();
if (state().status === "paid") thank();
if (state().status === "cancelled") fill(made, el("p", { class: "notice" }, "Nothing was bought, and the key is as it was."));

/** Back from the checkout: the payment provider tells the server of a payment within seconds, so look a few times. */
async function thank() {
  const notice = el("p", { class: "notice good", role: "status" }, "Thank you. Waiting for the payment to be confirmed…");
  fill(made, notice);
  for (let tries = 0; tries < LOOKS && key.get(); tries += 1) {
    const status = await showUsage();
    if (status && status.tier !== "free" && status.tier !== sessionStorage.getItem(TIER_BEFORE)) {
      sessionStorage.removeItem(TIER_BEFORE);
      notice.textContent = `Thank you. Your key is of tier ${status.tier} now.`;
      return;
    }
    await new Promise((resolve) => { setTimeout(resolve, LOOK_AGAIN_MS); });
  }
  notice.textContent = key.get() ? "Thank you. The key's tier changes as soon as the payment is confirmed: use Refresh below." : "Thank you. Give your key below to see its new tier.";
}

async function showUsage() {
  if (!key.get()) return fill(usage, ownKeyForm(showUsage));
  try {
    const { members } = await call(ACCOUNTS, "/api/keys/verify", { bearer: key.get() });
    fill(usage, ...usageOf(members));
    showUpgrade(members);
    return members;
  } catch (error) {
    fill(usage, refusal(error), ownKeyForm(showUsage), forgetButton());
  }
}

function usageOf(status) {
  const { day, minute } = status.usage;
  return [
    el("p", {}, "Key ", el("code", {}, status.key_id), status.label ? ` (${status.label})` : "", ", tier ", el("strong", {}, status.tier),
      ", made ", moment(status.created_at)),
    windowOf("Today", day), windowOf("This minute", minute),
    el("p", { class: "actions" },
      el("button", { type: "button", class: "quiet", onclick: showUsage }, "Refresh"),
      el("button", { type: "button", class: "quiet", onclick: rotate }, "Replace this key"),
      el("button", { type: "button", class: "quiet", onclick: revoke }, "Give it back"),
      forgetButton()),
  ];
}

function windowOf(name, window) {
  const id = `use-${name.replace(" ", "-").toLowerCase()}`;
  if (window.limit === null) return el("p", { class: "used" }, `${name}: ${number(window.used)} used, no limit`);
  return el("div", {},
    el("label", { for: id, class: "used" }, `${name}: ${number(window.used)} of ${number(window.limit)} used, ${number(window.remaining)} left`),
    el("meter", { id, min: 0, max: window.limit, value: window.used }),
    el("p", { class: "small dim" }, `Begins anew at ${clockTime(window.resets_at)}`));
}

function forgetButton() {
  return el("button", { type: "button", class: "quiet", onclick: () => { key.forget(); fill(made); showUsage(); say("Forgotten in this tab"); } }, "Forget it here");
}

async function rotate() {
  if (!confirm("The old key stops working at once. Replace it?")) return;
  try {
    const { members } = await call(ACCOUNTS, "/api/keys/rotate", { method: "POST", bearer: key.get() });
    key.set(members.api_key);
    fill(made, shownOnce(members));
    showUsage();
  } catch (error) {
    fill(made, refusal(error));
  }
}

async function revoke() {
  if (!confirm("The key opens nothing any more, and this cannot be undone. Give it back?")) return;
  try {
    await call(ACCOUNTS, "/api/keys/revoke", { method: "POST", bearer: key.get() });
    key.forget();
    fill(made, el("p", { class: "notice" }, "The key was given back."));
    showUsage();
  } catch (error) {
    fill(made, refusal(error));
  }
}

function showPlans() {
  fill(byId("plans"), facts.plans.map((plan) => el("article", { class: "card plan" },
    el("h3", {}, plan.tier),
    el("p", { class: "price" }, Number(plan.price_per_month_usd) ? [dollars(plan.price_per_month_usd), el("span", { class: "unit" }, " a month")] : "0 USD"),
    el("p", { class: "small dim" }, plan.price_per_year_usd === null ? "no card needed" : `or ${dollars(plan.price_per_year_usd)} a year`),
    el("ul", {}, el("li", {}, plan.requests_per_day === null ? "requests without a daily limit" : `${number(plan.requests_per_day)} requests a day`),
      el("li", {}, `${number(plan.requests_per_minute)} requests a minute`), plan.includes.map((text) => el("li", {}, text))))));
}

/** What can be bought above the key's tier. A tier sold at two prices is told apart by the price's id. */
function pricesAbove(tier) {
  const ranks = facts.plans.map((plan) => plan.tier);
  const tiers = Object.values(facts.prices);
  const above = Object.entries(facts.prices).filter(([, one]) => ranks.indexOf(one) > ranks.indexOf(tier));
  return above.map(([id, one]) => [id, tiers.filter((other) => other === one).length > 1 ? `${one} (${id})` : one]);
}

function showUpgrade(status) {
  if (!Object.keys(facts.prices).length) return;
  const prices = pricesAbove(status.tier);
  const email = el("input", { id: "pay-email", type: "email", required: true, autocomplete: "email" });
  const price = el("select", { id: "pay-price" }, prices.map(([id, text]) => el("option", { value: id }, text)));
  const failed = el("div");
  fill(byId("upgrade"),
    el("p", {}, `Your key's tier is ${status.tier}. `, prices.length > 0 ? "You pay at our payment provider and come back; the key stays the same." : "There is none above it."),
    el("form", { onsubmit: pay },
      prices.length > 0 && el("div", { class: "row" },
        el("div", { class: "field grow" }, el("label", { for: "pay-email" }, "The key's email"), email),
        el("div", { class: "field" }, el("label", { for: "pay-price" }, "Plan"), price),
        el("button", {}, "Go to checkout")),
      status.tier !== "free" && el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: manage }, "Change or end what is paid")), failed));

  async function pay(event) {
    event.preventDefault();
    try {
      const body = { price_id: price.value, email: email.value, api_key: key.get() };
      const { members } = await call(ACCOUNTS, "/api/stripe/checkout", { method: "POST", body });
      sessionStorage.setItem(TIER_BEFORE, status.tier);
      location.assign(members.checkout_url);
    } catch (error) {
      fill(failed, refusal(error));
    }
  }

  async function manage() {
    try {
      const { members } = await call(ACCOUNTS, "/api/stripe/portal", { method: "POST", bearer: key.get() });
      location.assign(members.portal_url);
    } catch (error) {
      fill(failed, refusal(error));
    }
  }
}
