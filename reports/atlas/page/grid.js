// The first view: one quantity of one model, layer by head.

import { Chooser, quantityGroups } from "./chooser.js";
import { colourScale, legend } from "./colours.js";
import { SIGNIFICANT, cellWords, isSignificant } from "./data.js";
import { make } from "./dom.js";
import { downloadSvg, figureFrame } from "./figure.js";
import { gridDrawing, layerDrawing } from "./grid_drawings.js";
import { HeadGrid } from "./head_grid.js";
import { scatterDrawing } from "./scatter.js";
import { scrollArea } from "./scrolling.js";
import { headButton, openHead } from "./selection.js";
import { change, currentModel, currentQuantity, selectedIndex, state } from "./state.js";
import { extent, mean } from "./statistics.js";
import { plainTable } from "./tables.js";
import { fileName, format, words } from "./text.js";

export const gridView = {
  build(root) {
    this.chooser = new Chooser({
      label: "Quantity",
      placeholder: "Filter quantities",
      id: "quantity",
      choose: (key) => change({ quantity: key }),
    });
    this.grid = new HeadGrid({ label: "Heads", open: (index) => openHead(index) });
    this.numbers = make("input", {
      type: "checkbox",
      id: "numbers",
      onchange: () => change({ numbers: this.numbers.checked }),
    });
    this.byRank = make("input", {
      type: "checkbox",
      id: "by-rank",
      onchange: () => change({ rank: this.byRank.checked }),
    });
    this.highlight = make("select", { id: "highlight", onchange: () => change({ highlight: this.highlight.value }) });
    this.title = make("h2", { id: "grid-title" });
    this.description = make("p", { class: "muted lead" });
    this.legend = make("div");
    this.profile = make("div", { class: "card" });
    this.plane = make("div", { class: "card", "data-part": "plane" });
    this.outstanding = make("div", { class: "card", "data-part": "facts" });
    this.summary = make("dl", { class: "facts" });
    this.download = make(
      "button",
      {
        type: "button",
        class: "quiet small",
        id: "grid-svg",
        onclick: () => downloadSvg(gridDrawing(this.grid.shown), this.fileName()),
      },
      "SVG ↓",
    );
    root.append(
      make(
        "div",
        { class: "columns" },
        this.chooser.element,
        make(
          "div",
          { class: "content" },
          make(
            "div",
            { class: "card" },
            make("div", { class: "card-head" }, make("div", {}, this.title, this.description), this.download),
            make(
              "div",
              { class: "controls" },
              make("label", { class: "check" }, this.numbers, "Values in cells"),
              make("label", { class: "check" }, this.byRank, "Colour by rank"),
              make("label", { class: "field" }, "Highlight ", this.highlight),
            ),
            scrollArea(
              { class: "scroll-x" },
              make(
                "div",
                { class: "axis-names", "aria-hidden": "true" },
                make("span", {}, "layer ↓"),
                make("span", {}, "head →"),
              ),
              this.grid.element,
            ),
            this.legend,
            this.summary,
          ),
          make(
            "p",
            { class: "muted hint" },
            "Pick a head to see all that is known of it. " +
              "With the keyboard: arrow keys walk the grid, Enter opens a head, Escape closes it.",
          ),
          this.profile,
          this.plane,
          this.outstanding,
        ),
      ),
    );
  },

  fileName() {
    return fileName("grid", this.grid.shown.model.name, state.quantity);
  },

  render() {
    const model = currentModel(),
      quantity = currentQuantity();
    this.chooser.setGroups(quantityGroups(model));
    if (!quantity) return;
    this.chooser.setChosen([quantity.name], quantity.label);
    this.numbers.checked = state.numbers;
    this.byRank.checked = state.rank;
    const scale = colourScale(quantity.value, { byRank: state.rank });
    const marked = (index) => isSignificant(quantity, index);
    const highlights = highlightChoices(model);
    this.highlight.replaceChildren(
      make("option", { value: "" }, "nothing"),
      ...highlights.map((choice) => make("option", { value: choice.key }, choice.label)),
    );
    this.highlight.closest("label").hidden = !highlights.length;
    const chosen = highlights.find((choice) => choice.key === state.highlight);
    this.highlight.value = chosen?.key ?? "";
    this.title.textContent = quantity.label;
    this.description.textContent = quantity.description;
    this.grid.update({
      model,
      label: quantity.label,
      values: quantity.value,
      scale,
      marked,
      numbers: state.numbers,
      selected: selectedIndex(model),
      words: (index) => cellWords(model, quantity, index),
      bright: chosen && ((index) => chosen.has(index)),
    });
    const places = quantity.value.map((_, index) => index);
    this.legend.replaceChildren(
      legend(scale, { significant: places.some(marked), missing: quantity.value.includes(null) }),
    );
    this.summary.replaceChildren(...this.facts(model, quantity, places.filter(marked).length));
    this.renderOutstanding(model);
    this.renderPlane(model, chosen);
    this.profile.replaceChildren(
      make("h2", {}, "Layer by layer"),
      figureFrame(
        `${quantity.label}: a dot for every head, the line joins the means`,
        layerDrawing(model, quantity),
        fileName("layers", model.name, quantity.name),
      ),
    );
  },

  /** Which heads attend alike: Clark et al., Figure 6. */
  renderPlane(model, highlight) {
    this.plane.hidden = !model.plane;
    if (!model.plane) return;
    const { x, y } = model.plane,
      caption = `Every head of ${model.name}: near ones attend alike, the directions mean nothing`;
    this.plane.replaceChildren(
      make("h2", {}, "Heads that attend alike"),
      make("p", { class: "muted lead" }, x.description),
      figureFrame(
        caption,
        scatterDrawing({
          model,
          x: x.value,
          y: y.value,
          title: `Heads of ${model.name} in the plane`,
          plane: true,
          bright: highlight && ((index) => highlight.has(index)),
          words: (index) => [model.patternClass(index)].filter(Boolean).map((name) => `mostly ${words(name)}`),
        }),
        fileName("plane", model.name),
      ),
    );
  },

  /** Heads that the run itself points out. */
  renderOutstanding(model) {
    const rows = model.raw.facts ?? [];
    this.outstanding.hidden = !rows.length;
    if (!rows.length || this.outstandingOf === model) return;
    this.outstandingOf = model;
    this.outstanding.replaceChildren(
      make("h2", {}, "Heads that stand out"),
      plainTable(
        `Found in ${model.name}`,
        [
          { label: "what", text: (row) => row.fact },
          {
            label: "head",
            text: (row) =>
              model.headIndex(row.head) === null
                ? String(row.head ?? "")
                : headButton(model, model.headIndex(row.head)),
          },
          { label: "quantity", text: (row) => row.quantity ?? "" },
          { label: "value", class: "number", text: (row) => format(row.value) },
        ],
        rows,
      ),
    );
  },

  facts(model, quantity, significant) {
    const places = model.counted(quantity),
      range = extent(places.map((index) => quantity.value[index]));
    if (!extent(quantity.value)) return [make("div", {}, make("dt", {}, "Defined for"), make("dd", {}, "no head"))];
    const extreme = (end) => {
      if (!range) return make("dd", {}, `no head has n ≥ ${model.leastN}`);
      const index = places.find((place) => quantity.value[place] === range[end]);
      return make("dd", {}, headButton(model, index), ` ${format(range[end])}`);
    };
    const n = quantity.n && extent(quantity.n);
    const facts = [
      ["Largest", extreme(1)],
      ["Smallest", extreme(0)],
      ["Mean", make("dd", {}, format(mean(quantity.value)))],
    ];
    if (n) facts.push(["n", make("dd", {}, n[0] === n[1] ? format(n[0]) : `${format(n[0])} to ${format(n[1])}`)]);
    if (quantity.p) facts.push([`p < ${SIGNIFICANT}`, make("dd", {}, `${significant} of ${model.defined(quantity)}`)]);
    return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), value));
  },
};

/** Roles and classes that a grid can bring out. */
function highlightChoices(model) {
  const roles = new Set(),
    classes = new Set();
  for (let index = 0; index < model.count; index++) {
    model.roles(index).forEach((role) => roles.add(role));
    if (model.patternClass(index)) classes.add(model.patternClass(index));
  }
  return [
    ...[...roles].sort().map((role) => ({
      key: `role:${role}`,
      label: `role ${words(role)}`,
      has: (index) => model.roles(index).includes(role),
    })),
    ...[...classes].sort().map((name) => ({
      key: `class:${name}`,
      label: `class ${words(name)}`,
      has: (index) => model.patternClass(index) === name,
    })),
  ];
}
