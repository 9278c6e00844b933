"use strict";
// Light or dark: as the reader chose before, else as the system says. Runs first, so that nothing flashes.

const THEME_KEY = "headscope-theme";

function rememberedTheme() {
  try {
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null; // a browser may forbid storage to local files
  }
}

function rememberTheme(theme) {
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // then the choice lasts as long as the page
  }
}

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

function currentTheme() {
  return document.documentElement.dataset.theme;
}

setTheme(rememberedTheme() ?? (systemIsDark.matches ? "dark" : "light"));
