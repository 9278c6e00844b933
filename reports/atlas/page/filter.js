// The filter of the table: words, comparisons, and, or, not, brackets. `delimiter and entropy > 2 and layer < 4`
//   or   = and {"or" and}
//   and  = not {["and"] not}
//   not  = "not" not | "(" or ")" | comparison | word
//   comparison = term operator term {operator term} | ("layer" | "head") range
// A range is 8-10, 8..10 or 8 to 10; but 8-10 alone, and head = 8-10, is the tenth head of layer 8, as the page names it.
// Names are read as the page shows them, with their spaces and signs, or as heads.csv has them.

import { extent, niceTicks } from "./statistics.js";
import { words } from "./text.js";

const OPERATORS = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "=": (a, b) => a === b,
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};
const TEXTS = {
  role: (model, index) => model.roles(index),
  class: (model, index) => [model.patternClass(index)].filter(Boolean),
  relation: (model, index) => model.relations(index).map((row) => row.relation),
};
TEXTS.roles = TEXTS.role;
TEXTS["best relation"] = TEXTS.relation;
const COLUMN = /^\.(n|low|high|p|rank)(?![\p{L}\p{N}_])/u;
const HEAD = /^(\d*)-(\d*),?$/;
const RANGE = /^([\d.]+)(?:-|–|\.\.)([\d.]+),?$/;

/** A function from a head's place to whether it passes; throws an Error with a sentence for the reader. */
export function compileFilter(text, model) {
  const tokens = filterTokens(text, knownNames(model));
  if (!tokens.length) return () => true;
  const parser = { tokens, at: 0, model };
  const test = parseOr(parser);
  if (parser.at < tokens.length) throw new Error(`“${tokens[parser.at].text}” is not expected here.`);
  return test;
}

const namesOf = new WeakMap();

/** All names with spaces or signs that the page shows, the longest first, in small letters. */
function knownNames(model) {
  if (!namesOf.has(model)) {
    const names = new Set(Object.keys(TEXTS));
    for (const { label, labelAlone, name } of model.quantities)
      [label, labelAlone, name].forEach((each) => names.add(each));
    for (let index = 0; index < model.count; index++) headTexts(model, index).forEach((each) => names.add(each));
    const odd = [...names].filter((name) => /[\s()<>=!"]/.test(name)).map((name) => name.toLowerCase());
    namesOf.set(
      model,
      odd.sort((a, b) => b.length - a.length),
    );
  }
  return namesOf.get(model);
}

/** The known name, perhaps with a column, that the text goes on with; a name ends where a word does. */
function nameAt(text, start, names) {
  const rest = text.slice(start).toLowerCase(),
    ends = (length) => !/^[\p{L}\p{N}_:.-]/u.test(rest.slice(length)) || !/[\p{L}\p{N}]$/u.test(rest.slice(0, length));
  for (const name of names) {
    if (!rest.startsWith(name)) continue;
    const column = COLUMN.exec(rest.slice(name.length))?.[0];
    if (column || ends(name.length)) return text.slice(start, start + name.length + (column?.length ?? 0));
  }
  return null;
}

function filterTokens(text, names) {
  const pattern = /\s*(?:"([^"]*)"|(<=|>=|==|!=|<|>|=)|([()])|([^\s()<>=!"]+))/y;
  const tokens = [];
  text = text.trimEnd();
  while (pattern.lastIndex < text.length) {
    const blank = /^\s*/.exec(text.slice(pattern.lastIndex))[0].length,
      name = nameAt(text, pattern.lastIndex + blank, names);
    if (name) {
      tokens.push({ text: name, kind: "word", quoted: true });
      pattern.lastIndex += blank + name.length;
      continue;
    }
    const start = pattern.lastIndex,
      found = pattern.exec(text);
    if (!found) {
      const rest = text.slice(start).trim();
      throw new Error(`“${rest}” cannot be read; put names with signs or spaces in double quotes.`);
    }
    const [, quoted, operator, bracket, word] = found;
    tokens.push({
      text: quoted ?? operator ?? bracket ?? word,
      kind: operator ? "operator" : bracket ? "bracket" : "word",
      quoted: quoted !== undefined,
    });
  }
  return tokens;
}

