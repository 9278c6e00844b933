// The words that tokens are pieces of, and attention between words.

import { attentionRows } from "./data.js";

const SPECIAL_TOKEN = /^(\[[A-Z]+\]|<[^<>]+>|<\|[^|]+\|>)$/;

/** Whether any word of a sentence is in pieces, as far as the tokenizer told. */
export function hasPieces(sentence) {
  const ids = (sentence.word_ids ?? []).filter((word) => word !== null);
  return ids.length > new Set(ids).size;
}

/** A sentence as {label, word, tokens, special}, one for each token; `word` where the token is a piece of one. */
export function tokenUnits(sentence) {
  const ids = sentence.word_ids ?? [],
    pieces = new Map();
  for (const word of ids) pieces.set(word, (pieces.get(word) ?? 0) + 1);
  return sentence.tokens.map((label, token) => {
    const known = ids[token] !== undefined && ids[token] !== null;
    return {
      label,
      word: known && pieces.get(ids[token]) > 1 ? sentence.words[ids[token]] : null,
      place: known ? ids[token] : null,
      tokens: [token],
      special: SPECIAL_TOKEN.test(label),
    };
  });
}

/** The same, one for each word; special tokens stand alone. */
export function wordUnits(sentence) {
  const units = [],
    ofWord = new Map();
  for (const unit of tokenUnits(sentence)) {
    const before = unit.place === null ? null : ofWord.get(unit.place);
    if (before) before.tokens.push(...unit.tokens);
    else {
      units.push(unit.place === null ? unit : { ...unit, label: sentence.words[unit.place], word: null });
      if (unit.place !== null) ofWord.set(unit.place, units.at(-1));
    }
  }
  return units;
}

/** Attention of a head between units: to a word the sum over its tokens, from a word their mean (Clark et al., 4.1). */
export function unitRows(model, sentence, index, units) {
  const rows = attentionRows(model, sentence, index);
  return units.map(({ tokens: from }) =>
    Float64Array.from(units, ({ tokens: to }) => {
      let sum = 0;
      for (const query of from) for (const key of to) sum += rows[query][key];
      return sum / from.length;
    }),
  );
}
