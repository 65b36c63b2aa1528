// The defense dashboard: its views and dialogs, chosen by the address.
import { onAddress, pageLink, state } from "../address.js";
import { newKeyForm, ownKeyForm, shownOnce } from "../key_form.js";
import { byId, el, fill } from "../dom.js";
import { showBrief } from "./brief.js";
import { showEntities } from "./entities.js";
import { showMap } from "./map_view.js";
import { showDetails } from "./open_details.js";
import { showStories } from "./stories.js";
import { key } from "../server.js";
import { errorNotice } from "../format.js";

const VIEWS = {
  map: ["Map", showMap],
  stories: ["Stories", showStories],
  entities: ["Entities", showEntities],
  brief: ["Brief", showBrief],
};
const OF_OTHER_VIEWS = { entity: "", type: "", story: "", event: "" };
let shown = "";

onAddress(show);

async function show() {
  const view = VIEWS[state().view] ? state().view : "map";
  fill(byId("views"), Object.entries(VIEWS).map(([name, [text]]) =>
    pageLink(el("a", { "aria-current": name === view ? "page" : null }, text), { ...OF_OTHER_VIEWS, view: name === "map" ? "" : name })));
  showDetails();
  const { story, event, entity, ...rest } = state();
  const stateKey = JSON.stringify([rest, key.get()]);
  if (stateKey !== shown) {
    shown = stateKey;
    await guarded(byId("board"), () => VIEWS[view][1](byId("board")), () => { shown = ""; show(); });
  }
}

async function guarded(place, work, again) {
  try {
    await work();
  } catch (error) {
    if (!error.problem) throw error;
    if (error.status === 401) return askForKey(error);
    fill(place, errorNotice(error, again));
  }
}

function askForKey(error) {
  shown = "";
  const made = el("div");
  const done = (created) => {
    fill(made, shownOnce(created), el("p", { class: "actions" }, el("button", { type: "button", onclick: show }, "Open the dashboard")));
    made.querySelector("button").focus();
  };
  fill(byId("board"), error ? errorNotice(error) : null,
    el("section", { class: "panel", "aria-labelledby": "need-key" },
      el("h2", { id: "need-key" }, "The feeds require an API key"),
      el("p", {}, "The pages of this server are not open without one."),
      newKeyForm(done), made, el("hr"), ownKeyForm(show)));
}
