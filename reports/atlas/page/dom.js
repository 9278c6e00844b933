// Small tools: elements, announcements, downloads.

export const SVG = "http://www.w3.org/2000/svg";
export const byId = (id) => document.getElementById(id);

/** An element: `make("button", {class: "quiet", onclick: f, "aria-label": "…"}, "text", child)`. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, rule] of Object.entries(value)) element.style.setProperty(key, rule);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let announcement = 0;

/** Tell readers who do not see the page what changed; the last of several quick changes counts. */
export function announce(text) {
  clearTimeout(announcement);
  announcement = setTimeout(() => (byId("live").textContent = text), 150);
}

/** Hand a text to the reader as a file. */
export function download(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Show a few lines beside the pointer, or beside an element that has the focus. */
export function showTip(event, lines) {
  const tip = byId("tip");
  tip.replaceChildren(...lines.map((line, place) => make(place ? "span" : "strong", {}, line)));
  tip.hidden = false;
  const box = event.target.getBoundingClientRect();
  const x = event.clientX ?? box.right,
    y = event.clientY ?? box.bottom;
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 18}px`;
}

export function hideTip() {
  byId("tip").hidden = true;
}
