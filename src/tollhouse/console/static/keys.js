// The keys page: create a key, see its usage, replace, revoke or upgrade it.
import { state } from "./address.js";
import { byId, el, fill, snippet } from "./dom.js";
import { forgetButton, keyInUse, newKeyForm, ownKeyForm, shownOnce } from "./key_form.js";
import { call, facts, key } from "./server.js";
import { chart } from "./chart.js";
import { clockTime, dayAfter, dollars, moment, number, errorNotice } from "./format.js";

const made = byId("made");
const usage = byId("usage");
const TIER_BEFORE = "tollhouse-tier-before";
const POLLS = 12;
const POLL_INTERVAL_MS = 2500;

fill(byId("new-key"), newKeyForm((created) => {
  show(shownOnce(created));
  showUsage();
}));
if (key.get()) {
  const create = byId("new-key").closest("section");
  create.querySelector("h2").textContent = "Create another key";
  create.parentElement.append(create);
}
showUsage();
if (state().status === "paid") thank();
if (state().status === "cancelled") fill(made, el("p", { class: "notice" }, "Checkout cancelled. Your plan has not changed."));

/** What was made or done, at the top of the page. */
function show(result) {
  fill(made, result);
  made.scrollIntoView({ block: "nearest" });
}

/** Back from the checkout: the server learns of the payment within seconds, so poll a few times. */
async function thank() {
  const notice = el("p", { class: "notice good", role: "status" }, "Thank you. Waiting for the payment to be confirmed…");
  fill(made, notice);
  for (let tries = 0; tries < POLLS && key.get(); tries += 1) {
    const status = await showUsage();
    if (status && isPaid(status.tier) && status.tier !== sessionStorage.getItem(TIER_BEFORE)) {
      sessionStorage.removeItem(TIER_BEFORE);
      notice.textContent = `Thank you. Your key is now on the plan ${status.tier}.`;
      return;
    }
    await new Promise((resolve) => { setTimeout(resolve, POLL_INTERVAL_MS); });
  }
  notice.textContent = key.get() ? "Thank you. The plan changes as soon as the payment is confirmed. Use Refresh below." : "Thank you. Enter your key below to see its new plan.";
}

async function showUsage() {
  showPlans();
  if (!key.get()) return fill(usage, ownKeyForm(showUsage));
  try {
    const { members } = await call("", "/api/keys/verify", { bearer: key.get() });
    fill(usage, ...usageOf(members));
    showPlans(members.tier);
    showUpgrade(members);
    return members;
  } catch (error) {
    fill(usage, errorNotice(error), ownKeyForm(showUsage), forgetButton(forgotten));
  }
}

function usageOf(status) {
  const { day, minute } = status.usage;
  return [
    el("p", {}, "Key ", el("code", {}, status.key_id), status.label ? ` (${status.label})` : "", ", plan ", el("strong", {}, status.tier),
      ", created ", moment(status.created_at)),
    el("div", { class: "windows" }, windowOf("Today", day), windowOf("This minute", minute)),
    el("p", { class: "actions" },
      el("button", { type: "button", class: "quiet", onclick: showUsage }, "Refresh"),
      el("button", { type: "button", class: "quiet", onclick: rotate }, "Replace this key"),
      el("button", { type: "button", class: "quiet", onclick: revoke }, "Revoke this key")),
    keyInUse(forgotten), history(),
  ];
}

/** The calls of the last days, in a place of their size. */
function history() {
  const place = el("div", { class: "usage-history" }, el("h3", {}, "Requests a day"));
  call("", "/api/keys/usage", { bearer: key.get() }).then(({ members: { days } }) => {
    const bars = (name, tone, of) => ({ name, tone, kind: "bar", points: days.map((one) => ({ x: one.day, y: of(one), until: dayAfter(one.day) })) });
    const isUsed = days.some((one) => one.requests);
    place.append(isUsed ? chart({ label: "Requests a day of the last 30 days", series: [bars("Answered", "1", (one) => one.requests - one.refused - one.failed),
      bars("Refused", "medium", (one) => one.refused), bars("Failed", "critical", (one) => one.failed)], y: { title: "requests" } })
      : el("p", { class: "empty" }, "No requests in the last 30 days. They appear here some seconds after a call."));
  }, (error) => place.append(errorNotice(error)));
  return place;
}

function windowOf(name, window) {
  const id = `use-${name.replace(" ", "-").toLowerCase()}`;
  if (window.limit === null) return el("p", { class: "used" }, el("strong", {}, name), `${number(window.used)} used, no limit`);
  return el("div", {},
    el("label", { for: id, class: "used" }, el("strong", {}, name), `${number(window.used)} of ${number(window.limit)} used, ${number(window.remaining)} remaining`),
    el("meter", { id, min: 0, max: window.limit, low: window.limit * 0.85, optimum: 0, value: window.used }),
    el("p", { class: "small dim" }, `Resets at ${clockTime(window.resets_at)}`));
}

function forgotten() {
  fill(made);
  showUsage();
}