function next(parser, ...texts) {
  const token = parser.tokens[parser.at];
  return token && !token.quoted && texts.includes(token.text.toLowerCase());
}

function parseOr(parser) {
  let left = parseAnd(parser);
  while (next(parser, "or", "|")) {
    parser.at++;
    const first = left,
      second = parseAnd(parser);
    left = (index) => first(index) || second(index);
  }
  return left;
}

function parseAnd(parser) {
  let left = parseNot(parser);
  while (parser.at < parser.tokens.length && !next(parser, "or", "|", ")")) {
    if (next(parser, "and", "&")) parser.at++;
    const first = left,
      second = parseNot(parser);
    left = (index) => first(index) && second(index);
  }
  return left;
}

function parseNot(parser) {
  if (next(parser, "not")) {
    parser.at++;
    const inner = parseNot(parser);
    return (index) => !inner(index);
  }
  if (next(parser, "(")) {
    parser.at++;
    const inner = parseOr(parser);
    if (!next(parser, ")")) throw new Error("A bracket is not closed.");
    parser.at++;
    return inner;
  }
  return parseComparison(parser);
}

function parseComparison(parser) {
  const { tokens, model } = parser,
    first = tokens[parser.at++];
  if (!first) throw new Error("Something is missing at the end.");
  if (first.kind !== "word") throw new Error(`“${first.text}” is not expected here.`);
  if (tokens[parser.at]?.kind !== "operator") return rangeAfter(first, parser) ?? textTest(first.text, model);
  const tests = [];
  for (let left = first; tokens[parser.at]?.kind === "operator";) {
    const operator = tokens[parser.at++],
      right = tokens[parser.at++];
    if (right?.kind !== "word") {
      throw new Error(`After “${left.text} ${operator.text}” a number or a name is missing.`);
    }
    tests.push(comparison(left, operator.text, rangeOf(right, parser) ?? right, model));
    left = right;
  }
  return (index) => tests.every((test) => test(index));
}

/** `layer 8-10` and `head 3` need no sign between. */
function rangeAfter(first, parser) {
  const name = first.text.toLowerCase(),
    second = parser.tokens[parser.at];
  if ((name !== "layer" && name !== "head") || !second || !/^\d/.test(second.text)) return null;
  parser.at++;
  const range = rangeOf(second, parser) ?? { low: parseFloat(second.text), high: parseFloat(second.text) };
  return comparison(first, "=", range, parser.model);
}

/** {low, high} of 8-10, 8..10 or 8 to 10, or null; what follows the word is read on. */
function rangeOf({ text, quoted }, parser) {
  const { tokens, at } = parser,
    [, low, high] = (!quoted && RANGE.exec(text)) || [];
  if (high !== undefined) return { low: Number(low), high: Number(high), named: HEAD.test(text) && text };
  const numbers = [text, tokens[at + 1]?.text].map(Number);
  if (quoted || !next(parser, "to") || numbers.some(Number.isNaN)) return null;
  parser.at += 2;
  return { low: numbers[0], high: numbers[1] };
}

function comparison(left, operator, right, model) {
  const texts = TEXTS[left.text.toLowerCase()],
    isEquality = operator.includes("=") && !"<>".includes(operator[0]),
    equal = operator !== "!=";
  if (left.text.toLowerCase() === "head" && isEquality && right.named) {
    const test = textTest(right.named, model);
    return (index) => test(index) === equal;
  }
  if (texts && isEquality && right.text !== undefined) {
    const wanted = words(right.text.toLowerCase());
    return (index) => texts(model, index).some((text) => words(text.toLowerCase()) === wanted) === equal;
  }
  if (right.low !== undefined) {
    if (!isEquality) throw new Error(`“${operator}” takes a number; a range goes with = or !=.`);
    const value = term(left, model);
    return (index) => value(index) !== null && (right.low <= value(index) && value(index) <= right.high) === equal;
  }
  const a = term(left, model),
    b = term(right, model),
    compare = OPERATORS[operator];
  return (index) => {
    const x = a(index),
      y = b(index);
    return x !== null && y !== null && compare(x, y);
  };
}

