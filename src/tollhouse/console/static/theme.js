"use strict";
// Runs before the page is painted, so that nobody sees the other theme flash by.
(() => {
  const ORDER = ["auto", "light", "dark"];
  const root = document.documentElement;
  const kept = () => {
    try {
      return localStorage.getItem("theme") || "auto";
    } catch {
      return "auto";
    }
  };
  const show = (theme) => {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${theme}`;
  };
  show(kept());
  document.addEventListener("DOMContentLoaded", () => {
    show(kept());
    document.getElementById("theme").addEventListener("click", () => {
      const next = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
      try {
        localStorage.setItem("theme", next);
      } catch {
        // Without storage the choice lasts for this page.
      }
      show(next);
    });
  });
})();
