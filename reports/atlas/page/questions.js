// What no single experiment answers: do roles and classes agree, and do heads with a role cost more when they are disabled?

import { colourScale, inkOn, rampColour } from "./colours.js";
import { SIGNIFICANT } from "./data.js";
import { draw, make } from "./dom.js";
import { airy, axisBelow, canvas, figureFrame, linear } from "./figure.js";
import { atlas } from "./state.js";
import { extent } from "./statistics.js";
import { anyTable, numberColumn, pColumn, sortableTable, textColumn } from "./tables.js";
import { format, formatInterval, formatP, shortened, words } from "./text.js";

export const questionsView = {
  build(root) {
    const questions = atlas.questions ?? {};
    root.append(
      make(
        "div",
        { class: "content wide" },
        make("h2", { id: "questions-title", class: "unseen" }, "Questions"),
        this.agreement(questions),
        this.ablation(questions),
        ...Object.entries(questions)
          .filter(([name, answer]) => !["agreement", "ablation", "why"].includes(name) && answer?.rows)
          .map(([name, answer]) =>
            make(
              "div",
              { class: "card" },
              make("h3", {}, words(name)),
              make("p", { class: "muted lead" }, answer.how ?? ""),
              anyTable(words(name), answer.rows),
            ),
          ),
      ),
    );
  },

  render() {},

  card(name, title, answer, questions, ...content) {
    const why =
      answer?.why ??
      questions.why?.[name] ??
      (typeof questions.why === "string" ? questions.why : "It was not computed in this run.");
    return make(
      "div",
      { class: "card", "data-question": name },
      make("h2", {}, title),
      answer?.rows?.length ? content : make("p", { class: "notice-line" }, why),
    );
  },

  agreement(questions) {
    const answer = questions.agreement,
      rows = answer?.rows ?? [];
    const found = rows
      .filter((row) => row.p_holm !== null && row.p_holm < SIGNIFICANT)
      .map(
        (row) => `${words(row.role)} with ${words(row.class)} (${row.both} heads, ${format(row.expected)} expected)`,
      );
    return this.card(
      "agreement",
      "Do the roles agree with the pattern classes?",
      answer,
      questions,
      make("p", { class: "lead" }, answer?.how ?? ""),
      answer?.model && make("p", { class: "muted" }, `Model: ${answer.model}`),
      make(
        "p",
        { class: "verdict" },
        found.length
          ? `After Holm's correction: ${found.join("; ")}.`
          : "No pair is beyond chance after Holm's correction.",
      ),
      rows.length &&
        figureFrame(
          "Kappa of each role and class; in the cells, heads with both (expected)",
          agreementDrawing(rows),
          "questions_agreement",
        ),
      make(
        "p",
        { class: "muted" },
        "How to read it: “both” counts heads that have the role and the class, “expected” what chance would give. " +
          "Kappa is 0 at chance and 1 when the two name the same heads; an odds ratio above 1 says that the role makes " +
          "the class more likely. ✱ marks p < 0.05 after Holm's correction.",
      ),
      sortableTable(
        `Roles and classes${answer?.n ? `, ${answer.n} heads` : ""}`,
        [
          textColumn("role"),
          textColumn("class"),
          ...["heads_with_role", "heads_with_class", "both", "expected", "kappa", "odds_ratio", "spearman"]
            .filter(known(rows))
            .map(numberColumn),
          pColumn("p"),
          pColumn("p_holm"),
        ],
        rows,
        { sort: "p_holm" },
      ),
    );
  },

  ablation(questions) {
    const answer = questions.ablation,
      rows = answer?.rows ?? [];
    const found = rows
      .filter((row) => row.p_holm !== null && row.p_holm < SIGNIFICANT)
      .map((row) => `${words(row.role)} (${row.difference > 0 ? "+" : ""}${format(row.difference)})`);
    return this.card(
      "ablation",
      "Do heads with a role cost more when they are disabled?",
      answer,
      questions,
      make("p", { class: "lead" }, answer?.how ?? ""),
      answer?.model && make("p", { class: "muted" }, `Model: ${answer.model}`),
      make(
        "p",
        { class: "verdict" },
        found.length
          ? `After Holm's correction: ${found.join("; ")}.`
          : "No role differs from its matched heads after Holm's correction.",
      ),
      rows.length &&
        figureFrame(
          "Change without a head of the role, minus that of matched heads, with its interval",
          ablationDrawing(rows),
          "questions_ablation",
        ),
      make(
        "p",
        { class: "muted" },
        "How to read it: a difference below zero says that losing a head with this role costs more than " +
          "losing a matched head without it; an interval that crosses zero leaves it open.",
      ),
      sortableTable(
        `Disabling heads, by role${answer?.n ? `, ${answer.n} heads` : ""}`,
        [
          textColumn("role"),
          ...["heads", "heads_compared", "mean_change", "matched_mean_change", "difference", "low", "high"]
            .filter(known(rows))
            .map(numberColumn),
          pColumn("p"),
          pColumn("p_holm"),
        ],
        rows,
        { sort: "difference" },
      ),
    );
  },
};

