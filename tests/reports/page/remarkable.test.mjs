import assert from "node:assert/strict";
import { test } from "node:test";

import { Model } from "../../../reports/atlas/page/data.js";
import { hasPieces, tokenUnits, unitRows, wordUnits } from "../../../reports/atlas/page/pooling.js";
import { strongestHead } from "../../../reports/atlas/page/remarkable.js";
import { sampleWords } from "../../../reports/atlas/page/sample.js";
import { distinctNames } from "../../../reports/atlas/page/text.js";

function modelOf(quantities, more = {}) {
  const raw = { name: "m", layers: 2, heads: 2, quantities, ...more };
  return new Model(raw, 0);
}

const quantity = (name, value, more = {}) => ({ name, label: name, headline: true, value, ...more });

test("the strongest head lies farthest on the remarkable side", () => {
  const even = quantity("even", [
    [1, 2],
    [3, 4],
  ]); // the last lies 1.5 / sqrt(1.25) = 1.34 deviations above
  const low = [
    [0, 10],
    [10, 10],
  ]; // the first lies 7.5 / sqrt(18.75) = 1.73 deviations below
  assert.equal(strongestHead(modelOf([even])).index, 0); // both ends are as far, the first counts
  assert.equal(strongestHead(modelOf([{ ...even, better: "high" }])).index, 3);
  const found = strongestHead(modelOf([{ ...even, better: "high" }, quantity("low", low, { better: "low" })]));
  assert.deepEqual([found.index, found.quantity], [0, "low"]);
  assert.match(found.why, /: low 0, 1\.7 standard deviations below the mean of all heads\.$/);
  const high = strongestHead(modelOf([{ ...even, better: "high" }, quantity("low", low, { better: "high" })]));
  assert.deepEqual([high.index, high.quantity], [3, "even"]); // ten is not far above 7.5
});

test("a value with little behind it is not called the largest", () => {
  const few = quantity(
    "few",
    [
      [1, 2],
      [3, 99],
    ],
    {
      better: "high",
      n: [
        [50, 50],
        [50, 2],
      ],
    },
  );
  assert.deepEqual(modelOf([few], { least_n: 30 }).counted(modelOf([few]).quantities[0]), [0, 1, 2]);
  assert.equal(strongestHead(modelOf([few], { least_n: 30 })).index, 2);
  assert.equal(strongestHead(modelOf([few])).index, 3);
  assert.equal(strongestHead(modelOf([])).why, null);
});

test("a value whose interval holds the mean of all heads does not stand out", () => {
  const wide = quantity(
    "wide",
    [
      [0, 10],
      [10, 10],
    ],
    {
      low: [
        [-9, 10],
        [10, 10],
      ],
      high: [
        [8, 10],
        [10, 10],
      ],
    },
  );
  assert.notEqual(strongestHead(modelOf([wide])).index, 0);
  wide.high[0][0] = 7; // below 7.5
  assert.equal(strongestHead(modelOf([wide])).index, 0);
});

test("coordinates in the plane are one thing, not two quantities", () => {
  const at = (which) => ({ ...quantity(`mds_${which}`, [[1, 2]]), one_of: "plane", which });
  const model = modelOf([at("x"), quantity("entropy", [[1, 2]]), at("y")]);
  assert.deepEqual(
    model.quantities.map(({ name }) => name),
    ["entropy"],
  );
  assert.deepEqual(model.plane.y.value, [1, 2]);
  assert.equal(modelOf([at("x")]).plane, null);
});

// [CLS] un ##der stand [SEP], of which the second to fourth are one word and its neighbour
const SENTENCE = {
  tokens: ["[CLS]", "un", "##der", "it", "[SEP]"],
  words: ["under", "it"],
  word_ids: [null, 0, 0, 1, null],
  maps: Buffer.from([255, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 255, 0, 0, 51, 102, 153, 0, 0, 0, 0, 0, 255]).toString(
    "base64",
  ),
};

test("attention to a word is the sum over its pieces, from it their mean", () => {
  const units = wordUnits(SENTENCE),
    rows = unitRows({ heads: 1 }, SENTENCE, 0, units);
  assert.deepEqual(
    units.map(({ label, tokens }) => [label, ...tokens]),
    [
      ["[CLS]", 0],
      ["under", 1, 2],
      ["it", 3],
      ["[SEP]", 4],
    ],
  );
  assert.deepEqual([...rows[1]], [0, 0.5, 0.5, 0]); // one piece looks at itself, the other at the next word
  const third = [...rows[2]].map((weight) => Number(weight.toFixed(6)));
  assert.deepEqual(third, [0, 0.2, 0.36, 0]); // 0.04 + 0.16
});

test("a piece is told with its word, a whole word is not", () => {
  assert.deepEqual(
    tokenUnits(SENTENCE).map(({ word }) => word),
    [null, "under", "under", null, null],
  );
  assert.equal(hasPieces(SENTENCE), true);
  assert.equal(hasPieces({ tokens: ["a"], words: ["a"], word_ids: [0] }), false);
  assert.equal(hasPieces({ tokens: ["a"] }), false); // a tokenizer that cannot tell
});

const NAMES = [
  [
    ["MiniLM", "MiniLM tuned on RTE"],
    ["MiniLM", "tuned on RTE (MiniLM)"],
  ],
  [
    ["minilm_l6", "minilm_l6, fine-tuned on mrpc"],
    ["minilm_l6", "fine-tuned on mrpc (minilm_l6)"],
  ],
  [
    ["bert-base-cased", "bert-base-uncased"],
    ["cased (bert-base)", "uncased (bert-base)"],
  ],
  [
    ["bert-base-rte", "bert-base-rta"],
    ["rte (bert-base)", "rta (bert-base)"],
  ],
  [
    ["bert", "roberta"],
    ["bert", "roberta"],
  ],
  [
    ["e5", "e5-large"],
    ["e5", "e5-large"],
  ],
  [
    ["same", "same"],
    ["same", "same"],
  ],
  [["alone"], ["alone"]],
  [[], []],
];

for (const [names, shown] of NAMES) {
  test(`${names.join(" and ")} are told apart`, () => assert.deepEqual(distinctNames(names), shown));
}

test("a sample is called one", () => {
  const of = (...sources) => sampleWords([{ raw: { sources } }]);
  assert.equal(of({ part: "text", sample: false, n: 100 }), null);
  assert.equal(of(), null);
  assert.match(of({ part: "text", sample: true, n: 5000 }), /^All runs read the packaged sample\./);
  const some = of({ part: "text", sample: true }, { part: "glue", n: 99 }, { part: "frames", n: 1000 });
  assert.match(some, /^text: the packaged sample\. glue: data in which fewer than 100 cases count\./);
});
