// Attention as lines from a column of tokens or words to a column of what they attend to.

import { draw } from "./dom.js";
import { canvas, tokenWidth } from "./figure.js";
import { isNarrow } from "./screen.js";

const FAINTEST = 0.02;
const LETTERS = 12.5;
const LEFT_SIDE = { at: (left, right, tokens) => left - tokens - 2, way: -1, anchor: "end" };
const RIGHT_SIDE = { at: (left, right, tokens) => right + tokens + 2, way: 1, anchor: "start" };

/** shown: {units, kept, rows}; `focus(query)` is called for what is pointed at or has the focus, `pin(query)` for a click. */
export function lineDrawing({ units, kept, rows }, label, { focus, pin }) {
  const narrow = isNarrow(),
    line = kept.length > 30 ? 19 : 22,
    widest = (text) => Math.max(...kept.map((place) => tokenWidth(text(units[place]), LETTERS))),
    tokens = widest((unit) => unit.label) + 16,
    besides = kept.some((place) => units[place].word) ? widest((unit) => unit.word ?? "") + 14 : 0;
  const left = tokens + besides + 6,
    right = left + (narrow ? 70 : 170),
    sides = narrow ? [LEFT_SIDE] : [LEFT_SIDE, RIGHT_SIDE],
    size = { line, left, right, tokens, sides, width: right + tokens + (narrow ? 0 : besides) + 6 };
  const y = new Map(kept.map((place, row) => [place, row * line + line / 2 + 4]));
  const svg = canvas(size.width, kept.length * line + 8, label, {
    class: kept.length > 24 && !narrow ? "lines natural" : "lines",
    role: "group",
  });
  svg.append(
    ...kept.map((query) => links(query, { kept, rows, y, size })),
    wordMarks(units, kept, y, size),
    draw(
      "g",
      { role: "listbox", "aria-label": "Tokens that attend" },
      kept.map((query, place) => from(query, place, { units, kept, rows, y, size })),
    ),
    ...kept.map((key) => to(units[key].label, key, { y, size })),
  );
  listenToTokens(svg, focus, pin);
  return svg;
}

function links(query, { kept, rows, y, size: { left, right } }) {
  const start = y.get(query);
  const paths = kept
    .filter((key) => rows[query][key] >= FAINTEST)
    .map((key) =>
      draw("path", {
        class: "link-line",
        d: `M${left} ${start}C${left + 50} ${start} ${right - 50} ${y.get(key)} ${right} ${y.get(key)}`,
        "stroke-opacity": Math.min(1, rows[query][key] + 0.04).toFixed(3),
        "stroke-width": (0.8 + 3 * rows[query][key]).toFixed(2),
      }),
    );
  return draw("g", { class: "links", "data-query": query }, paths);
}

function from(query, place, { units, kept, rows, y, size: { line, left, tokens } }) {
  const named = (unit) => (unit.word ? `${unit.label} of ${unit.word}` : unit.label);
  const strongest = kept
    .slice()
    .sort((a, b) => rows[query][b] - rows[query][a])
    .slice(0, 3)
    .map((key) => `${named(units[key])} ${rows[query][key].toFixed(2)}`)
    .join(", ");
  return draw(
    "g",
    {
      class: "token-from",
      role: "option",
      tabindex: place ? "-1" : "0",
      "data-query": query,
      "aria-selected": "false",
      "aria-label": `${named(units[query])}, attends to ${strongest}`,
    },
    draw("rect", {
      class: "token-box",
      x: left - tokens,
      y: y.get(query) - line / 2 + 1,
      width: tokens - 4,
      height: line - 2,
      rx: 4,
    }),
    draw("text", { x: left - 10, y: y.get(query) + 4, "text-anchor": "end", class: "token-text" }, units[query].label),
  );
}

function to(label, key, { y, size: { line, right, tokens } }) {
  return draw(
    "g",
    { "aria-hidden": "true" },
    draw("rect", {
      class: "token-weight",
      "data-key": key,
      x: right + 4,
      y: y.get(key) - line / 2 + 1,
      width: tokens - 4,
      height: line - 2,
      rx: 4,
      "fill-opacity": 0,
    }),
    draw("text", { x: right + 10, y: y.get(key) + 4, class: "token-text" }, label),
  );
}

/** Beside the pieces of a word, on both sides or where it is narrow on the left, a bracket and the word. */
function wordMarks(units, kept, y, { line, left, right, tokens, sides }) {
  const groups = [];
  for (const place of kept) {
    const unit = units[place],
      last = groups.at(-1);
    if (!unit.word) continue;
    if (last?.place === unit.place && last.end === place - 1) last.end = place;
    else groups.push({ place: unit.place, word: unit.word, start: place, end: place });
  }
  const marks = groups.flatMap(({ word, start, end }) => {
    const top = y.get(start) - line / 2 + 3,
      bottom = y.get(end) + line / 2 - 3,
      middle = (top + bottom) / 2 + 4;
    return sides.flatMap(({ at, way, anchor }) => {
      const x = at(left, right, tokens);
      return [
        draw("path", { class: "word-bracket", d: `M${x - 3 * way} ${top}h${3 * way}V${bottom}h${-3 * way}` }),
        draw("text", { x: x + 5 * way, y: middle, "text-anchor": anchor, class: "word-text" }, word),
      ];
    });
  });
  return draw("g", { "aria-hidden": "true" }, marks);
}

function listenToTokens(svg, focus, pin) {
  const queryOf = (event) => {
    const query = event.target.closest?.(".token-from")?.dataset.query;
    return query === undefined ? null : Number(query);
  };
  const enter = (event) => queryOf(event) !== null && focus(queryOf(event));
  svg.addEventListener("pointerover", enter);
  svg.addEventListener("pointerleave", () => focus(null));
  svg.addEventListener("focusin", enter);
  svg.addEventListener("focusout", () => focus(null));
  svg.addEventListener("click", (event) => queryOf(event) !== null && pin(queryOf(event)));
  svg.addEventListener("keydown", (event) => walkTokens(event, [...svg.querySelectorAll(".token-from")]));
}

function walkTokens(event, tokens) {
  const at = tokens.indexOf(event.target.closest(".token-from"));
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: tokens.length - 1 }[event.key];
  if (event.key === "Enter" || event.key === " ")
    event.target.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  if (next !== undefined || event.key === " ") event.preventDefault();
  if (!tokens[next]) return;
  tokens[at].setAttribute("tabindex", "-1");
  tokens[next].setAttribute("tabindex", "0");
  tokens[next].focus();
}
