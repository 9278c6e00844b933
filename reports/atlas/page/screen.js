// What the reader's screen is like, and how much of it the content has.

// Whether the screen is wide enough for the panel beside the content.
export const dockedScreen = matchMedia("(min-width: 75rem)");
export const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

/** The pixels that the content has in width, of which the panel of a head takes some; listeners hear of changes. */
export const room = { width: 0, listeners: [] };

/** Whether a figure that is wide elsewhere must be drawn narrow. */
export function isNarrow() {
  return room.width < 500;
}

/** Follow the width of the content. */
export function watchRoom(content) {
  const measure = () => {
    const style = getComputedStyle(content),
      width = content.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    if (width === room.width) return;
    room.width = width;
    for (const listener of room.listeners) listener();
  };
  measure();
  new ResizeObserver(measure).observe(content);
}
