// The drawer of the story, event or entity that the address names, on whatever page it stands.
import { changed, go, state } from "../address.js";
import { closeDrawer, openDrawer } from "../drawer.js";
import { el } from "../dom.js";
import { errorNotice } from "../format.js";
import { skeleton } from "./details.js";
import { entityDetails } from "./entity.js";
import { eventDetails } from "./event.js";
import { storyDetails } from "./story.js";

const DETAILS = { story: ["Story", storyDetails], event: ["Event", eventDetails], entity: ["Entity", entityDetails] };
const NONE = { story: "", event: "", entity: "" };
let shown = "";

/** Open what the address names, or close the drawer if it names nothing. Call it whenever the address changes. */
export function showDetails() {
  const given = state();
  const kind = Object.keys(DETAILS).find((name) => given[name]);
  const next = kind ? `${kind} ${given[kind]}` : "";
  if (next === shown) return;
  shown = next;
  if (kind) open(kind, given[kind]);
  else closeDrawer();
}

async function open(kind, id) {
  const [noun, details] = DETAILS[kind];
  const drawer = openDrawer({ title: noun, body: skeleton(), wide: true, onClose: () => { shown = ""; go(NONE); } });
  drawer.element.classList.add("details");
  try {
    const { title, children } = await details(id);
    drawer.show(title, children);
    drawer.element.scrollTop = 0;
  } catch (error) {
    if (!error.problem) throw error;
    if (error.status !== 404) return drawer.show(noun, errorNotice(error, () => open(kind, id)));
    drawer.show(`${noun} not found`, el("div", {}, el("p", {}, `This server has no ${noun.toLowerCase()} `, el("code", {}, id), "."),
      el("p", { class: "dim" }, "It may be older than the data kept here, or belong to another recording."), el("p", {}, el("a", { href: changed(NONE) }, "Show the page without it"))));
  }
}
