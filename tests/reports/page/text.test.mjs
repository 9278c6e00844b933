import assert from "node:assert/strict";
import { test } from "node:test";

import { fileName, format, formatInterval, formatP, shortened, withUnit } from "../../../reports/atlas/page/text.js";

test("numbers have three digits or so, and a real minus sign", () => {
  const shown = { 0: "0", 12: "12", 0.12345: "0.123", 1.23456: "1.23", 123.456: "123.5", 1234.56: "1235" };
  for (const [value, text] of Object.entries(shown)) assert.equal(format(Number(value)), text);
  assert.equal(format(-0.5), "−0.500");
  assert.equal(format(0.00012), "1.2e-4");
  assert.equal(format(12345678), "1.23e+7");
  assert.deepEqual([null, undefined, NaN].map(format), ["–", "–", "–"]);
});

test("p-values and intervals are written as in papers", () => {
  assert.deepEqual([0.0004, 0.0314, 1, null].map(formatP), ["< 0.001", "0.031", "1.000", "–"]);
  assert.equal(formatInterval(-1, 2.5), "−1 to 2.50");
  assert.equal(formatInterval(null, 2), "");
});

test("a unit stands behind its label once", () => {
  assert.equal(withUnit("accuracy", "%"), "accuracy (%)");
  assert.equal(withUnit("accuracy (%)", "%"), "accuracy (%)");
  assert.equal(withUnit("% of all words", "%"), "% of all words");
  assert.equal(withUnit("entropy in nats", "nats"), "entropy in nats");
  assert.equal(withUnit("gnats seen", "nats"), "gnats seen (nats)");
  assert.equal(withUnit("entropy", ""), "entropy");
  assert.equal(withUnit("entropy", undefined), "entropy");
  assert.equal(withUnit("speed", "1/s (mean)"), "speed (1/s (mean))");
});

test("names of files hold what every file system takes", () => {
  assert.equal(fileName("grid", "MiniLM, tuned", "a:b/c"), "grid_MiniLM_tuned_a_b_c");
  assert.equal(shortened("attention", 5), "atte…");
  assert.equal(shortened("short", 5), "short");
});
