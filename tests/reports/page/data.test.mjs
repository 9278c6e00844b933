import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Model,
  allRows,
  attentionRows,
  cellWords,
  csvText,
  isSignificant,
  sections,
} from "../../../reports/atlas/page/data.js";
import { RAW, model } from "./model.mjs";

test("heads are named by layer and place, and names that are none are told", () => {
  const tiny = model();
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => tiny.headName(index)),
    ["1-1", "1-2", "2-1", "2-2"],
  );
  assert.deepEqual(tiny.place(2), { layer: 2, head: 1 });
  assert.equal(tiny.headIndex("2-1"), 2);
  for (const name of ["0-1", "3-1", "1-3", "1.5-1", "x", "", null]) assert.equal(tiny.headIndex(name), null);
});

test("a class is the most frequent of what counts as one", () => {
  const tiny = model();
  assert.equal(tiny.patternClass(0), "vertical"); // though most maps are of no class
  assert.equal(tiny.patternClass(1), "diagonal");
  assert.equal(tiny.patternClass(2), null);
  assert.equal(tiny.patternClass(3), null);
  assert.equal(new Model({ ...RAW, not_a_class: undefined }, 0).patternClass(0), "unsure");
});

test("ranks count the defined heads from the largest", () => {
  const tiny = model(),
    [entropy, score] = tiny.quantities;
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => tiny.rank(entropy, index)),
    [3, 2, 1, null],
  );
  assert.equal(tiny.defined(entropy), 3);
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => tiny.rank(score, index)),
    [1, 1, 4, 3],
  );
});

test("quantities stand in the sections of the model, with their labels", () => {
  const tiny = model(),
    told = (groups) => groups.map((group) => [group.label, ...group.items.map((quantity) => quantity.name)]);
  assert.deepEqual(told(sections(tiny)), [
    ["Tests of roles", "sieve:local"],
    ["Text", "entropy"],
    ["elsewhere", "odd name"],
  ]);
  assert.deepEqual(told(sections(tiny, tiny.quantities.slice(0, 1))), [["Text", "entropy"]]);
  const without = new Model({ ...RAW, sections: undefined }, 0);
  assert.deepEqual(
    sections(without).map((group) => group.label),
    ["text", "tests", "elsewhere"],
  );
});

test("headlines and tests of roles are what the data says they are", () => {
  const tiny = model();
  assert.deepEqual(
    tiny.headlines.map((quantity) => quantity.name),
    ["entropy"],
  );
  assert.deepEqual(tiny.roleTests(), [{ role: "local", quantity: tiny.byName.get("sieve:local") }]);
});

test("a cell is told with unit, count, interval and p", () => {
  const tiny = model(),
    [entropy, score] = tiny.quantities;
  assert.deepEqual(cellWords(tiny, entropy, 0), ["entropy (nats) 1", "n 10"]);
  assert.deepEqual(cellWords(tiny, entropy, 3), ["entropy (nats) not defined", "n 0"]);
  assert.deepEqual(cellWords(tiny, score, 2), ["local, score −1", "interval −2 to 0", "p 0.050"]);
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => isSignificant(score, index)),
    [true, false, false, false],
  );
  assert.equal(isSignificant(entropy, 0), false);
});

test("CSV quotes what must be quoted and leaves out what is missing", () => {
  const rows = [
    ["a", 'say "x"', "b,c"],
    [1.5, null, undefined],
    ["two\nlines", "", 0],
  ];
  assert.equal(csvText(rows), 'a,"say ""x""","b,c"\n1.5,,\n"two\nlines",,0\n');
});

test("all data has a row for each head of each quantity", () => {
  const rows = allRows(model());
  assert.equal(rows.length, 1 + 3 * 4);
  assert.deepEqual(rows[0], ["layer", "head", "quantity", "value", "n", "low", "high", "p"]);
  assert.deepEqual(rows[4], [2, 2, "entropy", null, 0, null, null, null]);
  assert.deepEqual(rows[5], [1, 1, "sieve:local", 5, null, 4, 6, 0.01]);
});

test("a byte of a map holds 255 times the root of the weight", () => {
  const bytes = Uint8Array.from([0, 255, 51, 102, 1, 2, 3, 4, 255, 0, 0, 255, 5, 6, 7, 8]);
  const sentence = { tokens: ["a", "b"], maps: Buffer.from(bytes).toString("base64") };
  const rows = attentionRows(model(), sentence, 0).map((row) => [...row]);
  assert.deepEqual(rows, [
    [0, 1],
    [0.2 ** 2, 0.4 ** 2],
  ]);
  assert.deepEqual([...attentionRows(model(), sentence, 2)[1]], [0, 1]);
});
