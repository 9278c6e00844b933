"use strict";
// Layer × head: the grid itself, which other views use as well, and the view that shows one quantity.

/** A grid of heads that can be walked with the arrow keys; `open(index)` is called for the head that is picked. */
class HeadGrid {
  constructor({ label, open }) {
    Object.assign(this, { open, shape: "" });
    this.element = make("div", { class: "grid", role: "grid", "aria-label": label, "aria-readonly": "true",
      onclick: (event) => this.pick(event), onkeydown: (event) => this.walk(event), onpointermove: (event) => this.tip(event),
      onpointerleave: hideTip, onfocusin: (event) => this.entered(event), onfocusout: hideTip });
  }

  /** shown: {model, label, values, scale, words(index), marked(index), bright(index), selected, numbers}. */
  update(shown) {
    this.shown = shown;
    const { model, values, scale } = shown;
    if (this.shape !== `${model.layers}x${model.heads}`) this.build(model);
    this.element.setAttribute("aria-label", shown.label);
    this.element.classList.toggle("with-numbers", Boolean(shown.numbers));
    this.cells.forEach((cell, index) => {
      const value = values[index], colour = value === null ? null : scale.colour(value);
      cell.style.backgroundColor = colour ?? "";
      cell.style.color = colour ? inkOn(colour) : "";
      cell.className = `cell${value === null ? " missing" : ""}${shown.marked?.(index) ? " significant" : ""}`
        + `${shown.bright && !shown.bright(index) ? " faded" : ""}${index === shown.selected ? " selected" : ""}`;
      cell.textContent = shown.numbers ? format(value) : "";
      cell.setAttribute("aria-selected", String(index === shown.selected));
      const { layer, head } = model.place(index);
      cell.setAttribute("aria-label", `layer ${layer} head ${head}, ${shown.words(index).join(", ")}`);
    });
    if (shown.selected !== null && shown.selected !== undefined) this.enterAt(shown.selected);
  }

  build(model) {
    this.shape = `${model.layers}x${model.heads}`;
    this.element.setAttribute("aria-rowcount", model.layers + 1);
    this.element.setAttribute("aria-colcount", model.heads + 1);
    this.element.style.setProperty("--columns", model.heads);
    this.element.style.setProperty("--rows", model.layers);
    this.cells = [];
    const top = make("div", { role: "row", class: "grid-row" }, make("span", { role: "columnheader", class: "corner", "aria-label": "layer" }),
      Array.from({ length: model.heads }, (_, head) => make("span", { role: "columnheader", class: "column-name", "aria-label": `head ${head + 1}` }, String(head + 1))));
    const rows = Array.from({ length: model.layers }, (_, layer) =>
      make("div", { role: "row", class: "grid-row" },
        make("span", { role: "rowheader", class: "row-name", "aria-label": `layer ${layer + 1}` }, String(layer + 1)),
        Array.from({ length: model.heads }, (_, head) => {
          const cell = make("div", { role: "gridcell", tabindex: "-1", "data-index": layer * model.heads + head });
          this.cells.push(cell);
          return cell;
        })));
    this.element.replaceChildren(top, ...rows);
    this.entry = 0;
    this.cells[0].tabIndex = 0;
  }

  enterAt(index) {
    if (this.cells[this.entry]) this.cells[this.entry].tabIndex = -1;
    this.entry = index;
    this.cells[index].tabIndex = 0;
  }

  focusAt(index) {
    this.enterAt(index);
    this.cells[index].focus();
  }

  indexOf(event) {
    const cell = event.target.closest?.("[data-index]");
    return cell ? Number(cell.dataset.index) : null;
  }

  pick(event) {
    const index = this.indexOf(event);
    if (index !== null) this.open(index);
  }

  entered(event) {
    const index = this.indexOf(event);
    if (index === null) return;
    this.enterAt(index);
    if (event.target.matches(":focus-visible")) this.tip(event);
  }

