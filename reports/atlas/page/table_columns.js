// The columns of the table of heads that are no quantities, and how wide columns are.

import { words } from "./text.js";

export const FIXED_COLUMNS = [
  {
    key: "head",
    label: "head",
    width: 4.8,
    text: (model, index) => model.headName(index),
    order: (model, index) => index,
  },
  {
    key: "roles",
    label: "roles",
    width: 8.4,
    text: (model, index) => model.roles(index).map(words).join(", "),
    csv: (model, index) => model.roles(index).join(" "),
    has: (model) => model.raw.roles && Object.keys(model.raw.roles).length,
  },
  {
    key: "class",
    label: "class",
    width: 7.8,
    text: (model, index) => words(model.patternClass(index) ?? ""),
    csv: (model, index) => model.patternClass(index),
    has: (model) => model.raw.pattern && Object.keys(model.raw.pattern).length,
  },
  {
    key: "relation",
    label: "best relation",
    width: 6,
    text: (model, index) => bestRelation(model, index)?.relation ?? "",
    csv: (model, index) => bestRelation(model, index)?.relation,
    has: (model) => model.raw.relations && Object.keys(model.raw.relations).length,
  },
];

export const REM = 15; // pixels, as style.css says
export const SCROLL_BAR = 18;

/** The width of a column of numbers, in rem: the longest word of its label, and a sign for the order. */
export function numberWidth(label) {
  return Math.max(4.4, 1.8 + 0.56 * Math.max(...label.split(/[\s-]+/).map((word) => word.length)));
}

function bestRelation(model, index) {
  return model.relations(index).reduce((best, row) => (!best || row.accuracy > best.accuracy ? row : best), null);
}
