// Attention as a heat map, every row and column with its whole name.

import { rampColour, themed } from "./colours.js";
import { draw, hideTip, make, showTip } from "./dom.js";
import { canvas, tokenWidth } from "./figure.js";

const LETTERS_BESIDE = 11;
const SIDE = 340; // pixels that a map of few tokens takes
const SMALLEST = 13; // a cell, so that no name covers the next
const SLANTED = 18; // a cell from which on the names above lean, which reads better

/** {svg, mark(query)}: `focus(query)` is called for the row that is pointed at, null for none. */
export function heatDrawing({ units, kept, rows }, label, { focus }) {
  const size = Math.max(SMALLEST, Math.min(24, Math.floor(SIDE / kept.length))),
    widest = Math.max(...kept.map((place) => tokenWidth(units[place].label, LETTERS_BESIDE))),
    slanted = size >= SLANTED,
    side = kept.length * size;
  const left = 12 + widest,
    top = 14 + (slanted ? 0.87 * widest + 6 : widest),
    width = left + side + (slanted ? 8 + widest / 2 : 4);
  const svg = canvas(width, top + side + 4, label, { class: kept.length > 24 ? "heat natural" : "heat" });
  svg.append(
    ...cellPaths({ kept, rows, left, top, size }),
    ...kept.flatMap((place, at) => names(units[place].label, { at: (at + 0.5) * size, left, top, slanted })),
    draw("rect", { class: "heat-frame", x: left, y: top, width: side, height: side }),
  );
  const marker = draw("rect", {
    class: "row-marker",
    x: left,
    y: top,
    width: side,
    height: size,
    visibility: "hidden",
  });
  svg.append(marker);
  listenToCells(svg, { units, kept, rows, left, top, size, width, focus });
  return {
    svg,
    mark(query) {
      const place = kept.indexOf(query);
      marker.setAttribute("visibility", place < 0 ? "hidden" : "visible");
      if (place >= 0) marker.setAttribute("y", top + place * size);
    },
  };
}

/** One path per colour: fast for long sentences. */
function cellPaths({ kept, rows, left, top, size }) {
  const ramp = themed("attention"),
    cells = new Map();
  kept.forEach((query, row) =>
    kept.forEach((key, column) => {
      const colour = rampColour(ramp, Math.round(Math.sqrt(rows[query][key]) * 48) / 48),
        cell = `M${left + column * size} ${top + row * size}h${size}v${size}h-${size}z`;
      cells.set(colour, (cells.get(colour) ?? "") + cell);
    }),
  );
  return [...cells].map(([colour, path]) => draw("path", { d: path, fill: colour, "shape-rendering": "crispEdges" }));
}

/** A name at the left of its row and above its column. */
function names(text, { at, left, top, slanted }) {
  const x = left + at + 4,
    y = top - 6;
  return [
    draw("text", { x: left - 5, y: top + at + 4, "text-anchor": "end", class: "heat-text" }, text),
    draw("text", { x, y, transform: `rotate(${slanted ? -60 : -90} ${x} ${y})`, class: "heat-text" }, text),
  ];
}

function listenToCells(svg, { units, kept, rows, left, top, size, width, focus }) {
  const named = (unit) => (unit.word ? `${unit.label} (${unit.word})` : unit.label);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(),
      unit = width / box.width,
      query = kept[Math.floor(((event.clientY - box.top) * unit - top) / size)],
      key = kept[Math.floor(((event.clientX - box.left) * unit - left) / size)];
    if (query === undefined || key === undefined) return hideTip();
    showTip(event, [`${named(units[query])} → ${named(units[key])}`, rows[query][key].toFixed(3)]);
    focus(query);
  });
  svg.addEventListener("pointerleave", () => {
    hideTip();
    focus(null);
  });
}

/** What the colours of a heat map mean. */
export function attentionLegend() {
  const ramp = themed("attention"),
    stops = Array.from({ length: 11 }, (_, step) => rampColour(ramp, step / 10)).join(", ");
  return make(
    "div",
    { class: "legend" },
    make(
      "div",
      { class: "legend-scale" },
      make("div", { class: "legend-bar", style: { background: `linear-gradient(to right, ${stops})` } }),
      make(
        "div",
        { class: "legend-ticks" },
        ["0", "0.25", "1"].map((tick) => make("span", {}, tick)),
      ),
    ),
    make("span", { class: "legend-mark" }, "attention weight, coloured by its root"),
  );
}
