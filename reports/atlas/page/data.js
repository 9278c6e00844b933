// The atlas inside this page: models, their quantities as flat columns, what is known of a head, CSV.

import { ranked } from "./statistics.js";
import { format, formatInterval, formatP, withUnit, words } from "./text.js";

const COLUMNS = ["value", "n", "low", "high", "p"];
const ROLE_SCORE = "role_score"; // the family of quantities that test roles
const PLANE = "plane"; // the family of the two coordinates of heads in the plane
const HEADLINES = 8; // as many as are told at once
export const SIGNIFICANT = 0.05;

/** The embedded JSON; a large one is packed with gzip, which browsers unpack themselves. */
export async function readAtlas() {
  const script = document.getElementById("atlas");
  if (script.type === "application/json") return JSON.parse(script.textContent);
  const bytes = Uint8Array.from(atob(script.textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export class Model {
  constructor(raw, index) {
    Object.assign(this, { raw, index, name: raw.name, layers: raw.layers, heads: raw.heads });
    this.count = raw.layers * raw.heads;
    this.all = raw.quantities.map(flatQuantity);
    const [x, y] = ["x", "y"].map((axis) => this.all.find(({ oneOf, which }) => oneOf === PLANE && which === axis));
    this.plane = x && y ? { x, y } : null; // a point each: alone, a coordinate says nothing
    this.quantities = this.all.filter((quantity) => !this.plane || quantity.oneOf !== PLANE);
    this.byName = new Map(this.quantities.map((quantity) => [quantity.name, quantity]));
    this.headlines = this.quantities.filter((quantity) => quantity.headline).slice(0, HEADLINES);
    this.notClasses = new Set(raw.not_a_class);
    this.leastN = raw.least_n ?? 1;
    this.sentences = raw.sentences ?? [];
    this.ranks = new Map();
  }

  headName(index) {
    return `${Math.floor(index / this.heads) + 1}-${(index % this.heads) + 1}`;
  }

  place(index) {
    return { layer: Math.floor(index / this.heads) + 1, head: (index % this.heads) + 1 };
  }

  /** The place of "3-5" in a column, or null where this model has no such head. */
  headIndex(name) {
    const [layer, head] = String(name).split("-").map(Number);
    const known = layer >= 1 && layer <= this.layers && head >= 1 && head <= this.heads;
    return known && Number.isInteger(layer) && Number.isInteger(head) ? (layer - 1) * this.heads + head - 1 : null;
  }

  /** The heads whose value has enough behind it to be called the largest or best of all. */
  counted(quantity) {
    const enough = (index) => !quantity.n || quantity.n[index] === null || quantity.n[index] >= this.leastN;
    return quantity.value.map((_, index) => index).filter((index) => quantity.value[index] !== null && enough(index));
  }

  roles(index) {
    return this.raw.roles?.[this.headName(index)] ?? [];
  }

  /** Shares of the pattern classes of a head, largest first only for `patternClass`. */
  pattern(index) {
    return this.raw.pattern?.[this.headName(index)] ?? null;
  }

  /** The most frequent class, of what counts as one. */
  patternClass(index) {
    const shares = Object.entries(this.pattern(index) ?? {}).filter(
      ([name, share]) => !this.notClasses.has(name) && share > 0,
    );
    return shares.length ? shares.reduce((best, next) => (next[1] > best[1] ? next : best))[0] : null;
  }

  relations(index) {
    return this.raw.relations?.[this.headName(index)] ?? [];
  }

  /** For every role that is tested the quantity whose p-values test it. */
  roleTests() {
    const found = new Map();
    for (const quantity of this.quantities) {
      if (quantity.oneOf === ROLE_SCORE && quantity.p && !found.has(quantity.which))
        found.set(quantity.which, quantity);
    }
    return [...found].map(([role, quantity]) => ({ role, quantity }));
  }

  /** Rank of each head, 1 for the largest value; equal values share a rank, null where there is no value. */
  rank(quantity, index) {
    if (!this.ranks.has(quantity.name)) this.ranks.set(quantity.name, ranked(quantity.value));
    return this.ranks.get(quantity.name).rank[index];
  }

  defined(quantity) {
    this.rank(quantity, 0);
    return this.ranks.get(quantity.name).count;
  }
}

function flatQuantity(raw) {
  const columns = Object.fromEntries(COLUMNS.map((name) => [name, raw[name] ? raw[name].flat() : null]));
  return {
    name: raw.name,
    section: raw.section ?? "other",
    label: withUnit(raw.label ?? words(raw.name), raw.unit),
    labelAlone: raw.label ?? words(raw.name),
    description: raw.description ?? "",
    headline: Boolean(raw.headline),
    better: raw.better ?? null,
    oneOf: raw.one_of ?? null,
    which: raw.which ?? null,
    ...columns,
  };
}

/** Quantities by section, in the order of the model's sections; those that it does not list come last. */
export function sections(model, quantities = model.quantities) {
  const listed = model.raw.sections ?? [];
  const groups = new Map(listed.map(({ name, label }) => [name, { label: label ?? words(name), items: [] }]));
  for (const quantity of quantities) {
    if (!groups.has(quantity.section)) groups.set(quantity.section, { label: words(quantity.section), items: [] });
    groups.get(quantity.section).items.push(quantity);
  }
  return [...groups.values()].filter((group) => group.items.length);
}

/** One sentence about a cell, for labels and tips. */
export function cellWords(model, quantity, index) {
  const parts = [`${quantity.label} ${format(quantity.value[index])}`];
  if (quantity.value[index] === null) parts[0] = `${quantity.label} not defined`;
  if (quantity.n && quantity.n[index] !== null) parts.push(`n ${format(quantity.n[index])}`);
  const interval = formatInterval(quantity.low?.[index], quantity.high?.[index]);
  if (interval) parts.push(`interval ${interval}`);
  if (quantity.p && quantity.p[index] !== null) parts.push(`p ${formatP(quantity.p[index])}`);
  return parts;
}

export function isSignificant(quantity, index) {
  return Boolean(quantity.p) && quantity.p[index] !== null && quantity.p[index] < SIGNIFICANT;
}

/** Attention of one head on one sentence, rows of weights; a byte holds 255 times the root. */
export function attentionRows(model, sentence, index) {
  const size = sentence.tokens.length,
    bytes = sentenceBytes(sentence),
    rows = [];
  for (let query = 0; query < size; query++) {
    const start = (index * size + query) * size;
    rows.push(Float64Array.from(bytes.subarray(start, start + size), (byte) => (byte / 255) ** 2));
  }
  return rows;
}

const decodedSentences = new WeakMap();

export function sentenceBytes(sentence) {
  if (!decodedSentences.has(sentence)) {
    decodedSentences.set(
      sentence,
      Uint8Array.from(atob(sentence.maps), (letter) => letter.charCodeAt(0)),
    );
  }
  return decodedSentences.get(sentence);
}

export function csvText(rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}

/** Everything about every head, tidy, as in heads.csv. */
export function allRows(model) {
  const rows = [["layer", "head", "quantity", ...COLUMNS]];
  for (const quantity of model.all) {
    for (let index = 0; index < model.count; index++) {
      const { layer, head } = model.place(index);
      rows.push([layer, head, quantity.name, ...COLUMNS.map((name) => quantity[name]?.[index] ?? null)]);
    }
  }
  return rows;
}