  walk(event) {
    const index = this.indexOf(event);
    if (index === null || event.altKey || event.metaKey) return;
    const { heads, count } = this.shown.model, column = index % heads, row = index - column;
    const target = {
      ArrowRight: column < heads - 1 ? index + 1 : index, ArrowLeft: column ? index - 1 : index,
      ArrowDown: index + heads < count ? index + heads : index, ArrowUp: index >= heads ? index - heads : index,
      Home: event.ctrlKey ? 0 : row, End: event.ctrlKey ? count - 1 : row + heads - 1,
      PageUp: column, PageDown: count - heads + column,
    }[event.key];
    if (target !== undefined) {
      event.preventDefault();
      this.focusAt(target);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open(index);
    }
  }

  tip(event) {
    const index = this.indexOf(event);
    if (index === null) return hideTip();
    const roles = this.shown.model.roles(index);
    showTip(event, [`Layer ${this.shown.model.place(index).layer}, head ${this.shown.model.place(index).head}`, ...this.shown.words(index),
      ...(roles.length ? [roles.join(", ")] : [])]);
  }
}

/** The same grid as a drawing that can be downloaded. */
function gridDrawing({ model, label, values, scale, marked, numbers }) {
  const size = numbers ? 44 : 26, left = 44, top = 58, width = Math.max(left + model.heads * size + 16, 320), height = top + model.layers * size + 66;
  const svg = canvas(width, height, `${label}, ${model.name}`);
  svg.append(draw("text", { x: left, y: 20, class: "figure-title" }, label), draw("text", { x: left, y: 36, class: "axis-label" }, model.name));
  for (let head = 0; head < model.heads; head++) {
    svg.append(draw("text", { x: left + (head + 0.5) * size, y: top - 7, "text-anchor": "middle", class: "small-text" }, String(head + 1)));
  }
  values.forEach((value, index) => {
    const { layer, head } = model.place(index), x = left + (head - 1) * size, y = top + (layer - 1) * size;
    if (head === 1) svg.append(draw("text", { x: left - 8, y: y + size / 2 + 4, "text-anchor": "end", class: "small-text" }, String(layer)));
    const colour = value === null ? null : scale.colour(value);
    svg.append(draw("rect", { x, y, width: size - 1, height: size - 1, fill: colour ?? "none", stroke: colour ? "none" : "#8a94a0" }));
    if (value === null) svg.append(draw("path", { d: `M${x} ${y + size - 1}L${x + size - 1} ${y}`, stroke: "#8a94a0" }));
    if (value !== null && numbers) {
      svg.append(draw("text", { x: x + size / 2, y: y + size / 2 + 4, "text-anchor": "middle", "font-size": 10, fill: inkOn(colour) }, format(value)));
    }
    if (value !== null && marked?.(index)) svg.append(draw("circle", { cx: x + size - 6, cy: y + 5, r: 2.5, fill: inkOn(colour) }));
  });
  const bar = Math.min(240, width - left - 40), below = top + model.layers * size + 14;
  for (let step = 0; step < 60; step++) {
    svg.append(draw("rect", { x: left + (step * bar) / 60, y: below, width: bar / 60 + 0.5, height: 10, fill: rampColour(scale.ramp, step / 59) }));
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

function headButton(model, index) {
  return make("button", { type: "button", class: "link", onclick: () => openHead(index) }, model.headName(index));
}

/** The first view: one quantity of one model. */
const gridView = {
  build(root) {
    this.chooser = new Chooser({ label: "Quantity", placeholder: "Filter quantities", id: "quantity", choose: (key) => change({ quantity: key }) });
    this.grid = new HeadGrid({ label: "Heads", open: (index) => openHead(index) });
    this.numbers = make("input", { type: "checkbox", id: "numbers", onchange: () => change({ numbers: this.numbers.checked }) });
    this.byRank = make("input", { type: "checkbox", id: "by-rank", onchange: () => change({ rank: this.byRank.checked }) });
    this.highlight = make("select", { id: "highlight", onchange: () => change({ highlight: this.highlight.value }) });
    this.title = make("h2", { id: "grid-title" });
    this.description = make("p", { class: "muted lead" });
    this.legend = make("div");
    this.profile = make("div", { class: "card" });
    this.outstanding = make("div", { class: "card", "data-part": "facts" });
    this.summary = make("dl", { class: "facts" });
    this.download = make("button", { type: "button", class: "quiet small", id: "grid-svg", onclick: () => downloadSvg(gridDrawing(this.grid.shown), this.fileName()) }, "SVG ↓");
    root.append(make("div", { class: "columns" }, this.chooser.element, make("div", { class: "content" },
      make("div", { class: "card" },
        make("div", { class: "card-head" }, make("div", {}, this.title, this.description), this.download),
        make("div", { class: "controls" },
          make("label", { class: "check" }, this.numbers, "Values in cells"),
          make("label", { class: "check" }, this.byRank, "Colour by rank"),
          make("label", { class: "field" }, "Highlight ", this.highlight)),
        make("div", { class: "scroll-x" }, make("div", { class: "axis-names", "aria-hidden": "true" }, make("span", {}, "layer ↓"), make("span", {}, "head →")), this.grid.element),
        this.legend, this.summary),
      make("p", { class: "muted hint" }, "Pick a head to see all that is known of it. "
        + "With the keyboard: arrow keys walk the grid, Enter opens a head, Escape closes it."),
      this.profile, this.outstanding)));
  },

  fileName() {
    return fileName("grid", this.grid.shown.model.name, state.quantity);
  },

  render() {
    const model = currentModel(), quantity = currentQuantity();
    this.chooser.setGroups(quantityGroups(model));
    if (!quantity) return;
    this.chooser.setChosen([quantity.name], quantity.label);
    this.numbers.checked = state.numbers;
    this.byRank.checked = state.rank;
    const scale = colourScale(quantity.value, { byRank: state.rank });
    const marked = (index) => isSignificant(quantity, index);
    const highlights = highlightChoices(model);
    this.highlight.replaceChildren(make("option", { value: "" }, "nothing"), ...highlights.map((choice) => make("option", { value: choice.key }, choice.label)));
    this.highlight.closest("label").hidden = !highlights.length;
    const chosen = highlights.find((choice) => choice.key === state.highlight);
    this.highlight.value = chosen?.key ?? "";
    this.title.textContent = quantity.label;
    this.description.textContent = quantity.description;
    this.grid.update({ model, label: quantity.label, values: quantity.value, scale, marked, numbers: state.numbers, selected: selectedIndex(model),
      words: (index) => cellWords(model, quantity, index), bright: chosen && ((index) => chosen.has(index)) });
    const places = quantity.value.map((_, index) => index);
    this.legend.replaceChildren(legend(scale, { significant: places.some(marked), missing: quantity.value.includes(null) }));
    this.summary.replaceChildren(...this.facts(model, quantity, places.filter(marked).length));
    this.renderOutstanding(model);
    this.profile.replaceChildren(make("h2", {}, "Layer by layer"), figureFrame(`${quantity.label}: a dot for every head, the line joins the means`, layerDrawing(model, quantity), fileName("layers", model.name, quantity.name)));
  },

  /** Heads that the run itself points out. */
  renderOutstanding(model) {
    const rows = model.raw.facts ?? [];
    this.outstanding.hidden = !rows.length;
    if (!rows.length || this.outstandingOf === model) return;
    this.outstandingOf = model;
    this.outstanding.replaceChildren(make("h2", {}, "Heads that stand out"), plainTable(`Found in ${model.name}`, [
      { label: "what", text: (row) => row.fact },
      { label: "head", text: (row) => (model.headIndex(row.head) === null ? String(row.head ?? "") : headButton(model, model.headIndex(row.head))) },
      { label: "quantity", text: (row) => row.quantity ?? "" },
      { label: "value", class: "number", text: (row) => format(row.value) }], rows));
  },

  facts(model, quantity, significant) {
    const range = extent(quantity.value);
    if (!range) return [make("div", {}, make("dt", {}, "Defined for"), make("dd", {}, "no head"))];
    const extreme = (value) => {
      const index = quantity.value.indexOf(value);
      return make("dd", {}, headButton(model, index), ` ${format(value)}`);
    };
    const n = quantity.n && extent(quantity.n);
    const facts = [["Largest", extreme(range[1])], ["Smallest", extreme(range[0])], ["Mean", make("dd", {}, format(mean(quantity.value)))]];
    if (n) facts.push(["n", make("dd", {}, n[0] === n[1] ? format(n[0]) : `${format(n[0])} to ${format(n[1])}`)]);
    if (quantity.p) facts.push([`p < ${SIGNIFICANT}`, make("dd", {}, `${significant} of ${model.defined(quantity)}`)]);
    return facts.map(([name, value]) => make("div", {}, make("dt", {}, name), value));
  },
};

/** The heads of each layer above each other, and the mean of each layer. */
function layerDrawing(model, quantity) {
  const width = 760, left = 66, right = 746, top = 12, bottom = 220, range = airy(extent(quantity.value)), step = (right - left) / model.layers;
  const y = linear(range, [bottom, top]), x = (layer) => left + (layer - 0.5) * step, selected = selectedIndex(model);
  const svg = canvas(width, 262, `${quantity.label} of the heads of each layer`, { class: "layers" });
  svg.append(axisLeft(y, range, left, [top, bottom], shortened(quantity.label, 28), right), draw("g", { class: "axis" }, draw("path", { d: `M${left} ${bottom}H${right}` }),
    Array.from({ length: model.layers }, (_, layer) => draw("text", { x: x(layer + 1), y: bottom + 16, "text-anchor": "middle" }, String(layer + 1))),
    draw("text", { x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle", class: "axis-label" }, "layer")));
  const means = [];
  for (let layer = 1; layer <= model.layers; layer++) means.push(mean(quantity.value.slice((layer - 1) * model.heads, layer * model.heads)));
  const joined = means.map((value, place) => (value === null ? null : `${x(place + 1).toFixed(1)} ${y(value).toFixed(1)}`)).filter(Boolean);
  if (joined.length) svg.append(draw("path", { class: "layer-mean", d: `M${joined.join("L")}` }));
  quantity.value.forEach((value, index) => {
    if (value === null) return;
    const { layer, head } = model.place(index), beside = model.heads > 1 ? ((head - 1) / (model.heads - 1) - 0.5) * Math.min(step * 0.6, 40) : 0;
    svg.append(draw("circle", { class: `layer-point${index === selected ? " chosen" : ""}`, cx: (x(layer) + beside).toFixed(1), cy: y(value).toFixed(1), r: index === selected ? 6 : 3.5, "data-point": index }, draw("title", {}, `layer ${layer} head ${head}: ${format(value)}`)));
  });
  svg.addEventListener("click", (event) => event.target.dataset.point && openHead(Number(event.target.dataset.point)));
  return svg;
}

/** Roles and classes that a grid can bring out. */
function highlightChoices(model) {
  const roles = new Set(), classes = new Set();
  for (let index = 0; index < model.count; index++) {
    model.roles(index).forEach((role) => roles.add(role));
    if (model.patternClass(index)) classes.add(model.patternClass(index));
  }
  return [...[...roles].sort().map((role) => ({ key: `role:${role}`, label: `role ${words(role)}`, has: (index) => model.roles(index).includes(role) })),
    ...[...classes].sort().map((name) => ({ key: `class:${name}`, label: `class ${words(name)}`, has: (index) => model.patternClass(index) === name }))];
}
