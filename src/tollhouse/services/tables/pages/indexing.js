// Progress while a table is being indexed: a bar with the rows that are ready and the time that remains.
import { el, fill } from "../dom.js";
import { lasted, number } from "../format.js";
import { call } from "../server.js";

const POLL_MS = 1000;
const POLLS_PER_RELOAD = 3;
let timer = 0;

/** Show the progress in `place` until the table is complete; `reload()` shows the rows that are ready by now. */
export function followIndexing(place, service, indexing, reload) {
  clearTimeout(timer);
  place.hidden = !indexing;
  if (!indexing) return fill(place);
  showProgress(place, indexing);
  let polls = 0;
  const poll = async () => {
    polls += 1;
    try {
      const { indexing: now } = (await call(service, "/health")).members;
      if (!now || polls % POLLS_PER_RELOAD === 0) return reload();
      showProgress(place, now);
    } catch (error) {
      if (!error.problem) throw error;
    }
    timer = setTimeout(poll, POLL_MS);
  };
  timer = setTimeout(poll, POLL_MS);
}

function showProgress(place, { done, total, percent, seconds_left: seconds }) {
  const text = total === null ? "Reading the table" : `Indexing ${percent}%`;
  const parts = [total !== null && `${number(done)} of ${number(total)} rows are ready`, seconds !== null && `about ${seconds < 90 ? `${Math.max(1, seconds)} s` : lasted(seconds)} left`].filter(Boolean);
  const bar = place.querySelector("progress") || el("progress", { "aria-label": "Rows indexed" });
  bar.max = total || 1;
  if (total === null) bar.removeAttribute("value");
  else bar.value = done;
  fill(place, el("strong", {}, text), bar, el("span", { class: "dim" }, parts.join(" · ")));
}
