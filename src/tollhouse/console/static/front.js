// The front page: examples with this server's address and a copy button.
import { copyButton } from "./dom.js";

for (const box of document.querySelectorAll(".snippet")) {
  const code = box.querySelector("code");
  code.textContent = code.textContent.replaceAll("{origin}", location.origin);
  box.append(copyButton(() => code.textContent));
}
