// All heads as rows, the chosen quantities as columns; sorted, filtered, downloaded.

import { Chooser, quantityGroups } from "./chooser.js";
import { allRows, csvText, isSignificant } from "./data.js";
import { announce, download, make } from "./dom.js";
import { compileFilter, filterExamples } from "./filter.js";
import { scrollArea } from "./scrolling.js";
import { openHead } from "./selection.js";
import { change, currentModel, selectedIndex, state } from "./state.js";
import { FIXED_COLUMNS, REM, SCROLL_BAR, numberWidth } from "./table_columns.js";
import { fillRows } from "./tables.js";
import { fileName, format, formatP } from "./text.js";

export const tableView = {
  build(root) {
    this.chooser = new Chooser({
      label: "Columns",
      placeholder: "Filter quantities",
      id: "columns",
      several: true,
      least: 1000,
      choose: (key) => this.toggle(key),
    });
    this.filter = make("input", {
      type: "search",
      id: "table-filter",
      placeholder: filterExamples(currentModel()).all,
      "aria-label": "Filter heads",
      "aria-describedby": "filter-help filter-error",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => change({ filter: this.filter.value }),
    });
    this.error = make("p", { class: "error", id: "filter-error", role: "alert", hidden: true });
    this.count = make("p", { class: "muted", id: "table-count" });
    this.head = make("thead");
    this.widths = make("colgroup");
    this.body = make("tbody", { onclick: (event) => this.rowClicked(event) });
    this.caption = make("caption");
    this.area = scrollArea(
      { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Table of heads" },
      make("table", { class: "data heads" }, this.caption, this.widths, this.head, this.body),
    );
    new ResizeObserver(() => this.fit()).observe(this.area);
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
            make(
              "div",
              { class: "card-head" },
              make("h2", { id: "table-title" }, "Heads"),
              make(
                "div",
                { class: "buttons" },
                make(
                  "button",
                  { type: "button", class: "quiet small", id: "csv-shown", onclick: () => this.downloadShown() },
                  "CSV of this table ↓",
                ),
                make(
                  "button",
                  { type: "button", class: "quiet small", id: "csv-all", onclick: () => downloadAll(currentModel()) },
                  "CSV of all data ↓",
                ),
              ),
            ),
            make("div", { class: "search-line" }, this.filter, this.count),
            this.error,
            make(
              "details",
              { class: "help" },
              make("summary", {}, "How to filter"),
              make("p", { id: "filter-help" }, filterHelp(filterExamples(currentModel()))),
            ),
            this.area,
          ),
        ),
      ),
    );
  },

  columns(model) {
    const chosen = state.columns ?? this.firstColumns(model);
    return chosen.filter((name) => model.byName.has(name));
  },

  /** The columns before the reader chooses any: of what is told first of a head as many as have room, at least two. */
  firstColumns(model) {
    const first = model.headlines.length ? model.headlines : model.quantities.slice(0, 8);
    let room = (this.area.clientWidth - SCROLL_BAR) / REM;
    for (const column of this.fixed(model)) room -= column.width;
    return first
      .filter((quantity, place) => (room -= numberWidth(quantity.label)) >= 0 || place < 2)
      .map((quantity) => quantity.name);
  },

  /** Show as many columns as have room now. */
  fit() {
    const names =
      state.columns === null && this.area.clientWidth ? this.columns(currentModel()).join() : this.shownNames;
    if (names !== this.shownNames) this.render();
  },

  toggle(key) {
    const columns = this.columns(currentModel());
    const gone = columns.includes(key);
    change({ columns: gone ? columns.filter((name) => name !== key) : [...columns, key] });
    announce(`${key} ${gone ? "removed" : "added"}`);
  },

  /** The columns before the quantities, as far as the model has them. */
  fixed(model) {
    return FIXED_COLUMNS.filter((column) => !column.has || column.has(model));
  },

  render() {
    const model = currentModel(),
      names = this.columns(model);
    this.shownNames = names.join();
    this.chooser.setGroups(quantityGroups(model));
    this.chooser.setChosen(names, `${names.length} chosen`);
    if (document.activeElement !== this.filter) this.filter.value = state.filter;
    this.places = this.passing(model);
    this.sort(model);
    this.renderWidths(model, names);
    this.renderHead(model, names);
    this.renderBody(model, names);
    this.count.textContent = `${this.places.length} of ${model.count} heads`;
    this.caption.textContent = `Heads of ${model.name}`;
    const order = state.descending ? "largest first" : "smallest first";
    announce(`${this.places.length} of ${model.count} heads, sorted by ${state.sort}, ${order}`);
  },

  /** Heads that pass the filter; while it cannot be read, those that passed before. */
  passing(model) {
    try {
      const test = compileFilter(state.filter, model);
      this.error.hidden = true;
      this.filter.removeAttribute("aria-invalid");
      return Array.from({ length: model.count }, (_, index) => index).filter(test);
    } catch (problem) {
      this.error.textContent = problem.message;
      this.error.hidden = false;
      this.filter.setAttribute("aria-invalid", "true");
      return (this.places ?? Array.from({ length: model.count }, (_, index) => index)).filter(
        (index) => index < model.count,
      );
    }
  },

  /** Undefined values come last in both directions; equal ones keep the order of the model. */
  sort(model) {
    const fixed = FIXED_COLUMNS.find((column) => column.key === state.sort),
      quantity = model.byName.get(state.sort);
    const key = fixed
      ? (index) => (fixed.order ?? fixed.text)(model, index) || (fixed.order ? 0 : null)
      : quantity
        ? (index) => quantity.value[index]
        : (index) => index;
    const sign = state.descending ? -1 : 1;
    this.places.sort((a, b) => {
      const x = key(a),
        y = key(b);
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return sign * (typeof x === "string" ? x.localeCompare(y) : x - y) || a - b;
    });
  },

  /** Widths that are known beforehand: a browser lays out a long table many times faster. */
  renderWidths(model, names) {
    const widths = [
      ...this.fixed(model).map((column) => column.width),
      ...names.map((name) => numberWidth(model.byName.get(name).label)),
    ];
    this.widths.replaceChildren(...widths.map((width) => make("col", { style: { width: `${width}rem` } })));
    this.widths.parentElement.style.minWidth = `${widths.reduce((sum, width) => sum + width, 0)}rem`;
  },

  renderHead(model, names) {
    const focused = document.activeElement?.dataset?.sort;
    const header = (key, label, number, hint) => {
      const sorted = state.sort === key;
      return make(
        "th",
        {
          scope: "col",
          class: number ? "number" : null,
          "aria-sort": sorted ? (state.descending ? "descending" : "ascending") : "none",
        },
        make(
          "button",
          { type: "button", class: "sort", "data-sort": key, title: hint || null, onclick: () => this.sortBy(key) },
          label,
          make(
            "span",
            { class: "sort-sign", "aria-hidden": "true" },
            sorted ? (state.descending ? "\u00a0▼" : "\u00a0▲") : "\u00a0↕",
          ),
        ),
      );
    };
    this.head.replaceChildren(
      make(
        "tr",
        {},
        this.fixed(model).map((column) => header(column.key, column.label, false)),
        names.map((name) => header(name, model.byName.get(name).label, true, model.byName.get(name).description)),
      ),
    );
    if (focused !== undefined) this.head.querySelector(`[data-sort="${CSS.escape(focused)}"]`)?.focus();
  },

  /** A new column starts with its largest values, names start with A; again turns it round. */
  sortBy(key) {
    const byName = FIXED_COLUMNS.some((column) => column.key === key);
    change({ sort: key, descending: state.sort === key ? !state.descending : !byName });
  },

  renderBody(model, names) {
    const quantities = names.map((name) => model.byName.get(name)),
      fixed = this.fixed(model).slice(1),
      selected = selectedIndex(model);
    fillRows(this.body, this.places, (index) => {
      const row = make(
        "tr",
        { "data-index": index, class: index === selected ? "selected" : null },
        make("th", { scope: "row" }, make("button", { type: "button", class: "link" }, model.headName(index))),
      );
      for (const column of fixed) row.append(make("td", { "data-column": column.key }, column.text(model, index)));
      for (const quantity of quantities) {
        const cell = make("td", { class: "number" }, format(quantity.value[index]));
        if (isSignificant(quantity, index))
          cell.append(make("span", { class: "star", title: `p ${formatP(quantity.p[index])}` }, "*"));
        row.append(cell);
      }
      return row;
    });
  },

  rowClicked(event) {
    const row = event.target.closest("tr");
    if (row) openHead(Number(row.dataset.index), row.querySelector("button"));
  },

  downloadShown() {
    const model = currentModel(),
      names = this.columns(model),
      fixed = this.fixed(model).slice(1);
    const rows = this.places.map((index) => {
      const { layer, head } = model.place(index);
      return [
        layer,
        head,
        ...fixed.map((column) => column.csv(model, index)),
        ...names.map((name) => model.byName.get(name).value[index]),
      ];
    });
    download(
      fileName("heads", model.name, "shown") + ".csv",
      "text/csv",
      csvText([["layer", "head", ...fixed.map((column) => column.key), ...names], ...rows]),
    );
  },
};

/** How filters are written, with examples of this model. */
function filterHelp({ word, heads, compared, between, column, whole }) {
  const code = (...texts) => texts.flatMap((text, place) => [place ? ", " : "", make("code", {}, text)]);
  return [
    "A word keeps heads with that role, class, relation or name: ",
    code(word),
    ". Heads and ranges: ",
    code(...heads),
    ". Comparisons take numbers: ",
    code(...[compared, between].filter(Boolean)),
    ". Add ",
    code(".p", ".low", ".high", ".n", ".rank"),
    " to a quantity",
    column ? [": ", ...code(column)] : "",
    ". ",
    whole.length ? ["Whole names are compared by ", ...code(...whole), ". "] : "",
    "Join with ",
    code("and", "or", "not"),
    " and brackets. Names are those that the page shows, or those of heads.csv.",
  ].flat();
}

/** Hand all that is known of all heads to the reader. */
export function downloadAll(model) {
  download(fileName("heads", model.name) + ".csv", "text/csv", csvText(allRows(model)));
}
