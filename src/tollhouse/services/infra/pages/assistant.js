// The assistant: answers questions from the graph.
import { pageLink } from "../address.js";
import { el, announce } from "../dom.js";
import { call } from "../server.js";
import { errorNotice } from "../format.js";

/** Show answers in `place`, newest first; `highlight(ids)` marks the companies in the graph. */
export function connectAssistant(form, place, highlight, nameOf) {
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
      announce(members.reply);
    } catch (error) {
      place.prepend(errorNotice(error));
    }
  }

  function answered(message, members) {
    return el("article", { class: "panel" }, el("h3", {}, message), el("p", { class: "said" }, members.reply),
      members.companies.length > 0 && el("div", { class: "chips" }, members.companies.slice(0, 20).map((id) => pageLink(el("a", {}, nameOf(id)), { company: id, from: "", to: "", without: "" }))),
      members.suggestions.length > 0 && el("p", { class: "small dim" }, "Suggestions"),
      members.suggestions.length > 0 && el("div", { class: "chips", role: "group", "aria-label": "Suggestions" }, members.suggestions.map((text) => el("button", { type: "button", onclick: () => ask(text) }, text))));
  }
}
