// Forms that create an API key or take one the visitor has.
import { el, fill, copyButton, announce, snippet } from "./dom.js";
import { call, key, keyedCall } from "./server.js";
import { errorNotice } from "./format.js";

let forms = 0;

/** A form that creates a free key, stores it and calls `done(created)`. */
export function newKeyForm(done) {
  const id = `new-key-${(forms += 1)}`;
  const email = el("input", { id: `${id}-email`, type: "email", required: true, autocomplete: "email", placeholder: "you@example.org" });
  const label = el("input", { id: `${id}-label`, maxlength: "100", placeholder: "my laptop" });
  const remembers = rememberBox(id);
  const failed = el("div");
  return el("form", { onsubmit: submit },
    el("div", { class: "row" },
      el("div", { class: "field grow" }, el("label", { for: email.id }, "Email"), email),
      el("div", { class: "field grow" }, el("label", { for: label.id }, "Label (optional)"), label),
      el("button", {}, "Create a free key")),
    remembers, failed);

  async function submit(event) {
    event.preventDefault();
    fill(failed);
    try {
      const body = { email: email.value };
      if (label.value) body.label = label.value;
      const { members } = await call("", "/api/keys/create", { method: "POST", body });
      key.set(members.api_key, remembers.firstChild.checked);
      done(members);
    } catch (error) {
      fill(failed, errorNotice(error));
    }
  }
}

/** A form for a key the visitor has. Calls `done()` once it is stored. */
export function ownKeyForm(done) {
  const id = `own-key-${(forms += 1)}`;
  const box = el("input", { id, type: "password", required: true, autocomplete: "off", spellcheck: "false", placeholder: "th_live_…" });
  const remembers = rememberBox(id);
  return el("form", { onsubmit: (event) => { event.preventDefault(); key.set(box.value.trim(), remembers.firstChild.checked); done(); } },
    el("div", { class: "row" },
      el("div", { class: "field grow" }, el("label", { for: id }, "Existing key"), box),
      el("button", { class: "quiet" }, "Use this key")),
    remembers);
}

function rememberBox(id, onchange) {
  return el("p", { class: "choice remember" }, el("input", { id: `${id}-remember`, type: "checkbox", checked: key.isRemembered(), onchange }),
    el("label", { for: `${id}-remember` }, "Remember on this device"));
}

/** The key in use, where it is stored, and a button that removes it. `done()` runs after that. */
export function keyInUse(done) {
  return el("div", { class: "key-in-use" }, el("span", {}, "Key in use: ", el("code", {}, key.masked())),
    rememberBox(`used-key-${(forms += 1)}`, (event) => {
      key.set(key.get(), event.target.checked);
      announce(event.target.checked ? "Remembered on this device" : "Kept in this tab only");
    }),
    forgetButton(done));
}

export function forgetButton(done) {
  return el("button", { type: "button", class: "quiet", onclick: () => { key.forget(); announce("The key was removed from this device"); done(); } }, "Forget this key");
}

/** The new key, shown only this once, and a first request with it. */
export function shownOnce(created) {
  announce("Your key was created. Copy it now.");
  return el("section", { class: "panel", "aria-label": "Your new key", id: "shown-key" },
    el("h3", {}, "Your key"),
    el("p", {}, "Copy it now: it is shown only once, and the server stores only a hash of it. These pages keep it in this tab, or on this device if you chose that."),
    el("code", { class: "key" }, created.api_key),
    el("p", { class: "actions" }, copyButton(() => created.api_key, "Copy the key")),
    keyedCall && el("h3", {}, "First request"),
    keyedCall && snippet(`curl -H 'Authorization: Bearer ${created.api_key}' \\\n  '${location.origin}${keyedCall}'`, "First request with your key"));
}
