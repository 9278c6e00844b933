// What no single experiment answers: each question with its answer in words, in a figure and in a table.

import { colourScale, inkOn, rampColour } from "./colours.js";
import { SIGNIFICANT } from "./data.js";
import { draw, make } from "./dom.js";
import { airy, axisBelow, canvas, figureFrame, linear } from "./figure.js";
import { atlas } from "./state.js";
import { extent } from "./statistics.js";
import { anyTable } from "./tables.js";
import { format, formatInterval, formatP, shortened, words } from "./text.js";

// What an answer may be drawn as; its `chart` names one and says which columns are shown how.
const CHARTS = { matrix: matrixDrawing, "dots with intervals": dotsDrawing };

export const questionsView = {
  build(root) {
    const questions = Object.entries(atlas.questions ?? {});
    root.append(
      make(
        "div",
        { class: "content wide" },
        make("h2", { id: "questions-title", class: "unseen" }, "Questions"),
        questions.length > 0 && answersCard(questions),
        questions.map(([name, answer]) => questionCard(name, answer ?? {})),
        !questions.length && make("p", { class: "notice" }, "No question was asked in this run."),
      ),
    );
  },

  render() {},
};

/** Every question with its answer in words, how many heads it is about, and the p-value of its strongest test. */
function answersCard(questions) {
  return make(
    "div",
    { class: "card", "data-part": "answers" },
    make("h2", {}, "Answers"),
    make(
      "ol",
      { class: "answers" },
      questions.map(([name, answer]) =>
        make(
          "li",
          { "data-answer": name },
          make(
            "button",
            { type: "button", class: "link", onclick: () => toQuestion(name) },
            answer?.title ?? words(name),
          ),
          make("p", {}, answerWords(answer ?? {})),
          make("p", { class: "muted" }, testWords(answer ?? {})),
        ),
      ),
    ),
  );
}

function toQuestion(name) {
  const title = document.querySelector(`[data-question="${CSS.escape(name)}"] h2`);
  title.scrollIntoView({ block: "center" });
  title.focus({ preventScroll: true });
}

function answerWords(answer) {
  if (!answer.rows?.length) return `Not answered: ${answer.why ?? "it was not computed in this run."}`;
  return answer.verdict ?? "No test was made of it; its numbers stand below.";
}

/** n and p; of several tests the smallest p, corrected where it was. */
function testWords(answer) {
  const column = answer.columns?.findLast(({ kind }) => kind === "p"),
    tests = (answer.rows ?? []).map((row) => row[column?.key] ?? null).filter((p) => p !== null),
    below = tests.filter((p) => p < SIGNIFICANT).length;
  return [
    answer.n ? `n = ${format(answer.n)} heads` : null,
    tests.length ? `smallest ${column.label} ${formatP(Math.min(...tests))}` : "no p-value",
    tests.length ? `${below} of ${tests.length} tests below ${SIGNIFICANT}` : null,
    answer.model,
  ]
    .filter(Boolean)
    .join(" · ");
}

function questionCard(name, answer) {
  return make(
    "div",
    { class: "card", "data-question": name },
    make("h2", { tabindex: "-1" }, answer.title ?? words(name)),
    answer.rows?.length
      ? answerParts(name, answer)
      : make("p", { class: "notice-line" }, answer.why ?? "It was not computed in this run."),
  );
}

function answerParts(name, answer) {
  const { rows, chart } = answer,
    title = answer.title ?? words(name),
    drawing = CHARTS[chart?.kind];
  return [
    answer.how && make("p", { class: "lead" }, answer.how),
    answer.model && make("p", { class: "muted" }, `Model: ${answer.model}`),
    answer.verdict && make("p", { class: "verdict" }, answer.verdict),
    drawing && figureFrame(chart.caption ?? title, drawing(answer, chart.caption ?? title), `questions_${name}`),
    answer.reading && make("p", { class: "muted" }, `How to read it: ${answer.reading}`),
    anyTable(`${answer.caption ?? title}${answer.n ? `, ${answer.n} heads` : ""}`, rows, answer.columns, {
      sort: answer.sort,
    }),
  ];
}

/** What people call a column of an answer. */
function labelOf(answer, key) {
  return answer.columns?.find((column) => column.key === key)?.label ?? words(key);
}

function isKnown(value) {
  return value !== null && value !== undefined;
}

