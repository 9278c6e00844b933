// What only a served page has: the model behind it reads what is typed, with heads disabled, and tells what it predicts.

import { announce, make } from "./dom.js";
import { HeadSwitches } from "./live_heads.js";
import { atlas, change, currentModel, models } from "./state.js";

const PAUSE = 250; // milliseconds after the last key until the server is asked
const PAIR = " | "; // between the texts of a pair
const WAY_WORDS = { uniform: "attend to all tokens alike", zero: "add nothing", mean: "give all tokens their mean" };
const NO_SERVER = "The server does not answer; start headscope serve again and open the address that it prints.";
let answers = 0;

export class LivePanel {
  constructor() {
    this.element = make("div", { class: "card", id: "live-panel", hidden: !atlas.live });
    if (!atlas.live) return;
    this.without = models.map(() => new Set());
    this.askedFor = models.map(() => null);
    this.predictions = models.map(() => null);
    this.text = this.field("live-text", "A sentence of your own");
    this.second = this.field("live-second", "A second one, for a pair");
    this.how = make(
      "select",
      { id: "live-how", onchange: () => this.ask() },
      atlas.live.ways.map((way) => make("option", { value: way }, WAY_WORDS[way] ?? way)),
    );
    this.one = make("button", {
      type: "button",
      class: "quiet",
      id: "live-one",
      onclick: () => this.toggle(this.index),
    });
    this.none = make(
      "button",
      { type: "button", class: "quiet", id: "live-none", onclick: () => this.enableAll() },
      "Enable all heads",
    );
    this.heads = new HeadSwitches({ toggle: (index) => this.toggle(index) });
    this.status = make("p", { class: "muted", id: "live-status" });
    this.prediction = make("div", { id: "live-prediction" });
    this.build();
  }

  build() {
    this.element.append(
      make("h2", {}, "Live"),
      make("div", { class: "live-texts" }, this.text, this.second),
      this.status,
      make(
        "div",
        { class: "live-parts" },
        make(
          "div",
          {},
          make("h3", {}, "Heads: a click disables"),
          this.heads.element,
          make(
            "div",
            { class: "controls" },
            this.one,
            this.none,
            make("label", { class: "field" }, "Disabled heads ", this.how),
          ),
        ),
        make("div", {}, make("h3", {}, "What the model predicts"), this.prediction),
      ),
    );
  }

  field(id, label) {
    return make("input", {
      type: "text",
      id,
      placeholder: label,
      "aria-label": label,
      autocomplete: "off",
      oninput: () => {
        clearTimeout(this.waiting);
        this.waiting = setTimeout(() => this.ask(), PAUSE);
      },
      onkeydown: (event) => event.key === "Enter" && this.ask(),
    });
  }

  /** Follow the page: another model is asked the same, and the buttons name the head that is looked at. */
  update(model, index, sentence) {
    if (!atlas.live) return;
    Object.assign(this, { index, sentence });
    const without = this.without[model.index],
      why = atlas.live.models[model.index]?.why;
    this.heads.update(model, without, index);
    this.one.textContent = `${without.has(index) ? "Enable" : "Disable"} head ${model.headName(index)}`;
    this.none.disabled = !without.size;
    this.prediction.replaceChildren(...predictionParts(this.predictions[model.index], without.size));
    for (const part of [this.text, this.second, this.how, this.one]) part.disabled = Boolean(why);
    if (why) this.say(why, true);
    else if (this.texts().length && this.askedFor[model.index] === null) this.ask();
    else if (!this.texts().length) this.say(`Up to ${atlas.live.most_tokens} tokens; every head shows them at once.`);
  }

  texts() {
    const [first, second] = [this.text.value.trim(), this.second.value.trim()];
    return first ? [first, second].filter(Boolean) : [];
  }

  /** Disable a head, or enable it again, on the sentence that is shown. */
  toggle(index) {
    const without = this.without[currentModel().index];
    if (!without.delete(index)) without.add(index);
    this.changed();
  }

  enableAll() {
    this.without[currentModel().index].clear();
    this.changed();
  }

