// The figures of a head's panel: its best relations, its pattern classes, its place among all heads.

import { categoryColours } from "./colours.js";
import { draw } from "./dom.js";
import { axisBelow, canvas, linear } from "./figure.js";
import { extent } from "./statistics.js";
import { format, formatInterval, shortened, words } from "./text.js";

/** Accuracies as dots with whiskers. */
export function relationDrawing(rows, head) {
  const left = 128,
    width = 340,
    line = 24,
    bottom = 14 + rows.length * line,
    percent = rows.some((row) => row.accuracy > 1);
  const range = [0, percent ? 100 : 1],
    x = linear(range, [left, width - 16]);
  const svg = canvas(width, bottom + 40, `Best relations of head ${head}`);
  svg.append(axisBelow(x, range, bottom, [left, width - 16], percent ? "accuracy (%)" : "accuracy", 6));
  rows.forEach((row, place) => {
    const y = 18 + place * line,
      known = row.low !== null && row.low !== undefined && row.high !== null && row.high !== undefined;
    const interval = known ? `, ${formatInterval(row.low, row.high)}` : "";
    const title = `${row.relation} ${words(row.direction ?? "")}: ${format(row.accuracy)}${interval}`;
    svg.append(
      draw(
        "g",
        { class: "series" },
        draw("title", {}, title),
        draw(
          "text",
          { x: left - 8, y: y + 4, "text-anchor": "end", class: "label-text" },
          shortened(`${row.best ? "★ " : ""}${row.relation} ${arrow(row.direction)}`, 20),
        ),
        known &&
          draw("path", {
            class: "whisker",
            d: `M${x(row.low)} ${y}H${x(row.high)}M${x(row.low)} ${y - 4}v8M${x(row.high)} ${y - 4}v8`,
          }),
        draw("circle", { class: "dot-mark", cx: x(row.accuracy), cy: y, r: 4.5 }),
      ),
    );
  });
  return svg;
}

/** Which way a relation is followed, in a sign: `dependent_to_head` is d→h. */
function arrow(direction) {
  const [, from, to] = /^(\w)\w*_to_(\w)/.exec(direction ?? "") ?? [];
  return to ? `${from}→${to}` : words(direction ?? "");
}

function percent(share) {
  return `${(100 * (share ?? 0)).toFixed(1)} %`;
}

/** Shares as one stacked bar with a legend of numbers. */
export function patternDrawing(shares, names, head) {
  const colours = categoryColours(names),
    width = 340,
    total = names.reduce((sum, name) => sum + (shares[name] ?? 0), 0) || 1;
  const svg = canvas(
    width,
    34 + 20 * Math.ceil(names.length / 2),
    `Pattern classes of head ${head}: ${names.map((name) => `${words(name)} ${percent(shares[name])}`).join(", ")}`,
  );
  let x = 0;
  names.forEach((name, place) => {
    const wide = ((shares[name] ?? 0) / total) * width;
    if (wide > 0)
      svg.append(
        draw(
          "rect",
          { class: "stack", x, y: 2, width: Math.max(wide - 1, 0.5), height: 18, fill: colours.get(name) },
          draw("title", {}, `${words(name)} ${percent(shares[name])}`),
        ),
      );
    x += wide;
    const legendX = (place % 2) * (width / 2),
      y = 38 + 20 * Math.floor(place / 2);
    svg.append(
      draw("rect", { x: legendX, y: y - 9, width: 10, height: 10, fill: colours.get(name) }),
      draw("text", { x: legendX + 15, y, class: "label-text" }, `${words(name)} ${percent(shares[name])}`),
    );
  });
  return svg;
}

/** One strip per quantity: a tick for every head, this head's interval and place on top. */
export function standingDrawing(model, quantities, index) {
  const width = 340,
    line = 48;
  const told = quantities.map((quantity) => `${quantity.label} ${format(quantity.value[index])}`).join(", ");
  const svg = canvas(width, quantities.length * line + 4, `Head ${model.headName(index)} among all heads: ${told}`);
  quantities.forEach((quantity, place) => {
    const y = place * line + 30,
      [low, high] = extent([...quantity.value, quantity.low?.[index] ?? null, quantity.high?.[index] ?? null]);
    const x = linear([low, high], [6, width - 6]),
      value = quantity.value[index];
    svg.append(
      draw("text", { x: 0, y: y - 16, class: "label-text" }, shortened(quantity.label, 40)),
      draw("text", { x: width, y: y - 16, "text-anchor": "end", class: "label-text strong" }, format(value)),
      draw("path", {
        class: "strip",
        d: quantity.value
          .filter((other) => other !== null)
          .map((other) => `M${x(other).toFixed(1)} ${y - 7}v14`)
          .join(""),
      }),
      low < 0 && high > 0 && draw("path", { class: "zero", d: `M${x(0)} ${y - 10}v20` }),
    );
    if (quantity.low?.[index] != null && quantity.high?.[index] != null)
      svg.append(draw("path", { class: "whisker", d: `M${x(quantity.low[index])} ${y}H${x(quantity.high[index])}` }));
    svg.append(draw("circle", { class: "dot-mark", cx: x(value), cy: y, r: 5 }));
  });
  return svg;
}
