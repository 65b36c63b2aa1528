"use strict";
// Swagger UI leaves the boxes of parameters without a name, and its examples out of the keyboard's reach.
function mend() {
  document.getElementById("servers")?.setAttribute("aria-label", "Server");
  for (const row of document.querySelectorAll("tr[data-param-name]")) {
    for (const box of row.querySelectorAll("input, select, textarea")) box.setAttribute("aria-label", row.dataset.paramName);
  }
  for (const example of document.querySelectorAll("pre.microlight")) example.tabIndex = 0;
}

new MutationObserver(mend).observe(document.getElementById("reference"), { childList: true, subtree: true });
SwaggerUIBundle({
  url: "api/openapi.json",
  dom_id: "#reference",
  // Links to single operations would stand inside the buttons that open them.
  deepLinking: false,
  validatorUrl: null,
  persistAuthorization: false,
});
