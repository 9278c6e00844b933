// The panel of one head: all that is known of it.

import { categoryColours } from "./colours.js";
import { sections } from "./data.js";
import { byId, draw, make } from "./dom.js";
import { axisBelow, canvas, figureFrame, linear } from "./figure.js";
import { strongestHead } from "./remarkable.js";
import { dockedScreen } from "./screen.js";
import { closeHead, openHead } from "./selection.js";
import { change } from "./state.js";
import { extent } from "./statistics.js";
import { fillRows, plainTable } from "./tables.js";
import { format, formatInterval, formatP, shortened, words } from "./text.js";

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

/** A second, quieter line in a cell. */
function under(text) {
  return text && make("span", { class: "under" }, text);
}

function sectionRow(label) {
  return make("tr", { class: "section-row" }, make("th", { colspan: "3", scope: "colgroup" }, label));
}

function quantityRow(model, quantity, index) {
  const rank = model.rank(quantity, index),
    count = model.defined(quantity);
  const interval = formatInterval(quantity.low?.[index], quantity.high?.[index]);
  const share = rank === null ? 0 : count > 1 ? (count - rank) / (count - 1) : 1;
  return make(
    "tr",
    { "data-quantity": quantity.name },
    make(
      "th",
      { scope: "row" },
      make(
        "button",
        {
          type: "button",
          class: "link",
          title: quantity.description || null,
          onclick: () => change({ quantity: quantity.name }),
        },
        quantity.label,
      ),
    ),
    make(
      "td",
      { class: "number" },
      format(quantity.value[index]),
      under(interval),
      under(quantity.p && `p ${formatP(quantity.p[index])}`),
    ),
    make(
      "td",
      { class: "number rank" },
      rank === null ? "–" : `${rank} of ${count}`,
      make(
        "span",
        { class: "meter", "aria-hidden": "true" },
        make("i", { style: { width: `${Math.round(100 * share)}%` } }),
      ),
    ),
  );
}

function patternNames(model) {
  return Object.keys(Object.values(model.raw.pattern ?? {})[0] ?? {});
}

/** Accuracies as dots with whiskers. */
function relationDrawing(rows, head) {
  const left = 128,
    width = 340,
    line = 24,
    bottom = 14 + rows.length * line,
    percent = rows.some((row) => row.accuracy > 1);
  const range = [0, percent ? 100 : 1],
    x = linear(range, [left, width - 16]);
  const svg = canvas(width, bottom + 40, `Best relations of head ${head}`);
  svg.append(axisBelow(x, range, bottom, [left, width - 16], percent ? "accuracy (%)" : "accuracy", 6));
  rows.forEach((row, place) => {
    const y = 18 + place * line,
      known = row.low !== null && row.low !== undefined && row.high !== null && row.high !== undefined;
    const interval = known ? `, ${formatInterval(row.low, row.high)}` : "";
    const title = `${row.relation} ${words(row.direction ?? "")}: ${format(row.accuracy)}${interval}`;
    svg.append(
      draw(
        "g",
        { class: "series" },
        draw("title", {}, title),
        draw(
          "text",
          { x: left - 8, y: y + 4, "text-anchor": "end", class: "label-text" },
          shortened(`${row.best ? "★ " : ""}${row.relation} ${arrow(row.direction)}`, 20),
        ),
        known &&
          draw("path", {
            class: "whisker",
            d: `M${x(row.low)} ${y}H${x(row.high)}M${x(row.low)} ${y - 4}v8M${x(row.high)} ${y - 4}v8`,
          }),
        draw("circle", { class: "dot-mark", cx: x(row.accuracy), cy: y, r: 4.5 }),
      ),
    );
  });
  return svg;
}

/** Which way a relation is followed, in a sign: `dependent_to_head` is d→h. */
function arrow(direction) {
  const [, from, to] = /^(\w)\w*_to_(\w)/.exec(direction ?? "") ?? [];
  return to ? `${from}→${to}` : words(direction ?? "");
}

function percent(share) {
  return `${(100 * (share ?? 0)).toFixed(1)} %`;
}

/** Shares as one stacked bar with a legend of numbers. */
function patternDrawing(shares, names, head) {
  const colours = categoryColours(names),
    width = 340,
    total = names.reduce((sum, name) => sum + (shares[name] ?? 0), 0) || 1;
  const svg = canvas(
    width,
    34 + 20 * Math.ceil(names.length / 2),
    `Pattern classes of head ${head}: ${names.map((name) => `${words(name)} ${percent(shares[name])}`).join(", ")}`,
  );
  let x = 0;
  names.forEach((name, place) => {
    const wide = ((shares[name] ?? 0) / total) * width;
    if (wide > 0)
      svg.append(
        draw(
          "rect",
          { class: "stack", x, y: 2, width: Math.max(wide - 1, 0.5), height: 18, fill: colours.get(name) },
          draw("title", {}, `${words(name)} ${percent(shares[name])}`),
        ),
      );
    x += wide;
    const legendX = (place % 2) * (width / 2),
      y = 38 + 20 * Math.floor(place / 2);
    svg.append(
      draw("rect", { x: legendX, y: y - 9, width: 10, height: 10, fill: colours.get(name) }),
      draw("text", { x: legendX + 15, y, class: "label-text" }, `${words(name)} ${percent(shares[name])}`),
    );
  });
  return svg;
}

/** One strip per quantity: a tick for every head, this head's interval and place on top. */
function standingDrawing(model, quantities, index) {
  const width = 340,
    line = 48;
  const told = quantities.map((quantity) => `${quantity.label} ${format(quantity.value[index])}`).join(", ");
  const svg = canvas(width, quantities.length * line + 4, `Head ${model.headName(index)} among all heads: ${told}`);
  quantities.forEach((quantity, place) => {
    const y = place * line + 30,
      [low, high] = extent([...quantity.value, quantity.low?.[index] ?? null, quantity.high?.[index] ?? null]);
    const x = linear([low, high], [6, width - 6]),
      value = quantity.value[index];
    svg.append(
      draw("text", { x: 0, y: y - 16, class: "label-text" }, shortened(quantity.label, 40)),
      draw("text", { x: width, y: y - 16, "text-anchor": "end", class: "label-text strong" }, format(value)),
      draw("path", {
        class: "strip",
        d: quantity.value
          .filter((other) => other !== null)
          .map((other) => `M${x(other).toFixed(1)} ${y - 7}v14`)
          .join(""),
      }),
      low < 0 && high > 0 && draw("path", { class: "zero", d: `M${x(0)} ${y - 10}v20` }),
    );
    if (quantity.low?.[index] != null && quantity.high?.[index] != null)
      svg.append(draw("path", { class: "whisker", d: `M${x(quantity.low[index])} ${y}H${x(quantity.high[index])}` }));
    svg.append(draw("circle", { class: "dot-mark", cx: x(value), cy: y, r: 5 }));
  });
  return svg;
}
