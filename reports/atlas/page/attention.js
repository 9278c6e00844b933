// Attention of one head on one sentence: lines between two columns of tokens, a heat map, and all heads at a glance.

import { Chooser } from "./chooser.js";
import { rampColour, themed } from "./colours.js";
import { attentionRows } from "./data.js";
import { announce, draw, hideTip, make, showTip } from "./dom.js";
import { canvas, figureFrame } from "./figure.js";
import { Overview } from "./overview.js";
import { openHead } from "./selection.js";
import { change, currentModel, selectedIndex, state } from "./state.js";
import { fileName, shortened, words } from "./text.js";

const SPECIAL_TOKEN = /^(\[[A-Z]+\]|<[^<>]+>|<\|[^|]+\|>)$/;
const FAINTEST = 0.02;

export const attentionView = {
  build(root) {
    this.chooser = new Chooser({
      label: "Sentence",
      placeholder: "Search the sentences",
      id: "sentence",
      choose: (key) => change({ sentence: Number(key) }),
    });
    this.chooser.element
      .querySelector(".chooser-body")
      .append(
        make(
          "p",
          { class: "muted hint" },
          "Your own sentence joins this list when the run is started with ",
          make("code", {}, "'sentences=[\"…\"]'"),
          ".",
        ),
      );
    this.layer = make("select", { id: "attention-layer", onchange: () => this.pickHead() });
    this.head = make("select", { id: "attention-head", onchange: () => this.pickHead() });
    this.special = make("input", {
      type: "checkbox",
      id: "special",
      onchange: () => change({ special: this.special.checked }),
    });
    this.title = make("h2", { id: "attention-title" });
    this.text = make("p", { class: "muted lead" });
    this.known = make("p", { class: "chips" });
    this.figures = make("div", { class: "pair" });
    this.readout = make("div", { class: "readout", id: "readout" });
    this.overview = new Overview({ pick: (index) => this.show(index) });
    const step = (label, text, by) =>
      make("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => this.step(by) }, text);
    this.card = make(
      "div",
      { class: "card" },
      make(
        "div",
        { class: "card-head" },
        make("div", {}, this.title, this.text),
        make(
          "button",
          { type: "button", class: "quiet small", id: "attention-panel", onclick: () => openHead(this.index()) },
          "All about this head",
        ),
      ),
      make(
        "div",
        { class: "controls" },
        make("label", { class: "field" }, "Layer ", this.layer),
        make("label", { class: "field" }, "Head ", this.head),
        make("span", { class: "joined" }, step("Previous head", "‹", -1), step("Next head", "›", 1)),
        make("label", { class: "check" }, this.special, "Leave out special tokens"),
      ),
      this.known,
      this.figures,
    );
    this.nothing = make(
      "div",
      { class: "card notice" },
      make("h2", {}, "Attention"),
      make(
        "p",
        {},
        "No sentence was kept in this run. Start it again with ",
        make("code", {}, "'sentences=[\"The cat sat on the mat.\"]'"),
        " to see attention here.",
      ),
    );
    root.append(
      make(
        "div",
        { class: "columns" },
        this.chooser.element,
        make("div", { class: "content" }, this.card, this.overview.element, this.nothing),
      ),
    );
  },

  index() {
    return selectedIndex(currentModel()) ?? 0;
  },

  pickHead() {
    const { heads } = currentModel();
    this.show((Number(this.layer.value) - 1) * heads + Number(this.head.value) - 1);
  },

  step(by) {
    const { count } = currentModel();
    this.show((this.index() + by + count) % count);
  },

  /** Change the head; the panel stays as open as it was. */
  show(index) {
    const model = currentModel();
    change({ head: model.headName(index), panel: state.panel && state.head !== null });
    announce(`layer ${model.place(index).layer} head ${model.place(index).head}`);
  },

  render() {
    const model = currentModel(),
      sentence = model.sentences[state.sentence] ?? model.sentences[0];
    this.card.hidden = this.overview.element.hidden = this.chooser.element.hidden = !sentence;
    this.nothing.hidden = Boolean(sentence);
    this.title.textContent = "Attention";
    if (!sentence) return;
    this.chooser.setGroups(sentenceGroups(model));
    this.chooser.setChosen([model.sentences.indexOf(sentence)], shortened(sentence.text, 40));
    const index = this.index(),
      { layer, head } = model.place(index);
    fillNumbers(this.layer, model.layers, layer);
    fillNumbers(this.head, model.heads, head);
    this.special.checked = state.special;
    this.title.textContent = `Layer ${layer}, head ${head}`;
    this.text.textContent = `“${sentence.text}”`;
    const roles = model.roles(index),
      name = model.patternClass(index);
    this.known.replaceChildren(
      ...roles.map((role) => make("span", { class: "chip" }, words(role))),
      ...(name ? [make("span", { class: "chip plain" }, `mostly ${words(name)}`)] : []),
    );
    const rows = attentionRows(model, sentence, index);
    const kept = sentence.tokens
      .map((_, place) => place)
      .filter((place) => !state.special || !SPECIAL_TOKEN.test(sentence.tokens[place]));
    this.rows = rows;
    this.tokens = sentence.tokens;
    this.kept = kept;
    const nameOf = (kind) =>
      fileName(kind, model.name, model.headName(index), `sentence${model.sentences.indexOf(sentence) + 1}`);
    this.lines = this.lineDrawing(`Attention of head ${model.headName(index)} as lines`);
    this.heat = this.heatDrawing(`Attention of head ${model.headName(index)} as a heat map`);
    this.figures.replaceChildren(
      figureFrame("Lines: from each token (left) to what it attends to (right)", this.lines, nameOf("lines")),
      make(
        "div",
        {},
        figureFrame("Heat map: rows attend to columns", this.heat, nameOf("heatmap"), attentionLegend()),
        this.readout,
      ),
    );
    this.pinned = null;
    this.focusRow(null);
    this.overview.update(model, sentence, kept, index);
  },

  /** Bring out what one token attends to, in both figures and in words; null shows all again. */
  focusRow(query) {
    if (query === null) query = this.pinned;
    this.query = query;
    this.lines.classList.toggle("one-row", query !== null);
    this.lines
      .querySelectorAll("[data-query]")
      .forEach((part) => part.classList.toggle("on", Number(part.dataset.query) === query));
    this.lines
      .querySelectorAll("[data-key]")
      .forEach((part) =>
        part.setAttribute(
          "fill-opacity",
          query === null ? 0 : Math.sqrt(this.rows[query][Number(part.dataset.key)]).toFixed(3),
        ),
      );
    const marker = this.heat.querySelector(".row-marker"),
      place = this.kept.indexOf(query);
    marker.setAttribute("visibility", place < 0 ? "hidden" : "visible");
    if (place >= 0) marker.setAttribute("y", this.heatTop + place * this.heatSize);
    this.readout.replaceChildren(...this.rowWords(query));
  },

  rowWords(query) {
    if (query === null)
      return [
        make(
          "p",
          { class: "muted" },
          "Point at a token, or walk the left column with the arrow keys, to see its row in numbers; a click keeps it.",
        ),
      ];
    const order = this.kept
      .slice()
      .sort((a, b) => this.rows[query][b] - this.rows[query][a])
      .slice(0, 10);
    return [
      make("p", {}, make("strong", { class: "token" }, this.tokens[query]), " attends to"),
      make(
        "ol",
        { class: "weights" },
        order.map((key) =>
          make(
            "li",
            { "data-readout": key },
            make("span", { class: "token" }, this.tokens[key]),
            make("span", { class: "number" }, this.rows[query][key].toFixed(3)),
            make(
              "span",
              { class: "meter", "aria-hidden": "true" },
              make("i", { style: { width: `${(100 * this.rows[query][key]).toFixed(1)}%` } }),
            ),
          ),
        ),
      ),
    ];
  },

  lineDrawing(label) {
    const { rows, tokens, kept } = this,
      line = 22,
      height = kept.length * line + 8;
    const column = 24 + 7.7 * Math.max(...kept.map((token) => Math.min(tokens[token].length, 18))),
      left = column,
      right = column + 170,
      width = right + column;
    const y = new Map(kept.map((token, place) => [token, place * line + line / 2 + 4]));
    const svg = canvas(width, height, label, { class: "lines", role: "group" });
    for (const query of kept) {
      const paths = kept
        .filter((key) => rows[query][key] >= FAINTEST)
        .map((key) =>
          draw("path", {
            class: "link-line",
            d: `M${left} ${y.get(query)}C${left + 50} ${y.get(query)} ${right - 50} ${y.get(key)} ${right} ${y.get(key)}`,
            "stroke-opacity": Math.min(1, rows[query][key] + 0.04).toFixed(3),
            "stroke-width": (0.8 + 3 * rows[query][key]).toFixed(2),
          }),
        );
      svg.append(draw("g", { class: "links", "data-query": query }, paths));
    }
    const strongest = (query) =>
      kept
        .slice()
        .sort((a, b) => rows[query][b] - rows[query][a])
        .slice(0, 3)
        .map((key) => `${tokens[key]} ${rows[query][key].toFixed(2)}`)
        .join(", ");
    const from = kept.map((query, place) =>
      draw(
        "g",
        {
          class: "token-from",
          role: "option",
          tabindex: place ? "-1" : "0",
          "data-query": query,
          "aria-selected": "false",
          "aria-label": `${tokens[query]}, attends to ${strongest(query)}`,
        },
        draw("rect", {
          class: "token-box",
          x: 2,
          y: y.get(query) - line / 2 + 1,
          width: left - 6,
          height: line - 2,
          rx: 4,
        }),
        draw(
          "text",
          { x: left - 10, y: y.get(query) + 4, "text-anchor": "end", class: "token-text" },
          shortened(tokens[query], 18),
        ),
      ),
    );
    const to = kept.map((key) =>
      draw(
        "g",
        { "aria-hidden": "true" },
        draw("rect", {
          class: "token-weight",
          "data-key": key,
          x: right + 4,
          y: y.get(key) - line / 2 + 1,
          width: width - right - 6,
          height: line - 2,
          rx: 4,
          "fill-opacity": 0,
        }),
        draw("text", { x: right + 10, y: y.get(key) + 4, class: "token-text" }, shortened(tokens[key], 18)),
      ),
    );
    svg.append(draw("g", { role: "listbox", "aria-label": "Tokens that attend" }, from), ...to);
    this.listen(svg);
    return svg;
  },

  listen(svg) {
    const queryOf = (event) => event.target.closest?.(".token-from")?.dataset.query;
    svg.addEventListener(
      "pointerover",
      (event) => queryOf(event) !== undefined && this.focusRow(Number(queryOf(event))),
    );
    svg.addEventListener("pointerleave", () => this.focusRow(null));
    svg.addEventListener("focusin", (event) => queryOf(event) !== undefined && this.focusRow(Number(queryOf(event))));
    svg.addEventListener("focusout", () => this.focusRow(null));
    svg.addEventListener("click", (event) => {
      if (queryOf(event) === undefined) return;
      this.pinned = this.pinned === Number(queryOf(event)) ? null : Number(queryOf(event));
      this.focusRow(Number(queryOf(event)));
    });
    svg.addEventListener("keydown", (event) => this.walk(event, svg));
  },

  walk(event, svg) {
    const tokens = [...svg.querySelectorAll(".token-from")],
      at = tokens.indexOf(event.target.closest(".token-from"));
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: tokens.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ")
      event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    if (next !== undefined || event.key === " ") event.preventDefault();
    if (!tokens[next]) return;
    tokens[at].setAttribute("tabindex", "-1");
    tokens[next].setAttribute("tabindex", "0");
    tokens[next].focus();
  },

  heatDrawing(label) {
    const { rows, tokens, kept } = this,
      size = Math.max(7, Math.min(24, Math.floor(340 / kept.length))),
      longest = Math.max(...kept.map((token) => Math.min(tokens[token].length, 12)));
    const left = 12 + 6.8 * longest,
      top = 14 + 6 * longest,
      margin = 4 + 3.5 * longest;
    Object.assign(this, { heatSize: size, heatTop: top });
    const side = kept.length * size,
      svg = canvas(left + side + margin, top + side + 4, label, { class: kept.length > 24 ? "heat natural" : "heat" });
    const ramp = themed("attention"),
      cells = new Map();
    kept.forEach((query, row) =>
      kept.forEach((key, column) => {
        const colour = rampColour(ramp, Math.round(Math.sqrt(rows[query][key]) * 48) / 48);
        cells.set(
          colour,
          (cells.get(colour) ?? "") + `M${left + column * size} ${top + row * size}h${size}v${size}h-${size}z`,
        );
      }),
    );
    for (const [colour, path] of cells)
      svg.append(draw("path", { d: path, fill: colour, "shape-rendering": "crispEdges" })); // one path per colour: fast for long sentences
    const every = Math.ceil(11 / size);
    kept.forEach((token, place) => {
      if (place % every) return;
      const at = (place + 0.5) * size,
        text = shortened(tokens[token], 12);
      svg.append(
        draw("text", { x: left - 5, y: top + at + 4, "text-anchor": "end", class: "heat-text" }, text),
        draw(
          "text",
          { x: left + at + 4, y: top - 6, transform: `rotate(-60 ${left + at + 4} ${top - 6})`, class: "heat-text" },
          text,
        ),
      );
    });
    svg.append(
      draw("rect", { class: "heat-frame", x: left, y: top, width: side, height: side }),
      draw("rect", { class: "row-marker", x: left, y: top, width: side, height: size, visibility: "hidden" }),
    );
    const cellOf = (event) => {
      const box = svg.getBoundingClientRect(),
        unit = (left + side + margin) / box.width;
      return [
        Math.floor(((event.clientY - box.top) * unit - top) / size),
        Math.floor(((event.clientX - box.left) * unit - left) / size),
      ].map((place) => kept[place]);
    };
    svg.addEventListener("pointermove", (event) => {
      const [query, key] = cellOf(event);
      if (query === undefined || key === undefined) return hideTip();
      showTip(event, [`${tokens[query]} → ${tokens[key]}`, rows[query][key].toFixed(3)]);
      if (query !== this.query) this.focusRow(query);
    });
    svg.addEventListener("pointerleave", () => {
      hideTip();
      this.focusRow(null);
    });
    return svg;
  },
};

function attentionLegend() {
  const ramp = themed("attention"),
    stops = Array.from({ length: 11 }, (_, step) => rampColour(ramp, step / 10)).join(", ");
  return make(
    "div",
    { class: "legend" },
    make(
      "div",
      { class: "legend-scale" },
      make("div", { class: "legend-bar", style: { background: `linear-gradient(to right, ${stops})` } }),
      make(
        "div",
        { class: "legend-ticks" },
        ["0", "0.25", "1"].map((tick) => make("span", {}, tick)),
      ),
    ),
    make("span", { class: "legend-mark" }, "attention weight, coloured by its root"),
  );
}

const sentenceGroupsOf = new WeakMap();

function sentenceGroups(model) {
  if (!sentenceGroupsOf.has(model)) {
    sentenceGroupsOf.set(model, [
      {
        label: "",
        items: model.sentences.map((sentence, key) => ({
          key,
          label: sentence.text,
          note: sentence.typed ? "yours" : `${sentence.tokens.length} tokens`,
        })),
      },
    ]);
  }
  return sentenceGroupsOf.get(model);
}

/** Options 1 to count in a select, made again only when the count changes. */
function fillNumbers(select, count, chosen) {
  if (select.options.length !== count)
    select.replaceChildren(
      ...Array.from({ length: count }, (_, place) => make("option", { value: place + 1 }, String(place + 1))),
    );
  select.value = String(chosen);
}
