// A list to choose from, in groups, with a filter box; arrow keys walk it. One choice, or several where `several` is set.

import { sections } from "./data.js";
import { announce, make } from "./dom.js";
import { room } from "./screen.js";

/** groups: [{label, items: [{key, label, hint}]}]; `choose(key)` is called with what was picked. */
export class Chooser {
  /** `least`: pixels that the content must have for the list to stand beside it; else it folds away above. */
  constructor({ label, placeholder, choose, several = false, least = 820, id }) {
    Object.assign(this, { choose, several, label, least, groups: [], chosen: new Set() });
    this.filter = make("input", {
      type: "search",
      id: `${id}-filter`,
      placeholder,
      "aria-label": `Filter: ${label}`,
      "aria-controls": `${id}-list`,
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.narrow(),
      onkeydown: (event) => this.fromFilter(event),
    });
    this.list = make("div", {
      class: "choices",
      id: `${id}-list`,
      role: "listbox",
      "aria-label": label,
      "aria-multiselectable": several ? "true" : null,
      onclick: (event) => this.click(event),
      onkeydown: (event) => this.walk(event),
    });
    this.nothing = make("p", { class: "muted nothing", hidden: true }, "Nothing has this in its name.");
    this.summary = make("summary", {}, label);
    this.element = make(
      "details",
      { class: "chooser" },
      this.summary,
      make("div", { class: "chooser-body" }, this.filter, this.list, this.nothing),
    );
    room.listeners.push(() => this.fit());
    this.fit();
    this.summary.addEventListener("click", (event) => this.wide && event.preventDefault());
  }

  fit() {
    const wide = room.width >= this.least;
    if (wide === this.wide) return;
    this.wide = this.element.open = wide;
    this.element.classList.toggle("beside-content", wide);
  }

  setGroups(groups) {
    if (groups === this.groups) return;
    this.groups = groups;
    this.options = new Map();
    this.list.replaceChildren(
      ...groups.map((group) => {
        const options = group.items.map((item) => {
          const option = make(
            "div",
            {
              class: "choice",
              role: "option",
              tabindex: "-1",
              "aria-selected": "false",
              title: item.hint || null,
              "data-key": item.key,
            },
            make("span", { class: "choice-label" }, item.label),
            item.note && make("span", { class: "choice-note" }, item.note),
          );
          option.searched = `${item.label} ${item.key} ${item.hint ?? ""} ${group.label ?? ""}`.toLowerCase();
          this.options.set(String(item.key), option);
          return option;
        });
        return make(
          "div",
          { role: "group", "aria-label": group.label || this.label, class: "choice-group" },
          group.label && make("div", { class: "choice-heading", "aria-hidden": "true" }, group.label),
          options,
        );
      }),
    );
    this.narrow(true);
  }

  /** Mark what is chosen; the first of it is where the Tab key enters. */
  setChosen(keys, summary) {
    this.chosen = new Set(keys.map(String));
    const entry = [...this.chosen].find((key) => this.options.has(key)) ?? this.options.keys().next().value;
    for (const [key, option] of this.options) {
      option.setAttribute("aria-selected", String(this.chosen.has(key)));
      option.tabIndex = key === entry ? 0 : -1;
    }
    this.summary.replaceChildren(
      make("span", { class: "chooser-name" }, this.label),
      make("span", { class: "chooser-chosen" }, summary),
    );
    const option = this.options.get(entry);
    if (option && !this.several && this.list.offsetParent) keepInSight(option, this.list);
  }

  narrow(quietly = false) {
    const parts = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const option of this.options.values()) {
      option.hidden = !parts.every((part) => option.searched.includes(part));
      left += !option.hidden;
    }
    for (const group of this.list.children)
      group.hidden = [...group.querySelectorAll(".choice")].every((option) => option.hidden);
    this.nothing.hidden = left > 0;
    if (quietly !== true) announce(`${left} of ${this.options.size} left`);
  }

  visible() {
    return [...this.options.values()].filter((option) => !option.hidden);
  }

  click(event) {
    const option = event.target.closest(".choice");
    if (option) this.pick(option);
  }

  pick(option) {
    option.focus();
    this.choose(option.dataset.key);
    if (!this.wide && !this.several) {
      this.element.open = false;
      this.summary.focus();
    }
  }

  fromFilter(event) {
    const first = this.visible()[0];
    if (event.key === "ArrowDown" && first) {
      event.preventDefault();
      this.step(first);
    }
    if (event.key === "Enter" && first) this.pick(first);
  }

  walk(event) {
    const options = this.visible(),
      at = options.indexOf(event.target.closest(".choice"));
    const next = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: options.length - 1,
      PageDown: Math.min(at + 10, options.length - 1),
      PageUp: Math.max(at - 10, 0),
    }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      if (next < 0) this.filter.focus();
      else if (options[next]) this.step(options[next]);
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0) {
      event.preventDefault();
      this.pick(options[at]);
    }
  }

  /** Move to an option; where one is chosen, the choice follows, so that the figures change as one walks. */
  step(option) {
    for (const other of this.options.values()) other.tabIndex = -1;
    option.tabIndex = 0;
    option.focus();
    if (!this.several) this.choose(option.dataset.key);
  }
}

function keepInSight(option, list) {
  const top = option.offsetTop - list.offsetTop,
    bottom = top + option.offsetHeight;
  if (top < list.scrollTop || bottom > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 3;
}

/** The groups of a model's quantities for a chooser, made once. */
const quantityGroupsOf = new WeakMap();

export function quantityGroups(model) {
  if (!quantityGroupsOf.has(model)) {
    quantityGroupsOf.set(
      model,
      sections(model).map((group) => ({
        label: group.label,
        items: group.items.map((quantity) => ({
          key: quantity.name,
          label: quantity.label,
          hint: quantity.description,
        })),
      })),
    );
  }
  return quantityGroupsOf.get(model);
}
