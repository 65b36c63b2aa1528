// The navigation of every page shows whether a key is in use.
import { key } from "./server.js";

const link = document.querySelector('.tools a[href="/keys"]');
const without = link?.textContent;

function show() {
  const isUsed = Boolean(key.get());
  link.textContent = isUsed ? "Your key" : without;
  link.classList.toggle("in-use", isUsed);
  if (isUsed) link.title = `${key.masked()} is in use`;
  else link.removeAttribute("title");
}

if (link) {
  key.onChange(show);
  show();
}
