// The conversation of this tab: going to the board and back, or reloading, does not lose it. It goes with the tab.

const KEPT = "tollhouse-talk";
const MOST = 20;

/** The turns of this key's conversation, oldest first. */
export function keptTalk(owner) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) || "{}");
    return kept.owner === owner ? kept.turns : [];
  } catch {
    return [];
  }
}

export function keepTalk(owner, turns) {
  sessionStorage.setItem(KEPT, JSON.stringify({ owner, turns: turns.slice(-MOST) }));
}

export function forgetTalk() {
  sessionStorage.removeItem(KEPT);
}
