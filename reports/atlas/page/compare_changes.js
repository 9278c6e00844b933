// What differs most between two models: of all quantities, and of the heads in one.

import { make } from "./dom.js";
import { headButton } from "./selection.js";
import { change } from "./state.js";
import { differences, mean, spearman } from "./statistics.js";
import { plainTable, sortableTable } from "./tables.js";
import { format } from "./text.js";

/** All quantities that both models have, those in which other heads lead first. */
export function changesOf(a, b) {
  const rows = a.quantities
    .filter((quantity) => b.byName.has(quantity.name))
    .map((first) => {
      const second = b.byName.get(first.name),
        difference = differences(first.value, second.value);
      const enough = new Set(b.counted(second)),
        places = a.counted(first).filter((index) => enough.has(index));
      const largest = places.reduce(
        (best, index) => (best === null || Math.abs(difference[index]) > Math.abs(difference[best]) ? index : best),
        null,
      );
      return {
        quantity: first,
        a: mean(first.value),
        b: mean(second.value),
        change: mean(difference),
        spearman: spearman(...[first, second].map(({ value }) => places.map((index) => value[index]))),
        largest,
        by: largest === null ? null : difference[largest],
      };
    });
  return [
    make("h2", {}, "Where the models differ"),
    make(
      "p",
      { class: "muted lead" },
      "Every quantity that both have. A low rank correlation means that other heads lead; pick a quantity to see it above." +
        (a.leastN > 1 ? ` Heads with n below ${a.leastN} have no part in correlations and largest changes.` : ""),
    ),
    sortableTable(
      "Quantities of both models",
      [
        {
          key: "quantity",
          label: "quantity",
          value: (row) => row.quantity.label,
          text: (row) =>
            make(
              "button",
              { type: "button", class: "link", onclick: () => change({ quantity: row.quantity.name }) },
              row.quantity.label,
            ),
        },
        { key: "a", label: "mean of A", class: "number", value: (row) => row.a },
        { key: "b", label: "mean of B", class: "number", value: (row) => row.b },
        { key: "change", label: "mean difference", class: "number", value: (row) => row.change },
        {
          key: "by",
          label: "largest change",
          class: "number",
          value: (row) => row.by,
          text: (row) => (row.largest === null ? "–" : `${format(row.by)} (${a.headName(row.largest)})`),
        },
        { key: "spearman", label: "rank correlation", class: "number", value: (row) => row.spearman },
      ],
      rows,
      { sort: "spearman" },
    ),
  ];
}

/** The heads that differ most between the models. */
export function changedHeads(model, first, second, difference) {
  const enough = new Set(model.counted(second));
  const order = model.counted(first).filter((index) => enough.has(index));
  order.sort((left, right) => Math.abs(difference[right]) - Math.abs(difference[left]));
  return plainTable(
    "Heads that differ most",
    [
      { label: "head", text: (index) => headButton(model, index) },
      { label: "A", class: "number", text: (index) => format(first.value[index]) },
      { label: "B", class: "number", text: (index) => format(second.value[index]) },
      { label: "B − A", class: "number", text: (index) => format(difference[index]) },
    ],
    order.slice(0, 8),
  );
}
