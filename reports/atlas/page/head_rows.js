// The rows of a head's panel.

import { make } from "./dom.js";
import { change } from "./state.js";
import { format, formatInterval, formatP } from "./text.js";

/** A second, quieter line in a cell. */
export function under(text) {
  return text && make("span", { class: "under" }, text);
}

export function sectionRow(label) {
  return make("tr", { class: "section-row" }, make("th", { colspan: "3", scope: "colgroup" }, label));
}

export function quantityRow(model, quantity, index) {
  const rank = model.rank(quantity, index),
    count = model.defined(quantity);
  const interval = formatInterval(quantity.low?.[index], quantity.high?.[index]);
  const share = rank === null ? 0 : count > 1 ? (count - rank) / (count - 1) : 1;
  return make(
    "tr",
    { "data-quantity": quantity.name },
    make(
      "th",
      { scope: "row" },
      make(
        "button",
        {
          type: "button",
          class: "link",
          title: quantity.description || null,
          onclick: () => change({ quantity: quantity.name }),
        },
        quantity.label,
      ),
    ),
    make(
      "td",
      { class: "number" },
      format(quantity.value[index]),
      under(interval),
      under(quantity.p && `p ${formatP(quantity.p[index])}`),
    ),
    make(
      "td",
      { class: "number rank" },
      rank === null ? "–" : `${rank} of ${count}`,
      make(
        "span",
        { class: "meter", "aria-hidden": "true" },
        make("i", { style: { width: `${Math.round(100 * share)}%` } }),
      ),
    ),
  );
}