  changed() {
    if (this.sentence && !this.sentence.live)
      [this.text.value, this.second.value] = [...this.sentence.text.split(PAIR), ""];
    this.ask();
    this.update(currentModel(), this.index, this.sentence);
  }

  /** Ask the model; what was asked before and is not answered yet is forgotten. */
  async ask() {
    clearTimeout(this.waiting);
    this.request?.abort();
    const model = currentModel(),
      texts = this.texts(),
      size = new TextEncoder().encode(texts.join("")).length;
    if (!texts.length) return this.say("Type a sentence first.");
    this.askedFor.fill(null); // of the other models, once they are looked at
    this.askedFor[model.index] = texts;
    if (size > atlas.live.most_bytes)
      return this.say(`The text has ${size} bytes; up to ${atlas.live.most_bytes} are read here, so shorten it.`, true);
    this.request = new AbortController();
    const heads = [...this.without[model.index]].map((index) => Object.values(model.place(index)));
    const body = JSON.stringify({ model: model.index, texts, disabled: heads, how: this.how.value });
    try {
      this.take(model, await fetched(body, this.request.signal));
    } catch (error) {
      if (error.name === "Refused") this.say(error.message, true);
      else if (error.name !== "AbortError") this.say(NO_SERVER, true);
    }
  }

  /** Put the answer where the sentences are, and show it. */
  take(model, { sentence, prediction }) {
    const count = this.without[model.index].size,
      heads = count === 1 ? "1 head" : `${count} heads`,
      kept = model.sentences.filter((one) => !one.live);
    model.sentences = [...kept, { ...sentence, live: true, version: ++answers }];
    this.predictions[model.index] = prediction;
    this.say(`${sentence.tokens.length} tokens${count ? `, ${heads} disabled` : ""}.`);
    announce(`Answered${count ? `, ${heads} disabled` : ""}`);
    if (model === currentModel()) change({ sentence: kept.length });
  }

  say(text, wrong = false) {
    this.status.textContent = text;
    this.status.className = wrong ? "error" : "muted";
  }
}

/** The server's answer; an error named Refused has its sentence where it gives none. */
async function fetched(body, signal) {
  const headers = { "Content-Type": "application/json", "X-Token": atlas.live.token },
    answer = await fetch("/live", { method: "POST", headers, body, signal }),
    found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.error), { name: "Refused" });
  return found;
}

function predictionParts(prediction, count) {
  if (!prediction) return [make("p", { class: "muted" }, "Nothing yet.")];
  const parts = [];
  if (prediction.kind === "output")
    parts.push(
      make(
        "p",
        { class: "muted" },
        "This model has no trained head that predicts. What disabling changes is its output: the cosine with that of " +
          "all heads, of the means over tokens.",
      ),
    );
  if (prediction.kind === "masked" && !prediction.groups.length)
    parts.push(
      make("p", { class: "muted" }, `Write ${prediction.mask} for a word to see what the model would fill in.`),
    );
  return [...parts, ...prediction.groups.map((group) => predictionTable(group, prediction.kind, count))];
}

function predictionTable({ title, rows }, kind, count) {
  const compared = rows.some((row) => row.before !== null),
    meter = (value) =>
      kind === "score"
        ? null
        : make(
            "span",
            { class: "meter", "aria-hidden": "true" },
            make("i", { style: { width: `${(100 * Math.max(0, value)).toFixed(1)}%` } }),
          ),
    cell = (value) => make("td", { class: "number" }, value.toFixed(3), meter(value));
  const heading = (text) => make("th", { scope: "col" }, text);
  return make(
    "table",
    { class: "data" },
    make("caption", title ? {} : { class: "unseen" }, title || "Prediction"),
    make("thead", {}, make("tr", {}, heading(""), heading("all heads"), compared && heading(`without ${count}`))),
    make(
      "tbody",
      {},
      rows.map((row) =>
        make(
          "tr",
          { "data-label": row.label },
          make("th", { scope: "row" }, row.label),
          cell(row.before ?? row.value),
          compared && cell(row.value),
        ),
      ),
    ),
  );
}
