// The concierge: a question in plain words, answered from the graph, with what it was understood as.
import { here } from "../address.js";
import { el, say } from "../dom.js";
import { call } from "../server.js";
import { refusal } from "../format.js";

/** Answer the form's questions into `place`, newest first; `highlight(ids)` shows the companies named. */
export function askConcierge(form, place, highlight, nameOf) {
  const box = form.querySelector("input");
  let conversation;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(box.value.trim());
  });

  async function ask(message) {
    if (!message) return;
    try {
      const body = conversation ? { message, conversation_id: conversation } : { message };
      const { members } = await call("infra", "/api/infra/chat", { method: "POST", body });
      conversation = members.conversation_id;
      box.value = "";
      place.prepend(answered(message, members));
      if (members.companies.length) highlight(members.companies);
      say(members.reply);
    } catch (error) {
      place.prepend(refusal(error));
    }
  }

  function answered(message, members) {
    return el("article", { class: "panel" }, el("h3", {}, message), el("p", { class: "said" }, members.reply),
      members.companies.length > 0 && el("div", { class: "chips" }, members.companies.slice(0, 20).map((id) => here(el("a", {}, nameOf(id)), { company: id, from: "", to: "", without: "" }))),
      members.suggestions.length > 0 && el("p", { class: "small dim" }, "You may also ask"),
      members.suggestions.length > 0 && el("div", { class: "chips", role: "group", "aria-label": "You may also ask" }, members.suggestions.map((text) => el("button", { type: "button", onclick: () => ask(text) }, text))));
  }
}
