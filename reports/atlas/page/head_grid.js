// A grid of heads, layer by head, that any view can show.

import { inkOn } from "./colours.js";
import { hideTip, make, showTip } from "./dom.js";
import { format } from "./text.js";

/** A grid of heads that can be walked with the arrow keys; `open(index)` is called for the head that is picked. */
export class HeadGrid {
  constructor({ label, open }) {
    Object.assign(this, { open, shape: "" });
    this.element = make("div", {
      class: "grid",
      role: "grid",
      "aria-label": label,
      "aria-readonly": "true",
      onclick: (event) => this.pick(event),
      onkeydown: (event) => this.walk(event),
      onpointermove: (event) => this.tip(event),
      onpointerleave: hideTip,
      onfocusin: (event) => this.entered(event),
      onfocusout: hideTip,
    });
  }

  /** shown: {model, label, values, scale, words(index), marked(index), bright(index), selected, numbers}. */
  update(shown) {
    this.shown = shown;
    const { model, values, scale } = shown;
    if (this.shape !== `${model.layers}x${model.heads}`) this.build(model);
    this.element.setAttribute("aria-label", shown.label);
    this.element.classList.toggle("with-numbers", Boolean(shown.numbers));
    this.cells.forEach((cell, index) => {
      const value = values[index],
        colour = value === null ? null : scale.colour(value);
      cell.style.backgroundColor = colour ?? "";
      cell.style.color = colour ? inkOn(colour) : "";
      cell.className =
        `cell${value === null ? " missing" : ""}${shown.marked?.(index) ? " significant" : ""}` +
        `${shown.bright && !shown.bright(index) ? " faded" : ""}${index === shown.selected ? " selected" : ""}`;
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
    const top = make(
      "div",
      { role: "row", class: "grid-row" },
      make("span", { role: "columnheader", class: "corner", "aria-label": "layer" }),
      Array.from({ length: model.heads }, (_, head) =>
        make(
          "span",
          { role: "columnheader", class: "column-name", "aria-label": `head ${head + 1}` },
          String(head + 1),
        ),
      ),
    );
    const rows = Array.from({ length: model.layers }, (_, layer) =>
      make(
        "div",
        { role: "row", class: "grid-row" },
        make("span", { role: "rowheader", class: "row-name", "aria-label": `layer ${layer + 1}` }, String(layer + 1)),
        Array.from({ length: model.heads }, (_, head) => {
          const cell = make("div", { role: "gridcell", tabindex: "-1", "data-index": layer * model.heads + head });
          this.cells.push(cell);
          return cell;
        }),
      ),
    );
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
    const { heads, count } = this.shown.model,
      column = index % heads,
      row = index - column;
    const target = {
      ArrowRight: column < heads - 1 ? index + 1 : index,
      ArrowLeft: column ? index - 1 : index,
      ArrowDown: index + heads < count ? index + heads : index,
      ArrowUp: index >= heads ? index - heads : index,
      Home: event.ctrlKey ? 0 : row,
      End: event.ctrlKey ? count - 1 : row + heads - 1,
      PageUp: column,
      PageDown: count - heads + column,
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
    showTip(event, [
      `Layer ${this.shown.model.place(index).layer}, head ${this.shown.model.place(index).head}`,
      ...this.shown.words(index),
      ...(roles.length ? [roles.join(", ")] : []),
    ]);
  }
}
