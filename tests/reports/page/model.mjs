// A model of two layers of two heads, small enough to compute everything by hand.

import { Model } from "../../../reports/atlas/page/data.js";

export const RAW = {
  name: "tiny",
  layers: 2,
  heads: 2,
  sections: [
    { name: "tests", label: "Tests of roles" },
    { name: "text", label: "Text" },
  ],
  not_a_class: ["unsure"],
  quantities: [
    {
      name: "entropy",
      section: "text",
      label: "entropy",
      unit: "nats",
      headline: true,
      value: [
        [1, 2],
        [3, null],
      ],
      n: [
        [10, 10],
        [10, 0],
      ],
    },
    {
      name: "sieve:local",
      section: "tests",
      label: "local, score",
      one_of: "role_score",
      which: "local",
      value: [
        [5, 5],
        [-1, 0.5],
      ],
      low: [
        [4, 4.5],
        [-2, 0],
      ],
      high: [
        [6, 5.5],
        [0, 1],
      ],
      p: [
        [0.01, 0.2],
        [0.05, null],
      ],
    },
    {
      name: "odd name",
      section: "elsewhere",
      value: [
        [0, 1],
        [1, 0],
      ],
    },
  ],
  roles: { "1-1": ["local"], "1-2": ["local", "block"], "2-1": [] },
  pattern: {
    "1-1": { vertical: 0.25, diagonal: 0.15, unsure: 0.6 },
    "1-2": { vertical: 0.2, diagonal: 0.8, unsure: 0 },
    "2-1": { vertical: 0, diagonal: 0, unsure: 1 },
  },
  relations: { "2-2": [{ relation: "nsubj", accuracy: 40 }] },
};

export const model = () => new Model(RAW, 0);
