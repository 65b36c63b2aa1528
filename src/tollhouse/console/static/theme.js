"use strict";
// Runs before the page is painted, so that the other theme does not flash and a page with a key has its size. On a phone, the navigation is collapsed.
(() => {
  const ORDER = ["auto", "light", "dark"];
  const SIGNS = { auto: "◐", light: "☼", dark: "☾" };
  const root = document.documentElement;
  const storedTheme = () => {
    try {
      return localStorage.getItem("theme") || "auto";
    } catch {
      return "auto";
    }
  };
  const show = (theme) => {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (!button) return;
    button.textContent = SIGNS[theme];
    button.title = `Theme: ${theme}`;
    button.setAttribute("aria-label", button.title);
  };
  const fold = () => {
    const menu = document.getElementById("menu");
    const open = (isOpen) => menu.setAttribute("aria-expanded", String(isOpen));
    menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") !== "true"));
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || menu.getAttribute("aria-expanded") !== "true") return;
      open(false);
      menu.focus();
    });
  };
  const isKeyed = () => {
    try {
      return Boolean(sessionStorage.getItem("tollhouse-key") || localStorage.getItem("tollhouse-key"));
    } catch {
      return false;
    }
  };
  root.dataset.scripted = "yes";
  if (isKeyed()) root.dataset.keyed = "yes";
  show(storedTheme());
  document.addEventListener("DOMContentLoaded", () => {
    fold();
    show(storedTheme());
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