/** Whether any row has a column. */
function known(rows) {
  return (key) => rows.some((row) => key in row);
}

/** Roles as rows, classes as columns. */
function agreementDrawing(rows) {
  const roles = [...new Set(rows.map((row) => row.role))],
    classes = [...new Set(rows.map((row) => row.class))];
  const left = 128,
    top = 34,
    wide = 104,
    high = 34,
    width = left + classes.length * wide + 6,
    bottom = top + roles.length * high;
  const svg = canvas(width, bottom + 42, "Kappa of each role and class"),
    scale = colourScale([], { diverging: true, range: [-1, 1] });
  classes.forEach((name, place) =>
    svg.append(
      draw(
        "text",
        { x: left + (place + 0.5) * wide, y: top - 10, "text-anchor": "middle", class: "label-text" },
        shortened(words(name), 17),
      ),
    ),
  );
  roles.forEach((role, place) =>
    svg.append(
      draw(
        "text",
        { x: left - 10, y: top + (place + 0.5) * high + 4, "text-anchor": "end", class: "label-text" },
        shortened(words(role), 18),
      ),
    ),
  );
  for (const row of rows) {
    const x = left + classes.indexOf(row.class) * wide,
      y = top + roles.indexOf(row.role) * high,
      kappa = row.kappa ?? null,
      colour = kappa === null ? null : scale.colour(kappa);
    const star = row.p_holm !== null && row.p_holm < SIGNIFICANT ? " ✱" : "";
    svg.append(
      draw(
        "g",
        {},
        draw(
          "title",
          {},
          `${words(row.role)}, ${words(row.class)}: kappa ${format(kappa)}, p (Holm) ${formatP(row.p_holm)}`,
        ),
        draw("rect", {
          x,
          y,
          width: wide - 2,
          height: high - 2,
          rx: 3,
          fill: colour ?? "none",
          stroke: colour ? "none" : "#8a94a0",
        }),
        draw(
          "text",
          {
            x: x + wide / 2 - 1,
            y: y + high / 2 + 3,
            "text-anchor": "middle",
            "font-size": 12,
            ...(colour ? { fill: inkOn(colour) } : { class: "label-text" }),
          },
          `${format(row.both)} (${format(row.expected)})${star}`,
        ),
      ),
    );
  }
  for (let step = 0; step < 60; step++)
    svg.append(
      draw("rect", {
        x: left + step * 3,
        y: bottom + 10,
        width: 3.5,
        height: 9,
        fill: rampColour(scale.ramp, step / 59),
      }),
    );
  [
    ["−1", 0],
    ["κ = 0", 90],
    ["1", 180],
  ].forEach(([text, at]) =>
    svg.append(draw("text", { x: left + at, y: bottom + 34, "text-anchor": "middle", class: "small-text" }, text)),
  );
  return svg;
}

/** A forest plot: one line per role. */
function ablationDrawing(rows) {
  const left = 170,
    right = 560,
    line = 30,
    bottom = 14 + rows.length * line;
  const range = airy(
      extent([0, ...rows.flatMap((row) => [row.difference, row.low, row.high].map((value) => value ?? null))]),
      0.08,
    ),
    x = linear(range, [left, right]);
  const svg = canvas(right + 96, bottom + 42, "Change without heads of a role, against matched heads");
  svg.append(
    axisBelow(x, range, bottom, [left, right], "difference of the changes", 6),
    draw("path", { class: "zero", d: `M${x(0)} 4V${bottom}` }),
  );
  rows.forEach((row, place) => {
    const y = 22 + place * line;
    svg.append(
      draw(
        "text",
        { x: left - 12, y: y + 4, "text-anchor": "end", class: "label-text" },
        shortened(`${words(row.role)} (${format(row.heads)})`, 24),
      ),
      draw("text", { x: right + 12, y: y + 4, class: "small-text" }, `p ${formatP(row.p_holm ?? row.p)}`),
    );
    if (row.difference === null || row.difference === undefined) return;
    const known = row.low !== null && row.low !== undefined && row.high !== null && row.high !== undefined;
    svg.append(
      draw(
        "g",
        {},
        draw("title", {}, `${words(row.role)}: ${format(row.difference)}, ${formatInterval(row.low, row.high)}`),
        known &&
          draw("path", {
            class: "whisker",
            d: `M${x(row.low)} ${y}H${x(row.high)}M${x(row.low)} ${y - 5}v10M${x(row.high)} ${y - 5}v10`,
          }),
        draw("circle", { class: "dot-mark", cx: x(row.difference), cy: y, r: 5 }),
      ),
    );
  });
  return svg;
}
