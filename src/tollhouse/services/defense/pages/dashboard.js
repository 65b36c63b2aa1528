// The defense board: which view the address asks for, and the dialogs over it.
import { following, go, here, state } from "../address.js";
import { newKeyForm, ownKeyForm, shownOnce } from "../key_form.js";
import { byId, closeDialog, el, fill, showDialog } from "../dom.js";
import { showBrief } from "./brief.js";
import { showEntities } from "./entities.js";
import { eventInside } from "./event.js";
import { showMap } from "./map_view.js";
import { showStories, storyInside } from "./stories.js";
import { key } from "../server.js";
import { refusal } from "../format.js";

const VIEWS = {
  map: ["Map", showMap],
  stories: ["Stories", showStories],
  entities: ["Entities", showEntities],
  brief: ["Brief", showBrief],
};
const OF_OTHER_VIEWS = { entity: "", type: "", story: "", event: "" };
let shown = "";

following(show);

async function show() {
  const view = VIEWS[state().view] ? state().view : "map";
  fill(byId("views"), Object.entries(VIEWS).map(([name, [text]]) =>
    here(el("a", { "aria-current": name === view ? "page" : null }, text), { ...OF_OTHER_VIEWS, view: name === "map" ? "" : name })));
  if (!key.get()) return askForKey();
  const { story, event, ...rest } = state();
  const wanted = JSON.stringify([rest, key.get()]);
  if (wanted !== shown) {
    shown = wanted;
    await guarded(byId("board"), () => VIEWS[view][1](byId("board")), () => { shown = ""; show(); });
  }
  if (story) openInside("story", story, storyInside);
  else if (event) openInside("event", event, eventInside);
  else closeDialog();
}

async function guarded(place, work, again) {
  try {
    await work();
  } catch (error) {
    if (!error.problem) throw error;
    if (error.status === 401) return askForKey(error);
    fill(place, refusal(error, again));
  }
}

/** A story or an event over the board; closing it takes it out of the address. */
async function openInside(name, id, inside) {
  const place = el("div", {}, el("p", {}, "Loading…"));
  const dialog = showDialog(name === "story" ? "Story" : "Event", place, () => go({ [name]: "" }));
  await guarded(place, async () => {
    const { title, children } = await inside(id);
    dialog.querySelector("h2").textContent = title;
    fill(place, children);
  }, () => openInside(name, id, inside));
}

function askForKey(error) {
  shown = "";
  const made = el("div");
  const done = (created) => {
    fill(made, shownOnce(created), el("p", { class: "actions" }, el("button", { type: "button", onclick: show }, "Open the board")));
    made.querySelector("button").focus();
  };
  fill(byId("board"), error ? refusal(error) : null,
    el("section", { class: "panel", "aria-labelledby": "need-key" },
      el("h2", { id: "need-key" }, "The feeds need a key"),
      el("p", {}, "A free key gives 100 requests a day. The board uses two of them to open, and one for each new filter."),
      newKeyForm(done), made, el("hr"), ownKeyForm(show)));
}
