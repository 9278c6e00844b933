// What the reader's screen is like.

// Whether the screen is wide enough for side bar and panel beside the content.
export const wideScreen = matchMedia("(min-width: 62rem)");
export const dockedScreen = matchMedia("(min-width: 75rem)");
export const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
