"use strict";
// Two models side by side, and two quantities of one model against each other.

const compareView = {
  build(root) {
    this.chooser = new Chooser({ label: "Quantity", placeholder: "Filter quantities", id: "compare", choose: (key) => change({ quantity: key }) });
    this.title = make("h2", { id: "compare-title" });
    this.note = make("p", { class: "muted lead" });
    this.panes = [0, 1, 2].map((place) => {
      const grid = new HeadGrid({ label: "Heads", open: (index) => openHead(index, undefined, place === 1 ? 1 : 0) });
      const title = make("h3"), legendPlace = make("div");
      const button = make("button", { type: "button", class: "quiet small", "data-figure": `compare-${place}`, onclick: () => downloadSvg(gridDrawing(grid.shown), fileName("compare", grid.shown.model.name, grid.shown.label)) }, "SVG ↓");
      const element = make("div", { class: "pane" }, make("div", { class: "pane-head" }, title, button), make("div", { class: "scroll-x" }, grid.element), legendPlace);
      return { grid, title, legendPlace, element, button };
    });
    this.grids = make("div", { class: "panes" }, this.panes.map((pane) => pane.element));
    this.scatter = make("div", { class: "beside" });
    this.models = make("div", { class: "card" }, this.title, this.note, this.grids, this.scatter);
    this.changes = make("div", { class: "card" });
    this.against = make("select", { id: "against", onchange: () => change({ against: this.against.value }) });
    this.pairTitle = make("h2", {}, "Two quantities of one model");
    this.pairScatter = make("div");
    this.pair = make("div", { class: "card" }, this.pairTitle, make("div", { class: "controls" }, make("label", { class: "field" }, "Against ", this.against)), this.pairScatter);
    root.append(make("div", { class: "columns" }, this.chooser.element, make("div", { class: "content" }, this.models, this.pair, this.changes)));
  },

  render() {
    const model = currentModel(), quantity = currentQuantity();
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
    const [a, b] = models, first = a.byName.get(name), second = b.byName.get(name), same = sameShape();
    const both = [first, second].filter(Boolean), range = extent(both.flatMap((quantity) => extent(quantity.value) ?? []));
    const shared = colourScale([], { range: range ?? [0, 1] });
    this.note.textContent = !same ? `The models differ in shape (${a.layers} × ${a.heads} and ${b.layers} × ${b.heads}), so heads cannot be paired.`
      : both.length < 2 ? "Only one of the two models has this quantity." : "A and B share one scale. The difference is B minus A.";
    this.pane(0, a, first, "A", shared);
    this.pane(1, b, second, "B", shared);
    const paired = same && both.length === 2;
    this.panes[2].element.hidden = !paired;
    this.scatter.replaceChildren();
    if (paired) {
      const change_ = differences(first.value, second.value), largest = Math.max(...(extent(change_) ?? [0]).map(Math.abs)) || 1;
      this.fill(2, a, { label: `${first.label}, ${b.name} minus ${a.name}`, values: change_, scale: colourScale(change_, { diverging: true, range: [-largest, largest] }),
        words: (index) => [`difference ${format(change_[index])}`, `A ${format(first.value[index])}`, `B ${format(second.value[index])}`] }, "Difference, B − A");
      const svg = scatterDrawing({ model: a, x: first.value, y: second.value, labels: [a.name, b.name], title: `${first.label} of both models`, identity: true });
      this.scatter.append(figureFrame(`${first.label}: every head of A against the same head of B`, svg, fileName("scatter_models", name)), make("div", {}, correlationWords(first.value, second.value), changedHeads(a, first, second, change_)));
    }
    setTimeout(() => this.renderChanges()); // below what is seen first
  },

  pane(place, model, quantity, letter, scale) {
    this.panes[place].element.hidden = !quantity;
    if (!quantity) return;
    this.fill(place, model, { label: quantity.label, values: quantity.value, scale, marked: (index) => isSignificant(quantity, index), words: (index) => cellWords(model, quantity, index) }, `${letter}: ${model.name}`);
  },

  fill(place, model, shown, title) {
    const { grid, legendPlace, button } = this.panes[place];
    this.panes[place].title.textContent = title;
    button.setAttribute("aria-label", `Download as SVG: ${title}`);
    grid.update({ model, selected: place === 2 || currentModel() === model ? selectedIndex(model) : null, ...shown });
    const places = shown.values.map((_, index) => index);
    legendPlace.replaceChildren(legend(shown.scale, { significant: shown.marked && places.some(shown.marked), missing: shown.values.includes(null) }));
  },

  /** All quantities that both models have, those whose heads changed most first; computed once. */
  renderChanges() {
    if (this.changesDone || !sameShape()) return;
    this.changesDone = true;
    const [a, b] = models;
    const rows = a.quantities.filter((quantity) => b.byName.has(quantity.name)).map((first) => {
      const second = b.byName.get(first.name), change_ = differences(first.value, second.value);
      const largest = change_.reduce((best, value, index) => (value !== null && (best === null || Math.abs(value) > Math.abs(change_[best])) ? index : best), null);
      return { quantity: first, a: mean(first.value), b: mean(second.value), change: mean(change_), spearman: spearman(first.value, second.value), largest, by: largest === null ? null : change_[largest] };
    });
    this.changes.replaceChildren(make("h2", {}, "Where the models differ"), make("p", { class: "muted lead" }, "Every quantity that both have. A low rank correlation means that other heads lead; pick a quantity to see it above."),
      sortableTable("Quantities of both models", [
        { key: "quantity", label: "quantity", value: (row) => row.quantity.label, text: (row) => make("button", { type: "button", class: "link", onclick: () => change({ quantity: row.quantity.name }) }, row.quantity.label) },
        { key: "a", label: "mean of A", class: "number", value: (row) => row.a }, { key: "b", label: "mean of B", class: "number", value: (row) => row.b },
        { key: "change", label: "mean difference", class: "number", value: (row) => row.change },
        { key: "by", label: "largest change", class: "number", value: (row) => row.by, text: (row) => (row.largest === null ? "–" : `${format(row.by)} (${a.headName(row.largest)})`) },
        { key: "spearman", label: "rank correlation", class: "number", value: (row) => row.spearman }], rows, { sort: "spearman" }));
  },

  renderPair(model, quantity) {
    const others = model.quantities.filter((other) => other !== quantity), other = model.byName.get(state.against) ?? others[0];
    this.pair.hidden = !other;
    if (!other) return;
    if (this.pairModel !== model) {
      this.pairModel = model;
      this.against.replaceChildren(...sections(model.quantities).map((group) => make("optgroup", { label: words(group.label) }, group.items.map((item) => make("option", { value: item.name }, item.label)))));
    }
    this.against.value = other.name;
    const svg = scatterDrawing({ model, x: quantity.value, y: other.value, labels: [quantity.label, other.label], title: `${quantity.label} and ${other.label}` });
    this.pairScatter.replaceChildren(figureFrame(`${model.name}: every head by both quantities`, svg, fileName("scatter", model.name, quantity.name, other.name)), correlationWords(quantity.value, other.value));
  },
};