async function rotate() {
  if (!confirm("Replace this key? The old key stops working immediately.")) return;
  try {
    const { members } = await call("", "/api/keys/rotate", { method: "POST", bearer: key.get() });
    key.set(members.api_key);
    show(shownOnce(members));
    showUsage();
  } catch (error) {
    fill(made, errorNotice(error));
  }
}

async function revoke() {
  if (!confirm("Revoke this key? It stops working immediately. This cannot be undone.")) return;
  try {
    await call("", "/api/keys/revoke", { method: "POST", bearer: key.get() });
    key.forget();
    show(el("p", { class: "notice", role: "status" }, "The key was revoked."));
    showUsage();
  } catch (error) {
    fill(made, errorNotice(error));
  }
}

/** The plans; the key's own is marked. */
function showPlans(own = "") {
  fill(byId("plans"), facts.plans.map((plan) => el("article", { class: plan.tier === own ? "card plan own" : "card plan" },
    el("h3", {}, plan.tier, plan.tier === own && el("span", { class: "tag" }, "Your plan")),
    el("p", { class: "price" }, Number(plan.price_per_month_usd) ? [dollars(plan.price_per_month_usd), el("span", { class: "unit" }, " a month")] : "0 USD"),
    el("p", { class: "small dim" }, plan.price_per_year_usd === null ? (Number(plan.price_per_month_usd) ? "billed monthly" : "no card needed") : `or ${dollars(plan.price_per_year_usd)} a year`),
    el("ul", {}, el("li", {}, plan.requests_per_day === null ? "no daily limit" : `${number(plan.requests_per_day)} requests a day`),
      el("li", {}, `${number(plan.requests_per_minute)} requests a minute`), plan.includes.map((text) => el("li", {}, text))))));
}

const isPaid = (tier) => facts.plans.some((plan) => plan.tier === tier && Number(plan.price_per_month_usd) > 0);

/** The prices of plans above the key's. A plan sold at two prices shows the price's id too. */
function pricesAbove(tier) {
  const ranks = facts.plans.map((plan) => plan.tier);
  const tiers = Object.values(facts.prices);
  const above = Object.entries(facts.prices).filter(([, one]) => ranks.indexOf(one) > ranks.indexOf(tier));
  return above.map(([id, one]) => [id, tiers.filter((other) => other === one).length > 1 ? `${one} (${id})` : one]);
}

/** How a key gets another plan where the operator sells none online. */
function notSoldHere(status) {
  const others = facts.plans.filter((plan) => plan.tier !== status.tier).map((plan) => plan.tier);
  const link = facts.contact && el("a", { href: facts.contact }, facts.contact.replace(/^(mailto|tel):/, ""));
  return [el("p", {}, `Your key is on the plan ${status.tier}. This server sells no plans online. `, link ? ["Ask its operator: ", link, ". Name your key ", el("code", {}, status.key_id), "; never send the key itself."] : "Its operator can change the plan of a key."),
    ...(others.length ? [el("p", { class: "small dim" }, "As the operator, on the machine of the server:"), snippet(`tollhouse keys set-tier ${status.key_id} ${others[0]}`, "Command for the operator"),
      el("p", { class: "small" }, el("a", { href: "/guide/upgrades" }, "Selling plans with Stripe"))] : [])];
}

function showUpgrade(status) {
  if (!Object.keys(facts.prices).length) return fill(byId("upgrade"), notSoldHere(status));
  const prices = pricesAbove(status.tier);
  const email = el("input", { id: "pay-email", type: "email", required: true, autocomplete: "email" });
  const price = el("select", { id: "pay-price" }, prices.map(([id, text]) => el("option", { value: id }, text)));
  const failed = el("div");
  fill(byId("upgrade"),
    el("p", {}, `Your key is on the plan ${status.tier}. `, prices.length > 0 ? "You pay at the payment provider and return here. The key stays the same." : "There is no higher plan."),
    el("form", { onsubmit: pay },
      prices.length > 0 && el("div", { class: "row" },
        el("div", { class: "field grow" }, el("label", { for: "pay-email" }, "The key's email"), email),
        el("div", { class: "field" }, el("label", { for: "pay-price" }, "Plan"), price),
        el("button", {}, "Go to checkout")),
      isPaid(status.tier) && el("p", { class: "actions" }, el("button", { type: "button", class: "quiet", onclick: manage }, "Manage subscription")), failed));

  async function pay(event) {
    event.preventDefault();
    try {
      const body = { price_id: price.value, email: email.value, api_key: key.get() };
      const { members } = await call("", "/api/stripe/checkout", { method: "POST", body });
      sessionStorage.setItem(TIER_BEFORE, status.tier);
      location.assign(members.checkout_url);
    } catch (error) {
      fill(failed, errorNotice(error));
    }
  }

  async function manage() {
    try {
      const { members } = await call("", "/api/stripe/portal", { method: "POST", bearer: key.get() });
      location.assign(members.portal_url);
    } catch (error) {
      fill(failed, errorNotice(error));
    }
  }
}
