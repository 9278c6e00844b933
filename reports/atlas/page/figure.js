// Figures: SVG in a frame with its own download, standing alone with all colours written into it.

import { SVG, announce, byId, download, draw, make } from "./dom.js";
import { scrollArea } from "./scrolling.js";
import { niceTicks } from "./statistics.js";
import { fileName } from "./text.js";

const INLINED = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
  "image-rendering",
];

/** A figure with a caption and a button that downloads it. */
export function figureFrame(caption, svg, name, ...below) {
  const button = make(
    "button",
    {
      type: "button",
      class: "quiet small",
      "data-figure": name,
      "aria-label": `Download as SVG: ${caption}`,
      onclick: () => downloadSvg(svg, name),
    },
    "SVG ↓",
  );
  return make(
    "figure",
    { class: "figure" },
    make("figcaption", {}, make("span", {}, caption), button),
    scrollArea({ class: "drawing", "data-label": caption }, svg),
    ...below,
  );
}

/** An SVG of a size in its own units; it shrinks with its place but never grows beyond. */
export function canvas(width, height, label, attributes = {}) {
  const broad = width > 480 ? " broad" : "";
  return draw("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": label,
    ...attributes,
    class: (attributes.class ?? "") + broad,
  });
}

export function downloadSvg(svg, name) {
  download(fileName(name) + ".svg", "image/svg+xml", standaloneSvg(svg));
  announce(`Downloaded ${fileName(name)}.svg`);
}

/** The text of an SVG that needs no style sheet: what the page computed is written onto each element. */
function standaloneSvg(svg) {
  const staged = !svg.isConnected;
  if (staged) byId("stage").append(svg);
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")],
    copies = [copy, ...copy.querySelectorAll("*")];
  const gone = [];
  originals.forEach((original, place) => {
    const style = getComputedStyle(original),
      target = copies[place];
    if (style.display === "none" || style.visibility === "hidden") return gone.push(target);
    for (const property of INLINED) {
      const value = style.getPropertyValue(property);
      if (value && value !== "none" && value !== "auto" && value !== "normal") target.setAttribute(property, value);
      else if (value === "none" && (property === "fill" || property === "stroke"))
        target.setAttribute(property, "none");
    }
    for (const attribute of ["class", "tabindex", "role", "style"]) target.removeAttribute(attribute);
  });
  gone.forEach((target) => target.remove());
  const [x, y, width, height] = svg.getAttribute("viewBox").split(" ");
  const surface = getComputedStyle(document.documentElement).getPropertyValue("--surface").trim();
  copy.prepend(
    draw("title", {}, svg.getAttribute("aria-label") ?? ""),
    draw("rect", { x, y, width, height, fill: surface }),
  );
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  if (staged) svg.remove();
  return new XMLSerializer().serializeToString(copy);
}

const pen = { context: null };

/** How wide a text is in the monospaced letters of tokens, `size` pixels high. */
export function tokenWidth(text, size) {
  pen.context ??= document.createElement("canvas").getContext("2d");
  pen.context.font = `${size}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace`;
  return pen.context.measureText(text).width;
}

/** A linear scale from values to pixels. */
export function linear([low, high], [from, to]) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

/** The range with a little air, never empty. */
export function airy(range, share = 0.05) {
  const [low, high] = range ?? [0, 1],
    air = (high - low || Math.abs(high) || 1) * share;
  return [low - air, high + air];
}

/** A round number as it is. */
function tickText(tick) {
  return String(tick).replace("-", "−");
}

/** Horizontal axis at the bottom with ticks and a label. */
export function axisBelow(scale, range, y, [left, right], label, gridTop = null) {
  const ticks = niceTicks(...range, Math.max(2, Math.floor((right - left) / 80)));
  return draw(
    "g",
    { class: "axis" },
    draw("path", { d: `M${left} ${y}H${right}` }),
    ticks.map((tick) => [
      gridTop !== null && draw("path", { class: "rule", d: `M${scale(tick)} ${y}V${gridTop}` }),
      draw("path", { d: `M${scale(tick)} ${y}v4` }),
      draw("text", { x: scale(tick), y: y + 16, "text-anchor": "middle" }, tickText(tick)),
    ]),
    draw("text", { x: (left + right) / 2, y: y + 34, "text-anchor": "middle", class: "axis-label" }, label),
  );
}

/** Vertical axis at the left. */
export function axisLeft(scale, range, x, [top, bottom], label, gridRight = null) {
  const ticks = niceTicks(...range, Math.max(2, Math.floor((bottom - top) / 60)));
  const middle = (top + bottom) / 2;
  return draw(
    "g",
    { class: "axis" },
    draw("path", { d: `M${x} ${top}V${bottom}` }),
    ticks.map((tick) => [
      gridRight !== null && draw("path", { class: "rule", d: `M${x} ${scale(tick)}H${gridRight}` }),
      draw("path", { d: `M${x} ${scale(tick)}h-4` }),
      draw("text", { x: x - 7, y: scale(tick) + 4, "text-anchor": "end" }, tickText(tick)),
    ]),
    draw(
      "text",
      {
        x: x - 46,
        y: middle,
        transform: `rotate(-90 ${x - 46} ${middle})`,
        "text-anchor": "middle",
        class: "axis-label",
      },
      label,
    ),
  );
}
