// Two models side by side, and two quantities of one model against each other.

import { Chooser, quantityGroups } from "./chooser.js";
import { colourScale, legend } from "./colours.js";
import { changedHeads, changesOf } from "./compare_changes.js";
import { cellWords, isSignificant, sections } from "./data.js";
import { make } from "./dom.js";
import { downloadSvg, figureFrame } from "./figure.js";
import { gridDrawing } from "./grid_drawings.js";
import { HeadGrid } from "./head_grid.js";
import { correlationWords, scatterDrawing } from "./scatter.js";
import { scrollArea } from "./scrolling.js";
import { openHead } from "./selection.js";
import { change, currentModel, currentQuantity, models, selectedIndex, state } from "./state.js";
import { differences, extent } from "./statistics.js";
import { fileName, format } from "./text.js";

export const compareView = {
  build(root) {
    this.chooser = new Chooser({
      label: "Quantity",
      placeholder: "Filter quantities",
      id: "compare",
      choose: (key) => change({ quantity: key }),
    });
    this.title = make("h2", { id: "compare-title" });
    this.note = make("p", { class: "muted lead" });
    this.panes = [0, 1, 2].map((place) => {
      const grid = new HeadGrid({ label: "Heads", open: (index) => openHead(index, undefined, place === 1 ? 1 : 0) });
      const title = make("h3"),
        legendPlace = make("div");
      const button = make(
        "button",
        {
          type: "button",
          class: "quiet small",
          "data-figure": `compare-${place}`,
          onclick: () =>
            downloadSvg(gridDrawing(grid.shown), fileName("compare", grid.shown.model.name, grid.shown.label)),
        },
        "SVG ↓",
      );
      const element = make(
        "div",
        { class: "pane" },
        make("div", { class: "pane-head" }, title, button),
        scrollArea({ class: "scroll-x" }, grid.element),
        legendPlace,
      );
      return { grid, title, legendPlace, element, button };
    });
    this.grids = make(
      "div",
      { class: "panes" },
      this.panes.map((pane) => pane.element),
    );
    this.scatter = make("div", { class: "beside" });
    this.models = make("div", { class: "card" }, this.title, this.note, this.grids, this.scatter);
    this.changes = make("div", { class: "card" });
    this.against = make("select", { id: "against", onchange: () => change({ against: this.against.value }) });
    this.pairTitle = make("h2", {}, "Two quantities of one model");
    this.pairScatter = make("div");
    this.pair = make(
      "div",
      { class: "card" },
      this.pairTitle,
      make("div", { class: "controls" }, make("label", { class: "field" }, "Against ", this.against)),
      this.pairScatter,
    );
    root.append(
      make(
        "div",
        { class: "columns" },
        this.chooser.element,
        make("div", { class: "content" }, this.models, this.pair, this.changes),
      ),
    );
  },

  render() {
    const model = currentModel(),
      quantity = currentQuantity();
    this.chooser.setGroups(quantityGroups(model));
    if (!quantity) return;
    this.chooser.setChosen([quantity.name], quantity.label);
    this.title.textContent = `Two models: ${quantity.label}`;
    if (models.length === 2) this.renderModels(quantity.name);
    else {
      this.title.textContent = "Two models";
      this.note.textContent = "This atlas holds one model. An atlas of two shows both here, with their difference.";
    }
    this.grids.hidden = this.scatter.hidden = this.changes.hidden = models.length !== 2;
    this.renderPair(model, quantity);
  },

  renderModels(name) {
    const [a, b] = models,
      first = a.byName.get(name),
      second = b.byName.get(name),
      same = sameShape();
    const both = [first, second].filter(Boolean),
      range = extent(both.flatMap((quantity) => extent(quantity.value) ?? []));
    const shared = colourScale([], { range: range ?? [0, 1] });
    this.note.textContent = !same
      ? `The models differ in shape (${a.layers} × ${a.heads} and ${b.layers} × ${b.heads}), so heads cannot be paired.`
      : both.length < 2
        ? "Only one of the two models has this quantity."
        : "A and B share one scale. The difference is B minus A.";
    this.pane(0, a, first, "A", shared);
    this.pane(1, b, second, "B", shared);
    const paired = same && both.length === 2;
    this.panes[2].element.hidden = !paired;
    this.scatter.replaceChildren();
    if (paired) {
      const difference = differences(first.value, second.value),
        largest = Math.max(...(extent(difference) ?? [0]).map(Math.abs)) || 1;
      this.fill(
        2,
        a,
        {
          label: `${first.label}, ${b.shortName} minus ${a.shortName}`,
          values: difference,
          scale: colourScale(difference, { diverging: true, range: [-largest, largest] }),
          words: (index) => [
            `difference ${format(difference[index])}`,
            `A ${format(first.value[index])}`,
            `B ${format(second.value[index])}`,
          ],
        },
        "Difference, B − A",
      );
      const svg = scatterDrawing({
        model: a,
        x: first.value,
        y: second.value,
        labels: [`A: ${a.shortName}`, `B: ${b.shortName}`],
        title: `${first.label} of both models`,
        identity: true,
      });
      this.scatter.append(
        figureFrame(
          `${first.label}: every head of A against the same head of B`,
          svg,
          fileName("scatter_models", name),
        ),
        make("div", {}, correlationWords(first.value, second.value), changedHeads(a, first, second, difference)),
      );
    }
    setTimeout(() => this.renderChanges()); // below what is seen first
  },

  pane(place, model, quantity, letter, scale) {
    this.panes[place].element.hidden = !quantity;
    if (!quantity) return;
    this.fill(
      place,
      model,
      {
        label: quantity.label,
        values: quantity.value,
        scale,
        marked: (index) => isSignificant(quantity, index),
        words: (index) => cellWords(model, quantity, index),
      },
      `${letter}: ${model.shortName}`,
    );
  },

  fill(place, model, shown, title) {
    const { grid, legendPlace, button } = this.panes[place];
    this.panes[place].title.textContent = title;
    button.setAttribute("aria-label", `Download as SVG: ${title}`);
    grid.update({ model, selected: place === 2 || currentModel() === model ? selectedIndex(model) : null, ...shown });
    const places = shown.values.map((_, index) => index);
    legendPlace.replaceChildren(
      legend(shown.scale, {
        significant: shown.marked && places.some(shown.marked),
        missing: shown.values.includes(null),
      }),
    );
  },

  /** All quantities that both models have; computed once. */
  renderChanges() {
    if (this.changesDone || !sameShape()) return;
    this.changesDone = true;
    this.changes.replaceChildren(...changesOf(...models));
  },

  renderPair(model, quantity) {
    const others = model.quantities.filter((other) => other !== quantity),
      other = model.byName.get(state.against) ?? others[0];
    this.pair.hidden = !other;
    if (!other) return;
    if (this.pairModel !== model) {
      this.pairModel = model;
      this.against.replaceChildren(
        ...sections(model).map((group) =>
          make(
            "optgroup",
            { label: group.label },
            group.items.map((item) => make("option", { value: item.name }, item.label)),
          ),
        ),
      );
    }
    this.against.value = other.name;
    const svg = scatterDrawing({
      model,
      x: quantity.value,
      y: other.value,
      labels: [quantity.label, other.label],
      title: `${quantity.label} and ${other.label}`,
    });
    this.pairScatter.replaceChildren(
      figureFrame(
        `${model.name}: every head by both quantities`,
        svg,
        fileName("scatter", model.name, quantity.name, other.name),
      ),
      correlationWords(quantity.value, other.value),
    );
  },
};

function sameShape() {
  return models.length === 2 && models[0].layers === models[1].layers && models[0].heads === models[1].heads;
}
