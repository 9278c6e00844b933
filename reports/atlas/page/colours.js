// Colour scales that colour-blind readers can tell apart: viridis, purple–orange around zero, one hue for attention.

import { SIGNIFICANT } from "./data.js";
import { make } from "./dom.js";
import { extent, ranked } from "./statistics.js";
import { format } from "./text.js";
import { currentTheme } from "./theme.js";

const RAMPS = {
  sequential: [
    "#440154",
    "#482878",
    "#3e4989",
    "#31688e",
    "#26828e",
    "#1f9e89",
    "#35b779",
    "#6ece58",
    "#b5de2b",
    "#fde725",
  ],
  divergingLight: [
    "#7f3b08",
    "#b35806",
    "#e08214",
    "#fdb863",
    "#fee0b6",
    "#f7f7f7",
    "#d8daeb",
    "#b2abd2",
    "#8073ac",
    "#542788",
    "#2d004b",
  ],
  divergingDark: [
    "#ffd9a0",
    "#fdb863",
    "#e08214",
    "#b35806",
    "#6b3a10",
    "#262b33",
    "#3d3566",
    "#6557a6",
    "#8f82cf",
    "#b9b0e6",
    "#e2defa",
  ],
  attentionLight: ["#ffffff", "#d3e4f7", "#93c0ea", "#4a94d6", "#1667b1", "#083c7a", "#04234d"],
  attentionDark: ["#161c24", "#173352", "#1c5489", "#2b7cc4", "#5ba6ea", "#9fd0ff", "#e6f3ff"],
};
const STEPS = 256;
const tables = new Map();

const CATEGORY_COLOURS = ["#0072b2", "#d55e00", "#a3508a", "#009e73", "#7b8794", "#b8860b", "#3f9fd8"]; // after Okabe and Ito

/** Colour of a share between 0 and 1 along a ramp. */
export function rampColour(name, share) {
  if (!tables.has(name)) tables.set(name, rampTable(RAMPS[name]));
  const step = Math.round(Math.min(1, Math.max(0, share)) * (STEPS - 1));
  return tables.get(name)[step];
}

function rampTable(stops) {
  const points = stops.map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: STEPS }, (_, step) => {
    const position = (step / (STEPS - 1)) * (points.length - 1);
    const before = Math.min(Math.floor(position), points.length - 2),
      part = position - before;
    const mixed = points[before].map((channel, at) => Math.round(channel + (points[before + 1][at] - channel) * part));
    return "#" + mixed.map((channel) => channel.toString(16).padStart(2, "0")).join("");
  });
}

export function themed(name) {
  return name + (currentTheme() === "dark" ? "Dark" : "Light");
}

/** A scale for values: diverging around zero where any is negative; by rank where asked. */
export function colourScale(values, options = {}) {
  const range = options.range ?? extent(values) ?? [0, 1];
  if (options.byRank) return rankScale(values);
  const diverging = options.diverging ?? range[0] < 0;
  const largest = Math.max(Math.abs(range[0]), Math.abs(range[1])) || 1;
  const [low, high] = diverging ? [-largest, largest] : range;
  const ramp = diverging ? themed("diverging") : "sequential";
  const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  return {
    ramp,
    diverging,
    low,
    high,
    colour: (value) => rampColour(ramp, share(value)),
    ticks: diverging ? [low, 0, high] : high > low ? [low, (low + high) / 2, high] : [low],
  };
}

function rankScale(values) {
  const { rank, count } = ranked(values);
  const place = new Map(values.map((value, index) => [value, rank[index]]));
  const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)];
  return {
    ramp: "sequential",
    byRank: true,
    diverging: false,
    low: sorted[0],
    high: sorted.at(-1),
    colour: (value) => rampColour("sequential", count > 1 ? (count - place.get(value)) / (count - 1) : 0.5),
    ticks: sorted.length ? [sorted[0], middle, sorted.at(-1)] : [],
  };
}

/** Black or white, whichever reads better on a colour. */
export function inkOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const channel = parseInt(colour.slice(at, at + 2), 16) / 255;
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** A colour for each name of a list, the same wherever the list is the same. */
export function categoryColours(names) {
  return new Map(names.map((name, place) => [name, CATEGORY_COLOURS[place % CATEGORY_COLOURS.length]]));
}

// The part of viridis that has a contrast of at least 3 with the ground of each theme.
const LAYER_SHARES = { light: [0, 0.56], dark: [0.45, 1] };

/** The colour of a layer, the first to the last along a ramp. */
export function layerColour(layer, layers) {
  const [from, to] = LAYER_SHARES[currentTheme()] ?? LAYER_SHARES.light;
  return rampColour("sequential", from + (to - from) * (layers > 1 ? (layer - 1) / (layers - 1) : 0.5));
}

/** The bar of a scale with its values; `marks` adds what dots and hatching mean. */
export function legend(scale, marks = {}) {
  const stops = Array.from({ length: 11 }, (_, step) => rampColour(scale.ramp, step / 10)).join(", ");
  const ticks = scale.ticks.map((tick) => make("span", {}, format(tick)));
  return make(
    "div",
    { class: "legend" },
    make(
      "div",
      { class: "legend-scale" },
      make("div", { class: "legend-bar", style: { background: `linear-gradient(to right, ${stops})` } }),
      make("div", { class: "legend-ticks" }, ticks),
    ),
    scale.byRank && make("span", { class: "legend-mark" }, "coloured by rank"),
    marks.significant &&
      make("span", { class: "legend-mark" }, make("i", { class: "swatch dot" }), `p < ${SIGNIFICANT}`),
    marks.missing && make("span", { class: "legend-mark" }, make("i", { class: "swatch hatch" }), "not defined"),
  );
}
