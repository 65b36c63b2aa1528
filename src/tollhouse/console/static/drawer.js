// A drawer at the side of the page, for the details of one thing; on a phone it has the whole width.
import { el, fill } from "./dom.js";

const openDrawers = [];
let count = 0;

/**
 * Open a drawer with `title` and `body` (an element, a text, or a list of them) and return
 * `{ element, heading, show(title, body), close() }`. `show` replaces both, after loading for example. Escape, the
 * button and a click beside the drawer close it; the focus then returns to where it was. `onClose` runs once when the
 * reader closes it or `close()` is called, and not when another takes its place. Only with `over`, the drawers that are
 * open stay open beneath it. `wide` is for maps, tables and programs.
 */
export function openDrawer({ title, body = [], wide = false, over = false, onClose = () => {} }) {
  const opener = (over ? null : openDrawers[0]?.opener) || document.activeElement;
  if (!over) closeDrawer();
  count += 1;
  const heading = el("h2", { id: `drawer-title-${count}`, tabindex: "-1" }, title);
  const content = el("div", { class: "drawer-body" });
  const element = el("dialog", { class: wide ? "drawer wide" : "drawer", "aria-labelledby": heading.id },
    el("header", {}, heading, el("button", { type: "button", class: "quiet", onclick: () => drawer.close() }, "Close")), content);
  const drawer = { element, heading, show, opener, onClose, close: () => dismiss(drawer, true) };
  // A drag that ends beside the drawer, such as selecting text, must not close it.
  let isPressedBeside = false;
  element.addEventListener("pointerdown", (event) => { isPressedBeside = event.target === element && event.offsetX < 0; });
  element.addEventListener("click", (event) => { if (isPressedBeside && event.target === element) drawer.close(); });
  element.addEventListener("close", drawer.close);
  show(title, body);
  document.body.append(element);
  openDrawers.push(drawer);
  element.showModal();
  heading.focus();
  return drawer;

  function show(text, children) {
    heading.textContent = text;
    fill(content, ...[children].flat());
  }
}

/** Close every open drawer without running its `onClose`: the address already says that none is open. */
export function closeDrawer() {
  for (const drawer of [...openDrawers].reverse()) dismiss(drawer, false);
}

function dismiss(drawer, isByReader) {
  const place = openDrawers.indexOf(drawer);
  if (place < 0) return;
  openDrawers.splice(place, 1);
  drawer.element.close();
  drawer.element.remove();
  if (!isByReader) return;
  if (drawer.opener?.isConnected) drawer.opener.focus({ preventScroll: true });
  drawer.onClose();
}
