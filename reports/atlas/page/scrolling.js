// What is wider than its place scrolls sideways, says so, and can be scrolled with the keyboard.

import { make } from "./dom.js";

const watched = new ResizeObserver((entries) => {
  for (const area of new Set(entries.map(({ target }) => target.closest(".scroll-area")))) if (area) tell(area);
});

/** An area that scrolls, with a hint above it where there is something to scroll to; `attributes` are those of the area. */
export function scrollArea(attributes, ...children) {
  const area = make(
    "div",
    { ...attributes, class: `scroll-area ${attributes.class}`, onscroll: (event) => tell(event.currentTarget) },
    ...children,
  );
  const frame = make(
    "div",
    { class: "scroll-frame" },
    make("p", { class: "scroll-hint", "aria-hidden": "true", hidden: true }, "Scroll sideways for more →"),
    area,
  );
  for (const part of [area, ...area.children]) watched.observe(part);
  return frame;
}

/** Where there is more: to the right (start), to the left (end) or both (middle). */
function tell(area) {
  const frame = area.parentElement,
    more = area.scrollWidth - area.clientWidth;
  frame.firstChild.hidden = more < 2;
  if (more < 2) delete frame.dataset.more;
  else frame.dataset.more = area.scrollLeft < 2 ? "right" : area.scrollLeft > more - 2 ? "left" : "both";
  if (area.hasAttribute("data-label")) reachable(area, more >= 2);
}

/** A figure is a stop of the Tab key only where it scrolls. */
function reachable(area, scrolls) {
  for (const [name, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": area.dataset.label }))
    if (scrolls) area.setAttribute(name, value);
    else area.removeAttribute(name);
}
