// Light or dark: as the reader chose before, else as the system says.

const THEME_KEY = "headscope-theme";

export function rememberedTheme() {
  try {
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null; // a browser may forbid storage to local files
  }
}

export function rememberTheme(theme) {
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // then the choice lasts as long as the page
  }
}

export function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
}

export function currentTheme() {
  return document.documentElement.dataset.theme;
}
