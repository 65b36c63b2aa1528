// The conversation of this tab. It survives navigation and reload, and is lost when the tab closes.

const STORAGE_KEY = "tollhouse-talk";
const MOST = 20;

/** The turns of this key's conversation, oldest first. */
export function storedConversation(owner) {
  try {
    const stored = JSON.parse(sessionStorage.getItem(STORAGE_KEY) || "{}");
    return stored.owner === owner ? stored.turns : [];
  } catch {
    return [];
  }
}

export function storeConversation(owner, turns) {
  sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ owner, turns: turns.slice(-MOST) }));
}

export function forgetConversation() {
  sessionStorage.removeItem(STORAGE_KEY);
}
