import assert from "node:assert/strict";
import { test } from "node:test";

import { Model } from "../../../reports/atlas/page/data.js";
import { compileFilter, filterExamples } from "../../../reports/atlas/page/filter.js";
import { RAW, model } from "./model.mjs";

function kept(text, tiny = model()) {
  const passes = compileFilter(text, tiny);
  return [0, 1, 2, 3].filter(passes).map((index) => tiny.headName(index));
}

const KEPT = {
  "": ["1-1", "1-2", "2-1", "2-2"],
  "   ": ["1-1", "1-2", "2-1", "2-2"],
  local: ["1-1", "1-2"],
  LOCAL: ["1-1", "1-2"],
  loc: ["1-1", "1-2"],
  "2-": ["2-1", "2-2"],
  diagonal: ["1-2"],
  nsubj: ["2-2"],
  "role = loc": [],
  "role = local": ["1-1", "1-2"],
  "role != local": ["2-1", "2-2"],
  "class = vertical": ["1-1"],
  "class == DIAGONAL": ["1-2"],
  "relation = nsubj": ["2-2"],
  "entropy > 1": ["1-2", "2-1"],
  "entropy >= 1": ["1-1", "1-2", "2-1"],
  "not entropy > 1": ["1-1", "2-2"], // what is missing is not above anything
  "entropy != 1": ["1-2", "2-1"],
  "1 < entropy <= 2": ["1-2"],
  "3 > entropy > 1": ["1-2"],
  "ENTROPY > 2": ["2-1"],
  '"entropy (nats)" > 2': ["2-1"],
  '"local, score" > 1': ["1-1", "1-2"],
  "sieve:local < -0.5": ["2-1"],
  "sieve:local < −0.5": ["2-1"],
  "sieve:local > entropy": ["1-1", "1-2"],
  "sieve:local.p < 0.05": ["1-1"],
  "sieve:local.low >= 4.5": ["1-2"],
  "sieve:local.high < 1": ["2-1"],
  "sieve:local.rank = 1": ["1-1", "1-2"],
  "entropy.n = 0": ["2-2"],
  "entropy.p < 1": [],
  '"odd name" = 1': ["1-2", "2-1"],
  '"odd name.rank" = 3': ["1-1", "2-2"],
  "layer = 1": ["1-1", "1-2"],
  "head = 2 and layer = 2": ["2-2"],
  "head = 2 layer = 2": ["2-2"],
  "layer = 1 or head = 1 and layer = 2": ["1-1", "1-2", "2-1"],
  "(layer = 1 or head = 1) and layer = 2": ["2-1"],
  "layer = 2 | local & block": ["1-2", "2-1", "2-2"],
  "not not local": ["1-1", "1-2"],
  "not (local or nsubj)": ["2-1"],
  "layer=1 and head>1": ["1-2"],
  '"and"': [],
  // names as the page shows them
  "entropy (nats) > 2": ["2-1"],
  "1 < entropy (nats) <= 2 or Entropy (NATS) > 2": ["1-2", "2-1"],
  "local, score > 1": ["1-1", "1-2"],
  "local, score.p < 0.05": ["1-1"],
  "local and local, score.rank = 1 and head 2": ["1-2"],
  "odd name = 1": ["1-2", "2-1"],
  "not odd name.rank = 3": ["1-2", "2-1"],
  "best relation = nsubj": ["2-2"],
  "roles = local": ["1-1", "1-2"],
  // heads and ranges
  "1-2": ["1-2"],
  "1-2 or 2-1": ["1-2", "2-1"],
  "-2": ["1-2", "2-2"],
  "head = 2-1": ["2-1"],
  "head != 2-1": ["1-1", "1-2", "2-2"],
  "head 2-1": ["2-1"],
  "Layer 2, head 1": ["2-1"],
  "layer 1-2": ["1-1", "1-2", "2-1", "2-2"],
  "layer = 2-3": ["2-1", "2-2"],
  "layer 2..7 and head 1..1": ["2-1"],
  "entropy = 1.5 to 3": ["1-2", "2-1"],
  "entropy != 1.5–3": ["1-1"],
};

for (const [text, heads] of Object.entries(KEPT)) {
  test(`“${text}” keeps ${heads.join(", ") || "nothing"}`, () => assert.deepEqual(kept(text), heads));
}

const REFUSED = {
  "entropi > 2": "There is no quantity “entropi”; near it: entropy.",
  "nothing.p > 2": "There is no quantity “nothing.p”.",
  "entropy >": "After “entropy >” a number or a name is missing.",
  "1 < entropy < )": "After “entropy <” a number or a name is missing.",
  "(layer = 1": "A bracket is not closed.",
  "layer = 1 )": "“)” is not expected here.",
  "> 2": "“>” is not expected here.",
  not: "Something is missing at the end.",
  "local and": "Something is missing at the end.",
  "layer < 1-2": "“<” takes a number; a range goes with = or !=.",
  'local "block': '“"block” cannot be read; put names with signs or spaces in double quotes.',
};

for (const [text, message] of Object.entries(REFUSED)) {
  test(`“${text}” is refused with a reason`, () => assert.throws(() => kept(text), { message }));
}

test("a head's name is that head alone", () => {
  const wide = new Model({ name: "wide", layers: 12, heads: 12, quantities: [] }, 0);
  const heads = Array.from({ length: wide.count }, (_, index) => index);
  const names = (text) => heads.filter(compileFilter(text, wide)).map((index) => wide.headName(index));
  assert.deepEqual(names("1-1"), ["1-1"]); // not 1-10, 11-1, …
  assert.deepEqual(names("8-10"), ["8-10"]);
  assert.equal(names("layer 8-10").length, 36);
  assert.equal(names("1-").length, 12);
});

test("the examples are of this model", () => {
  assert.deepEqual(filterExamples(model()), {
    word: "local",
    heads: ["2-2", "layer 1-1", "head 1..2"],
    compared: "entropy (nats) > 2 and layer < 2",
    between: "1 < entropy (nats) < 3",
    column: "local, score.p < 0.05",
    whole: ["role = local", "class = vertical"],
    all: "local and entropy (nats) > 2 and layer < 2",
  });
});

test("the examples of a model of which little is known can be read too", () => {
  const bare = new Model({ name: "bare", layers: 1, heads: 4, quantities: [RAW.quantities[2]] }, 0);
  const { word, compared, between, column, whole, all } = filterExamples(bare);
  assert.equal(compared, "odd name > 0.5 and layer < 2");
  assert.deepEqual([column, whole], [null, []]);
  assert.deepEqual(kept(compared, bare), ["1-2", "1-3"]);
  for (const text of [word, between, all]) compileFilter(text, bare);
  compileFilter(filterExamples(new Model({ name: "empty", layers: 1, heads: 4, quantities: [] }, 0)).all, bare);
});
