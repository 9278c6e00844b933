// Attention of one head on one sentence: lines between two columns, a heat map, and all heads at a glance.

import { attentionLegend, heatDrawing } from "./attention_heat.js";
import { lineDrawing } from "./attention_lines.js";
import { Chooser } from "./chooser.js";
import { announce, make } from "./dom.js";
import { figureFrame } from "./figure.js";
import { LivePanel } from "./live.js";
import { Overview } from "./overview.js";
import { hasPieces, tokenUnits, unitRows, wordUnits } from "./pooling.js";
import { strongestHead } from "./remarkable.js";
import { isNarrow, room } from "./screen.js";
import { openHead } from "./selection.js";
import { change, currentModel, panelIsOpen, selectedIndex, state } from "./state.js";
import { fileName, shortened, words } from "./text.js";

const MANY = 24; // units beyond which the figures stand below each other

export const attentionView = {
  build(root) {
    this.buildChooser();
    this.layer = make("select", { id: "attention-layer", onchange: () => this.pickHead() });
    this.head = make("select", { id: "attention-head", onchange: () => this.pickHead() });
    const box = (key) =>
      make("input", { type: "checkbox", id: key, onchange: (event) => change({ [key]: event.target.checked }) });
    this.special = box("special");
    this.words = box("words");
    this.title = make("h2", { id: "attention-title" });
    this.text = make("p", { class: "muted lead" });
    this.why = make("p", { class: "why", "data-part": "why" });
    this.known = make("p", { class: "chips" });
    this.figures = make("div", { class: "pair" });
    this.readout = make("div", { class: "readout", id: "readout" });
    this.overview = new Overview({ pick: (index) => this.show(index) });
    this.live = new LivePanel();
    this.buildCard();
    room.listeners.push(() => this.fit());
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
        make("div", { class: "content" }, this.live.element, this.card, this.overview.element, this.nothing),
      ),
    );
  },

  buildChooser() {
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
  },

  buildCard() {
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
      this.why,
      make(
        "div",
        { class: "controls" },
        make("label", { class: "field" }, "Layer ", this.layer),
        make("label", { class: "field" }, "Head ", this.head),
        make("span", { class: "joined" }, step("Previous head", "‹", -1), step("Next head", "›", 1)),
        make("label", { class: "check" }, this.special, "Leave out special tokens"),
        make("label", { class: "check" }, this.words, "Words in place of tokens"),
      ),
      this.known,
      this.figures,
    );
  },

  /** Draw anew where the figures are of another width than there is room for. */
  fit() {
    if (state.view === "attention" && this.narrow !== isNarrow()) this.render();
  },

  index() {
    return selectedIndex(currentModel()) ?? strongestHead(currentModel()).index;
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
    change({ head: model.headName(index), panel: panelIsOpen() });
    announce(`layer ${model.place(index).layer} head ${model.place(index).head}`);
  },

  render() {
    const model = currentModel(),
      sentence = model.sentences[state.sentence] ?? model.sentences[0];
    this.card.hidden = this.overview.element.hidden = this.chooser.element.hidden = !sentence;
    this.nothing.hidden = Boolean(sentence) || !this.live.element.hidden;
    this.live.update(model, this.index(), sentence);
    this.title.textContent = "Attention";
    if (!sentence) return;
    this.chooser.setGroups(sentenceGroups(model));
    this.chooser.setChosen([model.sentences.indexOf(sentence)], shortened(sentence.text, 40));
    const index = this.index();
    this.renderHead(model, sentence, index);
    const units = state.words && hasPieces(sentence) ? wordUnits(sentence) : tokenUnits(sentence),
      kept = units.map((_, place) => place).filter((place) => !state.special || !units[place].special);
    this.renderFigures(model, sentence, index, { units, kept, rows: unitRows(model, sentence, index, units) });
    const tokens = kept.flatMap((place) => units[place].tokens);
    this.overview.update(model, sentence, tokens, index);
  },

  renderHead(model, sentence, index) {
    const { layer, head } = model.place(index),
      roles = model.roles(index),
      name = model.patternClass(index);
    fillNumbers(this.layer, model.layers, layer);
    fillNumbers(this.head, model.heads, head);
    this.special.checked = state.special;
    this.words.checked = state.words;
    this.words.closest("label").hidden = !hasPieces(sentence);
    this.title.textContent = `Layer ${layer}, head ${head}`;
    this.text.textContent = `“${sentence.text}”`;
    this.why.textContent = strongestHead(model).index === index ? strongestHead(model).why : "";
    this.why.hidden = !this.why.textContent || panelIsOpen(); // then the panel says it
    this.known.replaceChildren(
      ...roles.map((role) => make("span", { class: "chip" }, words(role))),
      ...(name ? [make("span", { class: "chip plain" }, `mostly ${words(name)}`)] : []),
    );
  },

  /** shown: the units of the sentence, which of them are drawn, and the rows of attention between them. */
  renderFigures(model, sentence, index, shown) {
    this.shown = shown;
    this.narrow = isNarrow();
    const nameOf = (kind) =>
      fileName(kind, model.name, model.headName(index), `sentence${model.sentences.indexOf(sentence) + 1}`);
    const unit = state.words && hasPieces(sentence) ? "word" : "token";
    this.lines = lineDrawing(shown, `Attention of head ${model.headName(index)} as lines`, {
      focus: (query) => this.focusRow(query),
      pin: (query) => {
        this.pinned = this.pinned === query ? null : query;
        this.focusRow(query);
      },
    });
    this.heat = heatDrawing(shown, `Attention of head ${model.headName(index)} as a heat map`, {
      focus: (query) => query !== this.query && this.focusRow(query),
    });
    const many = shown.kept.length > MANY;
    this.figures.classList.toggle("stacked", many);
    const heat = figureFrame(
      `Heat map: rows attend to columns, ${unit}s`,
      this.heat.svg,
      nameOf("heatmap"),
      attentionLegend(),
    );
    this.figures.replaceChildren(
      figureFrame(`Lines: from each ${unit} (left) to what it attends to (right)`, this.lines, nameOf("lines")),
      ...(many ? [this.readout, heat] : [make("div", {}, heat, this.readout)]), // numbers beside a long figure
    );
    this.pinned = null;
    this.focusRow(null);
  },

  /** Bring out what one token or word attends to, in both figures and in words; null shows all again. */
  focusRow(query) {
    if (query === null) query = this.pinned;
    this.query = query;
    const { rows } = this.shown;
    this.lines.classList.toggle("one-row", query !== null);
    this.lines
      .querySelectorAll("[data-query]")
      .forEach((part) => part.classList.toggle("on", Number(part.dataset.query) === query));
    this.lines
      .querySelectorAll("[data-key]")
      .forEach((part) =>
        part.setAttribute(
          "fill-opacity",
          query === null ? 0 : Math.sqrt(rows[query][Number(part.dataset.key)]).toFixed(3),
        ),
      );
    this.heat.mark(query);
    this.readout.replaceChildren(...this.rowWords(query));
  },

  rowWords(query) {
    const { units, kept, rows } = this.shown;
    if (query === null)
      return [
        make(
          "p",
          { class: "muted" },
          "Point at a token, or walk the left column with the arrow keys, to see its row in numbers; a click keeps it.",
        ),
      ];
    const order = kept
      .slice()
      .sort((a, b) => rows[query][b] - rows[query][a])
      .slice(0, 10);
    return [
      make("p", {}, make("strong", { class: "token" }, units[query].label), ofWord(units[query]), " attends to"),
      make(
        "ol",
        { class: "weights" },
        order.map((key) =>
          make(
            "li",
            { "data-readout": key },
            make("span", { class: "token" }, units[key].label, ofWord(units[key])),
            make("span", { class: "number" }, rows[query][key].toFixed(3)),
            make(
              "span",
              { class: "meter", "aria-hidden": "true" },
              make("i", { style: { width: `${(100 * rows[query][key]).toFixed(1)}%` } }),
            ),
          ),
        ),
      ),
    ];
  },
};

/** The word that a token is a piece of. */
function ofWord(unit) {
  return unit.word && make("span", { class: "of-word" }, ` ${unit.word}`);
}

const sentenceGroupsOf = new WeakMap();

function sentenceGroups(model) {
  if (!sentenceGroupsOf.has(model.sentences)) {
    sentenceGroupsOf.set(model.sentences, [
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
  return sentenceGroupsOf.get(model.sentences);
}

/** Options 1 to count in a select, made again only when the count changes. */
function fillNumbers(select, count, chosen) {
  if (select.options.length !== count)
    select.replaceChildren(
      ...Array.from({ length: count }, (_, place) => make("option", { value: place + 1 }, String(place + 1))),
    );
  select.value = String(chosen);
}
