// The grid and the layers as drawings that can be downloaded.

import { inkOn, rampColour } from "./colours.js";
import { SIGNIFICANT } from "./data.js";
import { draw } from "./dom.js";
import { airy, axisLeft, canvas, linear } from "./figure.js";
import { openHead } from "./selection.js";
import { selectedIndex } from "./state.js";
import { extent, mean } from "./statistics.js";
import { format, shortened } from "./text.js";

/** The same grid as a drawing that can be downloaded. */
export function gridDrawing({ model, label, values, scale, marked, numbers }) {
  const size = numbers ? 44 : 26,
    left = 44,
    top = 58,
    width = Math.max(left + model.heads * size + 16, 320),
    height = top + model.layers * size + 66;
  const svg = canvas(width, height, `${label}, ${model.name}`);
  svg.append(
    draw("text", { x: left, y: 20, class: "figure-title" }, label),
    draw("text", { x: left, y: 36, class: "axis-label" }, model.name),
  );
  for (let head = 0; head < model.heads; head++) {
    svg.append(
      draw(
        "text",
        { x: left + (head + 0.5) * size, y: top - 7, "text-anchor": "middle", class: "small-text" },
        String(head + 1),
      ),
    );
  }
  values.forEach((value, index) => {
    const { layer, head } = model.place(index),
      x = left + (head - 1) * size,
      y = top + (layer - 1) * size;
    if (head === 1)
      svg.append(
        draw("text", { x: left - 8, y: y + size / 2 + 4, "text-anchor": "end", class: "small-text" }, String(layer)),
      );
    const colour = value === null ? null : scale.colour(value);
    svg.append(
      draw("rect", {
        x,
        y,
        width: size - 1,
        height: size - 1,
        fill: colour ?? "none",
        stroke: colour ? "none" : "#8a94a0",
      }),
    );
    if (value === null)
      svg.append(draw("path", { d: `M${x} ${y + size - 1}L${x + size - 1} ${y}`, stroke: "#8a94a0" }));
    if (value !== null && numbers) {
      svg.append(
        draw(
          "text",
          { x: x + size / 2, y: y + size / 2 + 4, "text-anchor": "middle", "font-size": 10, fill: inkOn(colour) },
          format(value),
        ),
      );
    }
    if (value !== null && marked?.(index))
      svg.append(draw("circle", { cx: x + size - 6, cy: y + 5, r: 2.5, fill: inkOn(colour) }));
  });
  const bar = Math.min(240, width - left - 40),
    below = top + model.layers * size + 14;
  for (let step = 0; step < 60; step++) {
    svg.append(
      draw("rect", {
        x: left + (step * bar) / 60,
        y: below,
        width: bar / 60 + 0.5,
        height: 10,
        fill: rampColour(scale.ramp, step / 59),
      }),
    );
  }
  scale.ticks.forEach((tick, place) => {
    const x = left + (scale.ticks.length > 1 ? (place * bar) / (scale.ticks.length - 1) : bar / 2);
    svg.append(draw("text", { x, y: below + 26, "text-anchor": "middle", class: "small-text" }, format(tick)));
  });
  if (values.some((value, index) => value !== null && marked?.(index))) {
    svg.append(draw("text", { x: left, y: below + 44, class: "small-text" }, `dot: p < ${SIGNIFICANT}`));
  }
  return svg;
}

/** The heads of each layer above each other, and the mean of each layer. */
export function layerDrawing(model, quantity) {
  const width = 760,
    left = 66,
    right = 746,
    top = 12,
    bottom = 220,
    range = airy(extent(quantity.value)),
    step = (right - left) / model.layers;
  const y = linear(range, [bottom, top]),
    x = (layer) => left + (layer - 0.5) * step,
    selected = selectedIndex(model);
  const svg = canvas(width, 262, `${quantity.label} of the heads of each layer`, { class: "layers" });
  svg.append(
    axisLeft(y, range, left, [top, bottom], shortened(quantity.label, 28), right),
    draw(
      "g",
      { class: "axis" },
      draw("path", { d: `M${left} ${bottom}H${right}` }),
      Array.from({ length: model.layers }, (_, layer) =>
        draw("text", { x: x(layer + 1), y: bottom + 16, "text-anchor": "middle" }, String(layer + 1)),
      ),
      draw("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle", class: "axis-label" }, "layer"),
    ),
  );
  const means = [];
  for (let layer = 1; layer <= model.layers; layer++)
    means.push(mean(quantity.value.slice((layer - 1) * model.heads, layer * model.heads)));
  const joined = means
    .map((value, place) => (value === null ? null : `${x(place + 1).toFixed(1)} ${y(value).toFixed(1)}`))
    .filter(Boolean);
  if (joined.length) svg.append(draw("path", { class: "layer-mean", d: `M${joined.join("L")}` }));
  quantity.value.forEach((value, index) => {
    if (value === null) return;
    const { layer, head } = model.place(index),
      beside = model.heads > 1 ? ((head - 1) / (model.heads - 1) - 0.5) * Math.min(step * 0.6, 40) : 0;
    svg.append(
      draw(
        "circle",
        {
          class: `layer-point${index === selected ? " chosen" : ""}`,
          cx: (x(layer) + beside).toFixed(1),
          cy: y(value).toFixed(1),
          r: index === selected ? 6 : 3.5,
          "data-point": index,
        },
        draw("title", {}, `layer ${layer} head ${head}: ${format(value)}`),
      ),
    );
  });
  svg.addEventListener("click", (event) => event.target.dataset.point && openHead(Number(event.target.dataset.point)));
  return svg;
}
