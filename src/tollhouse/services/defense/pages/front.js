// The board as the section of the front page that leads.
import { onAddress } from "../address.js";
import { byId } from "../dom.js";
import { openBoard } from "./board.js";
import { showDetails } from "./open_details.js";

const show = openBoard(byId("board"));
onAddress(() => {
  show();
  showDetails();
});