/** chart: {down, across, colour, range, text, beside, p}, all columns but the range, which is that of the colours. */
function matrixDrawing(answer, caption) {
  const { rows, chart } = answer,
    range = chart.range ?? extent(rows.map((row) => row[chart.colour] ?? null)) ?? [0, 1],
    [low, high] = range;
  const down = [...new Set(rows.map((row) => row[chart.down]))],
    across = [...new Set(rows.map((row) => row[chart.across]))];
  const left = 128,
    top = 34,
    wide = 104,
    tall = 34,
    width = left + across.length * wide + 6,
    bottom = top + down.length * tall;
  const svg = canvas(width, bottom + 42, caption),
    scale = colourScale([], { diverging: low < 0, range });
  across.forEach((name, place) =>
    svg.append(
      draw(
        "text",
        { x: left + (place + 0.5) * wide, y: top - 10, "text-anchor": "middle", class: "label-text" },
        shortened(words(name), 17),
      ),
    ),
  );
  down.forEach((name, place) =>
    svg.append(
      draw(
        "text",
        { x: left - 10, y: top + (place + 0.5) * tall + 4, "text-anchor": "end", class: "label-text" },
        shortened(words(name), 18),
      ),
    ),
  );
  for (const row of rows) {
    const x = left + across.indexOf(row[chart.across]) * wide,
      y = top + down.indexOf(row[chart.down]) * tall,
      value = row[chart.colour] ?? null,
      p = row[chart.p] ?? null,
      colour = value === null ? null : scale.colour(value);
    const told = [
      `${labelOf(answer, chart.colour)} ${format(value)}`,
      chart.p && `${labelOf(answer, chart.p)} ${formatP(p)}`,
    ].filter(Boolean);
    const beside = chart.beside ? ` (${format(row[chart.beside])})` : "",
      star = p !== null && p < SIGNIFICANT ? " ✱" : "";
    svg.append(
      draw(
        "g",
        {},
        draw("title", {}, `${words(row[chart.down])}, ${words(row[chart.across])}: ${told.join(", ")}`),
        draw("rect", {
          x,
          y,
          width: wide - 2,
          height: tall - 2,
          rx: 3,
          fill: colour ?? "none",
          stroke: colour ? "none" : "#8a94a0",
        }),
        draw(
          "text",
          {
            x: x + wide / 2 - 1,
            y: y + tall / 2 + 3,
            "text-anchor": "middle",
            "font-size": 12,
            ...(colour ? { fill: inkOn(colour) } : { class: "label-text" }),
          },
          `${format(row[chart.text ?? chart.colour])}${beside}${star}`,
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
    [format(low), 0],
    [`${labelOf(answer, chart.colour)} = ${format((low + high) / 2)}`, 90],
    [format(high), 180],
  ].forEach(([text, at]) =>
    svg.append(draw("text", { x: left + at, y: bottom + 34, "text-anchor": "middle", class: "small-text" }, text)),
  );
  return svg;
}

/** A forest plot, one line per row. chart: {name, count, value, low, high, p, axis}, all columns but the axis's text. */
function dotsDrawing(answer, caption) {
  const { rows, chart } = answer;
  const left = 170,
    right = 560,
    line = 30,
    bottom = 14 + rows.length * line;
  const ends = rows.flatMap((row) => [chart.value, chart.low, chart.high].map((key) => row[key] ?? null));
  const range = airy(extent([0, ...ends]), 0.08),
    x = linear(range, [left, right]);
  const svg = canvas(right + 96, bottom + 42, caption);
  svg.append(
    axisBelow(x, range, bottom, [left, right], chart.axis ?? labelOf(answer, chart.value), 6),
    draw("path", { class: "zero", d: `M${x(0)} 4V${bottom}` }),
  );
  rows.forEach((row, place) => {
    const y = 22 + place * line,
      name = words(row[chart.name]),
      [value, low, high] = [row[chart.value], row[chart.low], row[chart.high]];
    svg.append(
      draw(
        "text",
        { x: left - 12, y: y + 4, "text-anchor": "end", class: "label-text" },
        shortened(chart.count ? `${name} (${format(row[chart.count])})` : name, 24),
      ),
    );
    if (chart.p)
      svg.append(draw("text", { x: right + 12, y: y + 4, class: "small-text" }, `p ${formatP(row[chart.p])}`));
    if (!isKnown(value)) return;
    svg.append(
      draw(
        "g",
        {},
        draw("title", {}, [`${name}: ${format(value)}`, formatInterval(low, high)].filter(Boolean).join(", ")),
        isKnown(low) &&
          isKnown(high) &&
          draw("path", {
            class: "whisker",
            d: `M${x(low)} ${y}H${x(high)}M${x(low)} ${y - 5}v10M${x(high)} ${y - 5}v10`,
          }),
        draw("circle", { class: "dot-mark", cx: x(value), cy: y, r: 5 }),
      ),
    );
  });
  return svg;
}
