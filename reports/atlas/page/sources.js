// Published figures beside ours, further tables, and where everything comes from.

import { filled, make } from "./dom.js";
import { atlas, currentModel } from "./state.js";
import { downloadAll } from "./table.js";
import { anyTable, numberColumn, plainTable, plainText, sortableTable } from "./tables.js";
import { words } from "./text.js";

export const sourcesView = {
  build(root) {
    this.content = make("div", { class: "content wide" });
    root.append(make("h2", { id: "sources-title", class: "unseen" }, "Sources"), this.content);
  },

  render() {
    const model = currentModel();
    if (this.shown === model) return;
    this.shown = model;
    this.content.replaceChildren(
      this.published(model),
      this.sources(model),
      this.leftOut(model),
      this.tables(model),
      this.origin(model),
    );
  },

  published(model) {
    const rows = model.raw.published ?? [];
    const card = make(
      "div",
      { class: "card", "data-part": "published" },
      make("h2", {}, "Published figures beside ours"),
      make(
        "p",
        { class: "muted lead" },
        "Published figures are for other models and data, unless the source says so: " +
          "their size should agree, not their digits.",
      ),
    );
    if (!rows.length)
      return filled(card, {}, [
        make("p", { class: "notice-line" }, "None of the experiments of this run has a published figure."),
      ]);
    return filled(card, {}, [
      sortableTable(
        `Published figures, ${model.name}`,
        [
          {
            key: "experiment",
            label: "experiment",
            value: (row) => row.experiment,
            text: (row) => words(row.experiment ?? ""),
          },
          { key: "metric", label: "metric", value: (row) => row.metric, text: (row) => words(row.metric ?? "") },
          numberColumn("ours"),
          numberColumn("published"),
          { key: "source", label: "source", value: (row) => row.source ?? "" },
        ],
        rows,
      ),
    ]);
  },

  sources(model) {
    const rows = model.raw.sources ?? [];
    return make(
      "div",
      { class: "card", "data-part": "sources" },
      make("h2", {}, "Experiments and data"),
      rows.length
        ? sortableTable(
            `What ${model.name} was measured with`,
            [
              {
                key: "experiment",
                label: "experiment",
                value: (row) => row.experiment,
                text: (row) => words(row.experiment ?? ""),
              },
              ...(rows.some((row) => row.part) ? [{ key: "part", label: "run", value: (row) => row.part ?? "" }] : []),
              { key: "data", label: "data", value: (row) => [row.data ?? []].flat().join(", ") },
              numberColumn("examples"),
              numberColumn("skipped"),
              ...(rows.some(leftOutWords) ? [{ key: "left_out", label: "not counted", value: leftOutWords }] : []),
              numberColumn("seconds"),
              {
                key: "folder",
                label: "folder",
                value: (row) => row.folder ?? "",
                text: (row) => make("code", {}, row.folder ?? ""),
              },
            ],
            rows,
          )
        : make("p", { class: "notice-line" }, "No source was recorded."),
    );
  },

  leftOut(model) {
    const rows = model.raw.left_out ?? [];
    return make(
      "div",
      { class: "card", "data-part": "left-out" },
      make("h2", {}, "What was left out, and why"),
      rows.length
        ? plainTable(
            "Experiments that this model or this data did not allow",
            [
              { label: "experiment", text: (row) => words(row.experiment ?? "") },
              { label: "why", text: (row) => row.why ?? "" },
            ],
            rows,
          )
        : make("p", { class: "notice-line" }, "Nothing was left out."),
    );
  },

  tables(model) {
    const further = Object.entries(model.raw.tables ?? {}).filter(([, rows]) => Array.isArray(rows) && rows.length);
    if (!further.length) return null;
    return make(
      "div",
      { class: "card", "data-part": "tables" },
      make("h2", {}, "Further tables"),
      further.map(([name, rows]) =>
        make("details", {}, make("summary", {}, `${words(name)} (${rows.length})`), anyTable(words(name), rows)),
      ),
    );
  },

  origin(model) {
    const facts = [
      ["Made on", atlas.created],
      ["Command", atlas.command && make("code", {}, atlas.command)],
      ["Model", `${model.name}, ${model.layers} layers of ${model.heads} heads`],
      ...Object.entries(model.raw.encoder ?? {}).map(([name, value]) => [
        `Encoder: ${words(name)}`,
        value !== null && make("code", {}, typeof value === "object" ? JSON.stringify(value) : String(value)),
      ]),
      ["Quantities", String(model.quantities.length)],
      ["Sentences", String(model.sentences.length)],
    ];
    return make(
      "div",
      { class: "card", "data-part": "origin" },
      make("h2", {}, "This atlas"),
      make(
        "dl",
        { class: "origin" },
        facts.filter(([, value]) => value).map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
      ),
      make(
        "p",
        { class: "muted" },
        "Numbers in this page are rounded to six significant digits; atlas.json beside it has them in full.",
      ),
      make(
        "p",
        { class: "buttons" },
        make(
          "button",
          { type: "button", class: "quiet", id: "csv-sources", onclick: () => downloadAll(currentModel()) },
          "CSV of all data ↓",
        ),
      ),
    );
  },
};

/** What a run did not count, and how often. */
function leftOutWords(row) {
  return Object.entries(row.left_out ?? {})
    .filter(([, count]) => count)
    .map(([what, count]) => `${words(what)}: ${plainText(count)}`)
    .join("; ");
}
