// The defense page: the board and the other views of the feeds, chosen by the address.
import { onAddress, pageLink, state } from "../address.js";
import { byId, el, fill } from "../dom.js";
import { errorNotice } from "../format.js";
import { openBoard } from "./board.js";
import { showBrief } from "./brief.js";
import { showEntities } from "./entities.js";
import { showDetails } from "./open_details.js";
import { showStories } from "./stories.js";

const VIEWS = { map: ["Map"], stories: ["Stories", showStories], entities: ["Entities", showEntities], brief: ["Brief", showBrief] };
const OF_OTHER_VIEWS = { entity: "", type: "", story: "", event: "", at: "", map: "", list: "" };
const [board, place] = [byId("board"), byId("view")];
let showBoard = null;
let shown = "";

onAddress(show);

async function show() {
  const given = state();
  const view = VIEWS[given.view] ? given.view : "map";
  fill(byId("views"), Object.entries(VIEWS).map(([name, [text]]) =>
    pageLink(el("a", { "aria-current": name === view ? "page" : null }, text), { ...OF_OTHER_VIEWS, view: name === "map" ? "" : name })));
  board.hidden = view !== "map";
  place.hidden = view === "map";
  showDetails();
  if (view === "map") {
    shown = "";
    showBoard ??= openBoard(board);
    return showBoard();
  }
  const { story: _story, event: _event, entity: _entity, ...rest } = given;
  const key = JSON.stringify(rest);
  if (key === shown) return undefined;
  shown = key;
  try {
    return await VIEWS[view][1](byId("board-view"));
  } catch (error) {
    if (!error.problem) throw error;
    return fill(byId("board-view"), errorNotice(error, () => { shown = ""; show(); }));
  }
}
