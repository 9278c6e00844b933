// Heads as points of two values.

import { rampColour } from "./colours.js";
import { draw, hideTip, make, showTip } from "./dom.js";
import { airy, axisBelow, axisLeft, canvas, linear } from "./figure.js";
import { openHead } from "./selection.js";
import { selectedIndex } from "./state.js";
import { extent, pairedPlaces, pearson, spearman } from "./statistics.js";
import { format, shortened } from "./text.js";

/** A point for every head, coloured by layer; a click opens it. */
export function scatterDrawing({ model, x: xs, y: ys, labels, title, identity = false }) {
  const width = 620,
    height = 430,
    left = 66,
    right = 600,
    top = 14,
    bottom = 350;
  const places = pairedPlaces(xs, ys),
    svg = canvas(width, height, title, { class: "scatter" });
  let rangeX = airy(extent(places.map((place) => xs[place]))),
    rangeY = airy(extent(places.map((place) => ys[place])));
  if (identity) rangeX = rangeY = [Math.min(rangeX[0], rangeY[0]), Math.max(rangeX[1], rangeY[1])];
  const x = linear(rangeX, [left, right]),
    y = linear(rangeY, [bottom, top]);
  svg.append(
    axisBelow(x, rangeX, bottom, [left, right], shortened(labels[0], 70), top),
    axisLeft(y, rangeY, left, [top, bottom], shortened(labels[1], 46), right),
  );
  if (identity)
    svg.append(
      draw("path", { class: "identity", d: `M${x(rangeX[0])} ${y(rangeX[0])}L${x(rangeX[1])} ${y(rangeX[1])}` }),
    );
  const colour = (layer) => rampColour("sequential", model.layers > 1 ? (layer - 1) / (model.layers - 1) : 0.5),
    selected = selectedIndex(model);
  const points = places.map((place) => ({ place, x: x(xs[place]), y: y(ys[place]) }));
  svg.append(
    draw(
      "g",
      {},
      points.map((point) =>
        draw("circle", {
          class: "point",
          "data-point": point.place,
          cx: point.x.toFixed(1),
          cy: point.y.toFixed(1),
          r: 4.5,
          fill: colour(model.place(point.place).layer),
        }),
      ),
    ),
  );
  const ring = draw("circle", { class: "ring", r: 8, visibility: "hidden" });
  svg.append(ring);
  const mark = (point) => {
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (point) for (const key of ["x", "y"]) ring.setAttribute(`c${key}`, point[key]);
  };
  const chosen = points.find((point) => point.place === selected);
  mark(chosen);
  for (let layer = 1; layer <= model.layers; layer++) {
    const step = Math.min(22, 420 / model.layers),
      at = left + 44 + (layer - 1) * step;
    svg.append(draw("rect", { x: at, y: height - 22, width: step - 1, height: 10, fill: colour(layer) }));
    if (layer === 1 || layer === model.layers || (model.layers <= 12 && step >= 16))
      svg.append(
        draw("text", { x: at + step / 2, y: height - 1, "text-anchor": "middle", class: "small-text" }, String(layer)),
      );
  }
  svg.append(draw("text", { x: left, y: height - 13, class: "small-text" }, "layer"));
  const nearest = (event) => {
    const box = svg.getBoundingClientRect(),
      unit = width / box.width,
      px = (event.clientX - box.left) * unit,
      py = (event.clientY - box.top) * unit;
    let best = null,
      distance = 18 ** 2;
    for (const point of points) {
      const square = (point.x - px) ** 2 + (point.y - py) ** 2;
      if (square < distance) [best, distance] = [point, square];
    }
    return best;
  };
  svg.addEventListener("pointermove", (event) => {
    const point = nearest(event);
    mark(point ?? chosen);
    if (!point) return hideTip();
    showTip(event, [
      `Layer ${model.place(point.place).layer}, head ${model.place(point.place).head}`,
      `${labels[0]} ${format(xs[point.place])}`,
      `${labels[1]} ${format(ys[point.place])}`,
      ...model.roles(point.place).slice(0, 4),
    ]);
  });
  svg.addEventListener("pointerleave", () => {
    hideTip();
    mark(chosen);
  });
  svg.addEventListener("click", (event) => nearest(event) && openHead(nearest(event).place));
  return svg;
}

/** How strongly two columns go together, in a sentence. */
export function correlationWords(a, b) {
  const count = pairedPlaces(a, b).length;
  return make(
    "p",
    { class: "muted", "data-part": "correlation" },
    `Over ${count} heads: rank correlation (Spearman) ${format(spearman(a, b))}, ` +
      `linear (Pearson) ${format(pearson(a, b))}.`,
  );
}
