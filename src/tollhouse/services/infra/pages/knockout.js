// The knock-out: what stops, step by step, when a company or a country is lost.
import { go, pageLink, state } from "../address.js";
import { announce, el, fill } from "../dom.js";
import { counted, number } from "../format.js";
import { catalogue, companies, companyLink, isSupply, only, worded } from "./catalogue.js";

const STEP_MS = 1100;
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
let timer;

/** Stop the running animation, if any. */
export function stopPlaying() {
  clearInterval(timer);
  timer = undefined;
}

/** The companies that are lost with a company, or with every company of a country. */
export const lostWith = ({ company, country }) => (country ? catalogue.companies.filter((one) => one.country === country).map((one) => one.id) : [company]);

/**
 * Show `chokepoint` in the graph and with controls in `player`. It plays once, from the loss to the last step, unless the
 * address names a step or the reader prefers no motion. Returns the panel.
 */
export function knockOut({ player, graph, chokepoint, caveat, lost }) {
  stopPlaying();
  const last = Math.max(0, ...chokepoint.fails.map((one) => one.round));
  const others = catalogue.companies.length - lost.length;
  const counts = Array.from({ length: last + 1 }, (_, step) => chokepoint.fails.filter((one) => one.round <= step).length);
  const range = el("input", { type: "range", min: 0, max: last, step: 1, "aria-label": "Distance from the loss, in steps", oninput: () => { stopPlaying(); set(Number(range.value), true); } });
  const count = el("strong", { class: "count" });
  const where = el("span", { class: "dim small" });
  const play = el("button", { type: "button", class: "quiet", onclick: () => (timer ? pause() : start()) });
  const rounds = Array.from({ length: last }, (_, at) => at + 1).map((round) => roundList(round, chokepoint.fails.filter((one) => one.round === round)));
  fill(player, play, range, el("p", {}, count, " ", where));
  player.hidden = false;
  const asked = state().step;
  if (asked !== undefined && /^\d+$/.test(asked)) set(Math.min(last, Number(asked)));
  else if (isStill() || !last) set(last);
  else start();
  announce(`Without ${chokepoint.name} ${stops(chokepoint.fails_count)}`);
  return panel();

  function start() {
    stopPlaying();
    if (isStill()) return set(last, true);
    set(0);
    timer = setInterval(() => {
      const next = Number(range.value) + 1;
      if (next >= last) stopPlaying();
      set(next);
    }, STEP_MS);
    set(0);
  }

  function pause() {
    stopPlaying();
    set(Number(range.value), true);
  }

  /** Show everything that has stopped up to this step. */
  function set(step, isKept = false) {
    range.value = step;
    const stopped = chokepoint.fails.filter((one) => one.round <= step);
    const marks = new Map([...stopped.map((one) => [one.id, one.round === step ? "now" : "stopped"]), ...lost.map((id) => [id, "lost"])]);
    const gone = new Set(marks.keys());
    graph.show({ on: gone, marks, tone: "lost", edges: new Set(catalogue.edges.filter((edge) => isSupply(edge) && gone.has(edge.source) && gone.has(edge.target)).map((edge) => edge.id)) });
    count.textContent = `${number(stopped.length)} of ${number(others)} stopped`;
    where.textContent = last ? (step ? `step ${step} of ${last}, ${number(counts[step] - counts[step - 1])} at this distance` : "before the first step") : "nothing depends on it alone";
    play.textContent = timer ? "❚❚ Pause" : "▶ Play";
    rounds.forEach((one, at) => one.classList.toggle("later", at + 1 > step));
    if (isKept) go({ step: step === last ? "" : String(step) }, { replace: true });
  }

  function panel() {
    return el("section", { class: "panel", "aria-labelledby": "fails", id: "fails-panel" },
      el("h2", { id: "fails" }, `Without ${chokepoint.name}`),
      el("p", { class: "big" }, number(chokepoint.fails_count), el("span", { class: "small dim" }, `of ${number(others)} other companies stop, in ${counted(last, "step")}`)),
      el("p", { class: "small" }, el("strong", {}, "Structural dependence in these data, not a forecast. "), "A company counts as stopped when one input that the catalogue records for it has lost every supplier that the catalogue records. Step 1 depends on the lost directly, step 2 on step 1, and so on."),
      rounds,
      lost.length > 1 && el("details", {}, el("summary", { class: "small" }, `${counted(lost.length, "company", "companies")} taken out`), el("p", { class: "small" }, lost.flatMap((id, at) => [at ? ", " : "", companyLink(id)]))),
      el("p", { class: "small dim" }, caveat),
      lost.length === 1 && companies.has(lost[0]) && el("p", { class: "actions" }, pageLink(el("a", { class: "button quiet" }, `About ${chokepoint.name}`), only({ company: lost[0] }))));
  }
}

function roundList(round, ones) {
  return el("details", { open: true, class: "round" }, el("summary", {}, `Step ${round}: ${stops(ones.length)}`),
    el("ul", { class: "small" }, ones.map((one) => el("li", {}, companyLink(one.id), el("span", { class: "dim" }, ` has no ${worded(one.slot)}`)))));
}

export const stops = (count) => counted(count, "company stops", "companies stop");
