import assert from "node:assert/strict";
import { test } from "node:test";

import {
  differences,
  extent,
  mean,
  niceTicks,
  pairedPlaces,
  pearson,
  ranked,
  spearman,
} from "../../../reports/atlas/page/statistics.js";

const near = (found, expected) => assert.ok(Math.abs(found - expected) < 1e-12, `${found} is not ${expected}`);

test("the mean leaves out what is missing", () => {
  assert.equal(mean([1, null, 2, 6]), 3);
  assert.equal(mean([null]), null);
  assert.equal(mean([]), null);
});

test("the extent is that of what is defined", () => {
  assert.deepEqual(extent([null, 3, -1, 2]), [-1, 3]);
  assert.deepEqual(extent([0]), [0, 0]);
  assert.equal(extent([null]), null);
});

test("only places with both values are paired", () => {
  assert.deepEqual(pairedPlaces([1, null, 3, 4], [0, 2, null, 0]), [0, 3]);
});

test("Pearson's correlation as by hand", () => {
  // Deviations from the means: −1.5 −0.5 0.5 1.5 and −1 −3 3 1, so 6 / √(5 · 20).
  near(pearson([1, 2, 3, 4], [2, 0, 6, 4]), 0.6);
  near(pearson([1, 2, null, 3, 4], [2, 0, 100, 6, 4]), 0.6);
  near(pearson([1, 2, 3], [-2, -4, -6]), -1);
  assert.equal(pearson([1, 2, null], [1, 2, 3]), null); // two points always lie on a line
  assert.equal(pearson([1, 1, 1], [1, 2, 3]), null); // without spread there is nothing to correlate
});

test("Spearman's correlation as by hand", () => {
  // Ranks 1 2 3 4 5 and 2 1 4 3 5: 1 − 6 · 4 / (5 · 24).
  near(spearman([10, 20, 30, 40, 1000], [2, 1, 4, 3, 5]), 0.8);
  // Ranks 1 2.5 2.5 4 and 1 2 3 4: the products of deviations sum to 4.5, the squares to 4.5 and 5.
  near(spearman([1, 5, 5, 9], [1, 2, 3, 4]), 4.5 / Math.sqrt(4.5 * 5));
  // What is missing is left out before ranks are given.
  near(spearman([10, 15, 20, 30, 40, 1000], [2, null, 1, 4, 3, 5]), 0.8);
});

test("differences are B minus A where both are defined", () => {
  assert.deepEqual(differences([1, null, 3, 4], [5, 2, null, 3]), [4, null, null, -1]);
});

test("ticks are round and lie within the range", () => {
  assert.deepEqual(niceTicks(0, 10), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(niceTicks(0.3, 3.9, 4), [1, 2, 3]);
  assert.deepEqual(niceTicks(-0.1, 0.1, 4), [-0.1, -0.05, 0, 0.05, 0.1]);
  assert.deepEqual(niceTicks(0, 1e-7, 2), [0, 5e-8, 1e-7]);
  assert.deepEqual(niceTicks(2, 2), [2]);
});

test("equal values share the better rank, and missing ones have none", () => {
  assert.deepEqual(ranked([5, null, 7, 5, 1]), { rank: [2, null, 1, 2, 4], count: 4 });
  assert.deepEqual(ranked([null, null]), { rank: [null, null], count: 0 });
});
