// Forms that create an API key or take one the visitor has.
import { el, fill, copyButton, announce, snippet } from "./dom.js";
import { call, key, keyedCall } from "./server.js";
import { errorNotice } from "./format.js";

/** A form that creates a free key and calls `done(created)`. */
export function newKeyForm(done) {
  const email = el("input", { id: "new-email", type: "email", required: true, autocomplete: "email", placeholder: "you@example.org" });
  const label = el("input", { id: "new-label", maxlength: "100", placeholder: "my laptop" });
  const failed = el("div");
  const form = el("form", { onsubmit: submit },
    el("div", { class: "row" },
      el("div", { class: "field grow" }, el("label", { for: "new-email" }, "Email"), email),
      el("div", { class: "field grow" }, el("label", { for: "new-label" }, "Label (optional)"), label),
      el("button", {}, "Create a free key")),
    failed);

  async function submit(event) {
    event.preventDefault();
    fill(failed);
    try {
      const body = { email: email.value };
      if (label.value) body.label = label.value;
      const { members } = await call("", "/api/keys/create", { method: "POST", body });
      key.set(members.api_key);
      done(members);
    } catch (error) {
      fill(failed, errorNotice(error));
    }
  }
  return form;
}

/** A form for a key the visitor has. Calls `done()` once the tab stores it. */
export function ownKeyForm(done) {
  const box = el("input", { id: "own-key", type: "password", required: true, autocomplete: "off", spellcheck: "false", placeholder: "th_live_…" });
  return el("form", { onsubmit: (event) => { event.preventDefault(); key.set(box.value.trim()); done(); } },
    el("div", { class: "row" },
      el("div", { class: "field grow" }, el("label", { for: "own-key" }, "Existing key"), box),
      el("button", { class: "quiet" }, "Use this key")));
}

/** The new key, shown only this once, and a first request with it. */
export function shownOnce(created) {
  announce("Your key was created. Copy it now.");
  return el("section", { class: "panel", "aria-label": "Your new key", id: "shown-key" },
    el("h3", {}, "Your key"),
    el("p", {}, "Copy it now: it is shown only once, and the server stores only a hash of it. This tab keeps it until you close the tab."),
    el("code", { class: "key" }, created.api_key),
    el("p", { class: "actions" }, copyButton(() => created.api_key, "Copy the key")),
    keyedCall && el("h3", {}, "First request"),
    keyedCall && snippet(`curl -H 'Authorization: Bearer ${created.api_key}' \\\n  '${location.origin}${keyedCall}'`, "First request with your key"));
}