/** A number, layer, head, or a quantity (`entropy`, `entropy.p`, `entropy.rank`). */
function term(token, model) {
  const name = token.text;
  if (!token.quoted && name.trim() !== "" && Number.isFinite(Number(name.replace("−", "-")))) {
    const number = Number(name.replace("−", "-"));
    return () => number;
  }
  if (name.toLowerCase() === "layer") return (index) => model.place(index).layer;
  if (name.toLowerCase() === "head") return (index) => model.place(index).head;
  const whole = findQuantity(name, model);
  if (whole) return (index) => whole.value[index];
  const [, stem, column] = /^(.*)\.(n|low|high|p|rank)$/.exec(name) ?? [];
  const quantity = stem && findQuantity(stem, model);
  if (quantity && column === "rank") return (index) => model.rank(quantity, index);
  if (quantity) return (index) => quantity[column]?.[index] ?? null;
  throw new Error(`There is no quantity “${name}”${suggestion(stem ?? name, model)}.`);
}

function findQuantity(name, model) {
  const wanted = name.toLowerCase();
  return (
    model.byName.get(name) ??
    model.quantities.find((quantity) => quantity.name.toLowerCase() === wanted) ??
    model.quantities.find((quantity) =>
      [quantity.label, quantity.labelAlone].some((text) => text.toLowerCase() === wanted),
    )
  );
}

function suggestion(name, model) {
  const wanted = name.toLowerCase().slice(0, 4);
  const near = model.quantities.filter(({ name, label }) => `${name} ${label}`.toLowerCase().includes(wanted));
  const told = near.slice(0, 3).map((quantity) => quantity.name);
  return told.length ? `; near it: ${told.join(", ")}` : "";
}

/** A bare word: a head (`8-10`), its layer (`8-`) or place (`-10`), or part of a role, its class, or a relation of it. */
function textTest(word, model) {
  const wanted = word.toLowerCase(),
    [, layer, head] = HEAD.exec(wanted) ?? [];
  if (layer || head)
    return (index) => {
      const place = model.place(index);
      return (!layer || place.layer === Number(layer)) && (!head || place.head === Number(head));
    };
  return (index) => headTexts(model, index).some((text) => text.toLowerCase().includes(wanted));
}

function headTexts(model, index) {
  const names = [...model.roles(index), ...[model.patternClass(index)].filter(Boolean)];
  return [...names, ...names.map(words), ...model.relations(index).map((row) => row.relation)];
}

/** Filters that mean something for this model, to show how they are written; what it cannot have is left out. */
export function filterExamples(model) {
  const places = Array.from({ length: model.count }, (_, index) => index);
  const role = places.map((index) => model.roles(index)[0]).find(Boolean);
  const named = places.map((index) => model.patternClass(index)).find(Boolean);
  const quantity = model.headlines[0] ?? model.quantities[0],
    tested = model.quantities.find((candidate) => candidate.p);
  const ticks = niceTicks(...((quantity && extent(quantity.value)) ?? [0, 1]), 4),
    [low, middle, high] = [ticks[0], ticks[Math.floor(ticks.length / 2)], ticks.at(-1)];
  const below = `layer < ${Math.max(2, model.layers)}`;
  const compared = quantity ? `${quantity.label} > ${middle} and ${below}` : below;
  return {
    word: role ?? named ?? model.headName(0),
    heads: [model.headName(model.count - 1), `layer 1-${Math.max(1, model.layers - 1)}`, "head 1..2"],
    compared,
    between: quantity && low < high ? `${low} < ${quantity.label} < ${high}` : null,
    column: tested ? `${tested.label}.p < 0.05` : null,
    whole: [role && `role = ${words(role)}`, named && `class = ${words(named)}`].filter(Boolean),
    all: role ? `${words(role)} and ${compared}` : compared,
  };
}
