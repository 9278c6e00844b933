// The panel of one head: all that is known of it.

import { sections } from "./data.js";
import { byId, make } from "./dom.js";
import { figureFrame } from "./figure.js";
import { patternDrawing, relationDrawing, standingDrawing } from "./head_drawings.js";
import { quantityRow, sectionRow, under } from "./head_rows.js";
import { strongestHead } from "./remarkable.js";
import { dockedScreen } from "./screen.js";
import { closeHead, openHead } from "./selection.js";
import { change } from "./state.js";
import { fillRows, plainTable } from "./tables.js";
import { format, formatInterval, formatP, words } from "./text.js";

export const panelView = {
  /** Fill and show the panel; where it covers the page, the page behind is out of reach until it closes. */
  render(model, index) {
    const panel = byId("panel"),
      wasHidden = panel.hidden;
    const { layer, head } = model.place(index);
    const button = (label, text, target) =>
      make(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": label,
          title: label,
          disabled: target === null,
          onclick: () => {
            openHead(target, null);
            byId(label.startsWith("Next") ? "panel-next" : "panel-previous").focus();
          },
        },
        text,
      );
    const previous = button("Previous head", "‹", index > 0 ? index - 1 : null),
      following = button("Next head", "›", index + 1 < model.count ? index + 1 : null);
    previous.id = "panel-previous";
    following.id = "panel-next";
    const title = make("h2", { id: "panel-title", tabindex: "-1" }, `Layer ${layer}, head ${head}`);
    panel.replaceChildren(
      make(
        "div",
        { class: "panel-head" },
        make("div", {}, title, make("p", { class: "muted" }, model.name)),
        make(
          "div",
          { class: "panel-buttons" },
          previous,
          following,
          make(
            "button",
            {
              type: "button",
              class: "quiet",
              id: "panel-close",
              "aria-label": "Close",
              title: "Close (Escape)",
              onclick: closeHead,
            },
            "✕",
          ),
        ),
      ),
      make(
        "div",
        { class: "panel-body" },
        strongestHead(model).index === index &&
          strongestHead(model).why &&
          make("p", { class: "why", "data-part": "why" }, strongestHead(model).why),
        this.roles(model, index),
        this.relations(model, index),
        this.pattern(model, index),
        this.standing(model, index),
        this.everything(model, index),
      ),
    );
    panel.hidden = false;
    if (wasHidden) panel.scrollTop = 0;
    this.cover();
  },

  hide() {
    byId("panel").hidden = true;
    this.cover();
  },

  cover() {
    const covers = !byId("panel").hidden && !dockedScreen.matches;
    byId("main").inert = covers;
    byId("top").inert = covers;
    document.body.classList.toggle("covered", covers);
  },

  roles(model, index) {
    const assigned = model.roles(index),
      rows = model.roleTests().map(({ role, quantity }) => ({ role, quantity, has: assigned.includes(role) }));
    if (!rows.length && !assigned.length) return null;
    const chips = assigned.length
      ? assigned.map((role) => make("span", { class: "chip" }, words(role)))
      : [make("span", { class: "muted" }, "none of the tested roles")];
    rows.sort((a, b) => b.has - a.has || (a.quantity.p[index] ?? 2) - (b.quantity.p[index] ?? 2));
    const table =
      rows.length &&
      plainTable(
        "Roles, their scores and p-values",
        [
          {
            label: "role",
            text: (row) => [
              words(row.role),
              row.has && make("span", { class: "tick", role: "img", "aria-label": "assigned" }, " ✓"),
            ],
          },
          {
            label: "score, interval",
            class: "number",
            text: (row) => [
              format(row.quantity.value[index]),
              under(formatInterval(row.quantity.low?.[index], row.quantity.high?.[index])),
            ],
          },
          { label: "p", class: "number", text: (row) => formatP(row.quantity.p[index]) },
        ],
        rows,
      );
    return make(
      "section",
      { class: "block", "data-part": "roles" },
      make("h3", {}, "Roles"),
      make("p", { class: "chips" }, chips),
      table,
    );
  },

  relations(model, index) {
    const rows = model.relations(index);
    if (!rows.length) return null;
    const name = `relations_${model.name}_${model.headName(index)}`;
    return make(
      "section",
      { class: "block", "data-part": "relations" },
      make("h3", {}, "Best relations"),
      figureFrame(
        "Accuracy with its interval (★: the best head for it)",
        relationDrawing(rows, model.headName(index)),
        name,
      ),
      make(
        "details",
        {},
        make("summary", {}, "As a table"),
        plainTable(
          "Relations of this head",
          [
            { label: "relation", text: (row) => row.relation + (row.best ? " ★" : "") },
            { label: "direction", text: (row) => words(row.direction ?? "") },
            {
              label: "accuracy, interval",
              class: "number",
              text: (row) => [format(row.accuracy), under(formatInterval(row.low, row.high))],
            },
            { label: "n", class: "number", text: (row) => format(row.n) },
          ],
          rows,
        ),
      ),
    );
  },

  pattern(model, index) {
    const shares = model.pattern(index);
    if (!shares) return null;
    return make(
      "section",
      { class: "block", "data-part": "pattern" },
      make("h3", {}, "Pattern classes"),
      figureFrame(
        "Share of its maps in each class",
        patternDrawing(shares, patternNames(model), model.headName(index)),
        `pattern_${model.name}_${model.headName(index)}`,
      ),
    );
  },

  standing(model, index) {
    const rows = model.headlines.filter((quantity) => quantity.value[index] !== null);
    if (!rows.length) return null;
    return make(
      "section",
      { class: "block", "data-part": "standing" },
      make("h3", {}, "Where it stands"),
      figureFrame(
        "This head among all heads",
        standingDrawing(model, rows, index),
        `standing_${model.name}_${model.headName(index)}`,
      ),
      plainTable(
        "What is told first of a head",
        [
          { label: "quantity", text: (quantity) => quantity.label },
          {
            label: "value, interval",
            class: "number",
            text: (quantity) => [
              format(quantity.value[index]),
              under(formatInterval(quantity.low?.[index], quantity.high?.[index])),
            ],
          },
          {
            label: "rank",
            class: "number",
            text: (quantity) => `${model.rank(quantity, index)} of ${model.defined(quantity)}`,
          },
        ],
        rows,
      ),
    );
  },

  everything(model, index) {
    const body = make("tbody");
    const filter = make("input", {
      type: "search",
      id: "panel-filter",
      placeholder: "Filter",
      "aria-label": "Filter the quantities of this head",
      value: this.filtered ?? "",
      oninput: () => narrow(),
    });
    const narrow = () => {
      this.filtered = filter.value;
      const wanted = filter.value.toLowerCase();
      const passes = (quantity) => `${quantity.label} ${quantity.name}`.toLowerCase().includes(wanted);
      const rows = sections(model, model.quantities.filter(passes)).flatMap((group) => [group.label, ...group.items]);
      fillRows(body, rows, (row) => (typeof row === "string" ? sectionRow(row) : quantityRow(model, row, index)));
    };
    setTimeout(narrow); // below what is seen first
    return make(
      "section",
      { class: "block", "data-part": "everything" },
      make("div", { class: "block-head" }, make("h3", {}, "All quantities"), filter),
      make(
        "p",
        {},
        make(
          "button",
          { type: "button", class: "quiet", id: "panel-attention", onclick: () => change({ view: "attention" }, true) },
          "See its attention on a sentence",
        ),
      ),
      make(
        "table",
        { class: "data compact" },
        make("caption", {}, "Every quantity, with its rank among the heads (1: largest)"),
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            ["quantity", "value, interval, p", "rank"].map((name, place) =>
              make("th", { scope: "col", class: place ? "number" : null }, name),
            ),
          ),
        ),
        body,
      ),
    );
  },
};

function patternNames(model) {
  return Object.keys(Object.values(model.raw.pattern ?? {})[0] ?? {});
}
