// Getting a key to call with: a new free one, or one the visitor has.
import { el, fill, copyButton, say, snippet } from "./dom.js";
import { ACCOUNTS, call, key, keyedCall } from "./server.js";
import { refusal } from "./format.js";

/** A form that makes a free key; `done(created)` is told of it. The key is shown here once. */
export function newKeyForm(done) {
  const email = el("input", { id: "new-email", type: "email", required: true, autocomplete: "email", placeholder: "you@example.org" });
  const label = el("input", { id: "new-label", maxlength: "100", placeholder: "my laptop" });
  const failed = el("div");
  const form = el("form", { onsubmit: submit },
    el("div", { class: "row" },
      el("div", { class: "field grow" }, el("label", { for: "new-email" }, "Email"), email),
      el("div", { class: "field grow" }, el("label", { for: "new-label" }, "Label (optional)"), label),
      el("button", {}, "Make a free key")),
    failed);

  async function submit(event) {
    event.preventDefault();
    fill(failed);
    try {
      const body = { email: email.value };
      if (label.value) body.label = label.value;
      const { members } = await call(ACCOUNTS, "/api/keys/create", { method: "POST", body });
      key.set(members.api_key);
      done(members);
    } catch (error) {
      fill(failed, refusal(error));
    }
  }
  return form;
}

/** A form for a key the visitor has; `done()` is told once it stands in this tab. */
export function ownKeyForm(done) {
  const box = el("input", { id: "own-key", type: "password", required: true, autocomplete: "off", spellcheck: "false", placeholder: "th_live_…" });
  return el("form", { onsubmit: (event) => { event.preventDefault(); key.set(box.value.trim()); done(); } },
    el("div", { class: "row" },
      el("div", { class: "field grow" }, el("label", { for: "own-key" }, "A key you have"), box),
      el("button", { class: "quiet" }, "Use it")));
}

/** The new key, shown this once, and a first request with it. */
export function shownOnce(created) {
  say("Your key was made. Copy it now.");
  return el("section", { class: "panel", "aria-label": "Your new key", id: "shown-key" },
    el("h3", {}, "Your key"),
    el("p", {}, "Copy it now: it is shown this once, and only a hash of it is stored here. This tab remembers it until it is closed."),
    el("code", { class: "key" }, created.api_key),
    el("p", { class: "actions" }, copyButton(() => created.api_key, "Copy the key")),
    keyedCall && el("h3", {}, "A first request"),
    keyedCall && snippet(`curl -H 'Authorization: Bearer ${created.api_key}' \\\n  '${location.origin}${keyedCall}'`, "First request with your key"));
}
