"use strict";
// The theme chosen on the other pages, or the system's: Swagger UI has a dark dress that is put on by a class.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let kept = "auto";
  try {
    kept = localStorage.getItem("theme") || "auto";
  } catch {
    // Without storage nothing was chosen.
  }
  const dress = () => document.documentElement.classList.toggle("dark-mode", kept === "dark" || (kept === "auto" && dark.matches));
  document.documentElement.dataset.theme = kept;
  dark.addEventListener("change", dress);
  dress();
})();
