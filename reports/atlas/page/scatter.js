// Heads as points of two values.

import { layerColour } from "./colours.js";
import { draw, hideTip, make, showTip } from "./dom.js";
import { airy, axisBelow, axisLeft, canvas, linear } from "./figure.js";
import { openHead } from "./selection.js";
import { selectedIndex } from "./state.js";
import { extent, pairedPlaces, pearson, spearman } from "./statistics.js";
import { format, shortened } from "./text.js";

const WIDTH = 620;
const HEIGHT = 430;
const WITH_AXES = { left: 66, right: 600, top: 14, bottom: 350 };
const WITHOUT_AXES = { left: 6, right: 614, top: 6, bottom: 394 };
const NEAR = 18; // how far from a point the pointer still means it

/**
 * A point for every head, coloured by layer; a click or Enter opens it, arrow keys walk from head to head.
 * `identity` draws the line on which both values are equal; `plane` leaves the axes out and keeps distances true.
 */
export function scatterDrawing({ model, x: xs, y: ys, labels, title, identity, plane, bright, words }) {
  const places = pairedPlaces(xs, ys),
    svg = canvas(WIDTH, HEIGHT, title, { class: plane ? "scatter in-plane" : "scatter", role: "group" }),
    frame = plane ? WITHOUT_AXES : WITH_AXES,
    { left, right, top, bottom } = frame,
    { x, y, range } = scales(places, xs, ys, { frame, identity, plane });
  if (plane) svg.append(draw("rect", { class: "plane", x: left, y: top, width: right - left, height: bottom - top }));
  else
    svg.append(
      axisBelow(x, range.x, bottom, [left, right], shortened(labels[0], 70), top),
      axisLeft(y, range.y, left, [top, bottom], shortened(labels[1], 46), right),
    );
  if (identity)
    svg.append(
      draw("path", { class: "identity", d: `M${x(range.x[0])} ${y(range.x[0])}L${x(range.x[1])} ${y(range.x[1])}` }),
    );
  const told = (place) => words?.(place) ?? [`${labels[0]} ${format(xs[place])}`, `${labels[1]} ${format(ys[place])}`],
    points = places.map((place) => ({
      place,
      x: x(xs[place]),
      y: y(ys[place]),
      lines: pointLines(model, place, told),
    })),
    chosen = points.find((point) => point.place === selectedIndex(model));
  const ring = draw("circle", { class: "ring", r: 8, visibility: "hidden" });
  svg.append(pointsGroup(model, points, { title, bright, entry: chosen ?? points[0] }), ring, layerLegend(model, left));
  listen(svg, points, (point) => {
    ring.setAttribute("visibility", (point ?? chosen) ? "visible" : "hidden");
    if (point ?? chosen) for (const key of ["x", "y"]) ring.setAttribute(`c${key}`, (point ?? chosen)[key]);
  });
  return svg;
}

/** From values to pixels, and the ranges of values; in a plane one unit is as long both ways. */
function scales(places, xs, ys, { frame: { left, right, top, bottom }, identity, plane }) {
  const range = {
    x: airy(extent(places.map((place) => xs[place]))),
    y: airy(extent(places.map((place) => ys[place]))),
  };
  if (identity) range.x = range.y = [Math.min(range.x[0], range.y[0]), Math.max(range.x[1], range.y[1])];
  if (plane) {
    const unit = Math.max((range.x[1] - range.x[0]) / (right - left), (range.y[1] - range.y[0]) / (bottom - top));
    range.x = around(range.x, unit * (right - left));
    range.y = around(range.y, unit * (bottom - top));
  }
  return { x: linear(range.x, [left, right]), y: linear(range.y, [bottom, top]), range };
}

function around([low, high], span) {
  return [(low + high - span) / 2, (low + high + span) / 2];
}

function pointLines(model, place, told) {
  const { layer, head } = model.place(place);
  return [`Layer ${layer}, head ${head}`, ...told(place), ...model.roles(place).slice(0, 4)];
}

function pointsGroup(model, points, { title, bright, entry }) {
  return draw(
    "g",
    { role: "group", "aria-label": `${title}: heads` },
    points.map((point) =>
      draw("circle", {
        class: `point${bright && !bright(point.place) ? " faded" : ""}`,
        role: "button",
        tabindex: point === entry ? "0" : "-1",
        "aria-label": point.lines.join(", "),
        "data-point": point.place,
        cx: point.x.toFixed(1),
        cy: point.y.toFixed(1),
        r: 4.5,
        fill: layerColour(model.place(point.place).layer, model.layers),
      }),
    ),
  );
}

function layerLegend(model, left) {
  const step = Math.min(22, 420 / model.layers),
    legend = draw("g", {}, draw("text", { x: left, y: HEIGHT - 13, class: "small-text" }, "layer"));
  for (let layer = 1; layer <= model.layers; layer++) {
    const at = left + 44 + (layer - 1) * step,
      named = layer === 1 || layer === model.layers || (model.layers <= 12 && step >= 16),
      fill = layerColour(layer, model.layers);
    legend.append(draw("rect", { "data-layer": layer, x: at, y: HEIGHT - 22, width: step - 1, height: 10, fill }));
    if (named)
      legend.append(
        draw("text", { x: at + step / 2, y: HEIGHT - 1, "text-anchor": "middle", class: "small-text" }, String(layer)),
      );
  }
  return legend;
}

/** Pointer, focus and keys; `mark` rings a point, or again the one that is chosen. */
function listen(svg, points, mark) {
  const byPlace = new Map(points.map((point) => [String(point.place), point])),
    focusedPoint = (event) => byPlace.get(event.target.dataset?.point);
  const nearest = (event) => {
    const unit = WIDTH / svg.getBoundingClientRect().width,
      px = (event.clientX - svg.getBoundingClientRect().left) * unit,
      py = (event.clientY - svg.getBoundingClientRect().top) * unit,
      square = (point) => (point.x - px) ** 2 + (point.y - py) ** 2,
      best = points.reduce((one, other) => (!one || square(other) < square(one) ? other : one), null);
    return best && square(best) < NEAR ** 2 ? best : null;
  };
  const show = (point, event) => {
    mark(point);
    if (point) showTip(event, point.lines);
    else hideTip();
  };
  mark(null);
  svg.addEventListener("pointermove", (event) => show(nearest(event), event));
  svg.addEventListener("pointerleave", (event) => show(null, event));
  svg.addEventListener(
    "focusin",
    (event) => event.target.matches(":focus-visible") && show(focusedPoint(event), event),
  );
  svg.addEventListener("focusout", (event) => show(null, event));
  svg.addEventListener("click", (event) => {
    const point = nearest(event);
    if (point) openHead(point.place, svg.querySelector(`[data-point="${point.place}"]`));
  });
  svg.addEventListener("keydown", (event) => walkPoints(event, [...svg.querySelectorAll("[data-point]")]));
}

/** Arrow keys go to the next and the previous head, Home and End to the first and the last, Enter opens. */
function walkPoints(event, circles) {
  const at = circles.indexOf(event.target);
  const next = {
    ArrowRight: at + 1,
    ArrowDown: at + 1,
    ArrowLeft: at - 1,
    ArrowUp: at - 1,
    Home: 0,
    End: circles.length - 1,
  }[event.key];
  if (at < 0) return;
  if (event.key === "Enter" || event.key === " ") openHead(Number(event.target.dataset.point), event.target);
  else if (next === undefined) return;
  event.preventDefault();
  if (!circles[next]) return;
  circles[at].setAttribute("tabindex", "-1");
  circles[next].setAttribute("tabindex", "0");
  circles[next].focus();
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
