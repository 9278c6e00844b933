// A switch for every head, by which a served page disables it; arrow keys walk the switches.

import { make } from "./dom.js";

export class HeadSwitches {
  /** `toggle(index)` is called for the head whose switch is used. */
  constructor({ toggle }) {
    this.toggle = toggle;
    this.element = make("div", {
      class: "switches",
      id: "live-heads",
      role: "group",
      "aria-label": "Heads, pressed where disabled",
      onclick: (event) => this.click(event),
      onkeydown: (event) => this.walk(event),
    });
  }

  /** Show which heads are disabled, and which one is looked at: there the Tab key enters. */
  update(model, without, index) {
    if (this.model !== model) this.build(model);
    this.buttons.forEach((button, place) => {
      button.setAttribute("aria-pressed", String(without.has(place)));
      button.classList.toggle("looked-at", place === index);
      button.tabIndex = place === index ? 0 : -1;
    });
  }

  build(model) {
    this.model = model;
    this.buttons = Array.from({ length: model.count }, (_, place) => {
      const { layer, head } = model.place(place),
        name = `Disable layer ${layer} head ${head}`;
      return make("button", { type: "button", "data-switch": place, "aria-label": name, title: model.headName(place) });
    });
    const number = (text) => make("span", { "aria-hidden": "true" }, text);
    this.element.style.setProperty("--heads", model.heads);
    this.element.replaceChildren(
      number(""),
      ...Array.from({ length: model.heads }, (_, head) => number(String(head + 1))),
      ...Array.from({ length: model.layers }, (_, layer) => [
        number(String(layer + 1)),
        ...this.buttons.slice(layer * model.heads, (layer + 1) * model.heads),
      ]).flat(),
    );
  }

  click(event) {
    const button = event.target.closest("[data-switch]");
    if (button) this.toggle(Number(button.dataset.switch));
  }

  walk(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.model.heads, ArrowDown: this.model.heads },
      next = this.buttons[this.buttons.indexOf(event.target) + steps[event.key]];
    if (!(event.key in steps)) return;
    event.preventDefault();
    next?.focus();
  }
}