function sameShape() {
  return models.length === 2 && models[0].layers === models[1].layers && models[0].heads === models[1].heads;
}

function correlationWords(a, b) {
  const count = pairedPlaces(a, b).length;
  return make("p", { class: "muted", "data-part": "correlation" }, `Over ${count} heads: rank correlation (Spearman) ${format(spearman(a, b))}, linear (Pearson) ${format(pearson(a, b))}.`);
}

/** The heads that differ most between the models. */
function changedHeads(model, first, second, change_) {
  const order = change_.map((_, index) => index).filter((index) => change_[index] !== null);
  order.sort((left, right) => Math.abs(change_[right]) - Math.abs(change_[left]));
  return plainTable("Heads that differ most", [
    { label: "head", text: (index) => headButton(model, index) },
    { label: "A", class: "number", text: (index) => format(first.value[index]) },
    { label: "B", class: "number", text: (index) => format(second.value[index]) },
    { label: "B − A", class: "number", text: (index) => format(change_[index]) }], order.slice(0, 8));
}

/** A point for every head, coloured by layer; a click opens it. */
function scatterDrawing({ model, x: xs, y: ys, labels, title, identity = false }) {
  const width = 620, height = 430, left = 66, right = 600, top = 14, bottom = 350;
  const places = pairedPlaces(xs, ys), svg = canvas(width, height, title, { class: "scatter" });
  let rangeX = airy(extent(places.map((place) => xs[place]))), rangeY = airy(extent(places.map((place) => ys[place])));
  if (identity) rangeX = rangeY = [Math.min(rangeX[0], rangeY[0]), Math.max(rangeX[1], rangeY[1])];
  const x = linear(rangeX, [left, right]), y = linear(rangeY, [bottom, top]);
  svg.append(axisBelow(x, rangeX, bottom, [left, right], shortened(labels[0], 70), top), axisLeft(y, rangeY, left, [top, bottom], shortened(labels[1], 46), right));
  if (identity) svg.append(draw("path", { class: "identity", d: `M${x(rangeX[0])} ${y(rangeX[0])}L${x(rangeX[1])} ${y(rangeX[1])}` }));
  const colour = (layer) => rampColour("sequential", model.layers > 1 ? (layer - 1) / (model.layers - 1) : 0.5), selected = selectedIndex(model);
  const points = places.map((place) => ({ place, x: x(xs[place]), y: y(ys[place]) }));
  svg.append(draw("g", {}, points.map((point) => draw("circle", { class: "point", "data-point": point.place, cx: point.x.toFixed(1), cy: point.y.toFixed(1), r: 4.5, fill: colour(model.place(point.place).layer) }))));
  const ring = draw("circle", { class: "ring", r: 8, visibility: "hidden" });
  svg.append(ring);
  const mark = (point) => {
    ring.setAttribute("visibility", point ? "visible" : "hidden");
    if (point) for (const key of ["x", "y"]) ring.setAttribute(`c${key}`, point[key]);
  };
  const chosen = points.find((point) => point.place === selected);
  mark(chosen);
  for (let layer = 1; layer <= model.layers; layer++) {
    const step = Math.min(22, 420 / model.layers), at = left + 44 + (layer - 1) * step;
    svg.append(draw("rect", { x: at, y: height - 22, width: step - 1, height: 10, fill: colour(layer) }));
    if (layer === 1 || layer === model.layers || (model.layers <= 12 && step >= 16)) svg.append(draw("text", { x: at + step / 2, y: height - 1, "text-anchor": "middle", class: "small-text" }, String(layer)));
  }
  svg.append(draw("text", { x: left, y: height - 13, class: "small-text" }, "layer"));
  const nearest = (event) => {
    const box = svg.getBoundingClientRect(), unit = width / box.width, px = (event.clientX - box.left) * unit, py = (event.clientY - box.top) * unit;
    let best = null, distance = 18 ** 2;
    for (const point of points) {
      const square = (point.x - px) ** 2 + (point.y - py) ** 2;
      if (square < distance) [best, distance] = [point, square];
    }
    return best;
  };
  svg.addEventListener("pointermove", (event) => {
    const point = nearest(event);
    mark(point ?? chosen);
    if (!point) return hideTip();
    showTip(event, [`Layer ${model.place(point.place).layer}, head ${model.place(point.place).head}`, `${labels[0]} ${format(xs[point.place])}`, `${labels[1]} ${format(ys[point.place])}`, ...model.roles(point.place).slice(0, 4)]);
  });
  svg.addEventListener("pointerleave", () => { hideTip(); mark(chosen); });
  svg.addEventListener("click", (event) => nearest(event) && openHead(nearest(event).place));
  return svg;
}
