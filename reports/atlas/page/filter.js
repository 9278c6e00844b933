// The filter of the table: words, comparisons, and, or, not, brackets. `delimiter and entropy > 2 and layer < 4`
//   or   = and {"or" and}
//   and  = not {["and"] not}
//   not  = "not" not | "(" or ")" | comparison | word
//   comparison = term operator term {operator term}

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

/** A function from a head's place to whether it passes; throws an Error with a sentence for the reader. */
export function compileFilter(text, model) {
  const tokens = filterTokens(text);
  if (!tokens.length) return () => true;
  const parser = { tokens, at: 0, model };
  const test = parseOr(parser);
  if (parser.at < tokens.length) throw new Error(`“${tokens[parser.at].text}” is not expected here.`);
  return test;
}

function filterTokens(text) {
  const pattern = /\s*(?:"([^"]*)"|(<=|>=|==|!=|<|>|=)|([()])|([^\s()<>=!"]+))/y;
  const tokens = [];
  text = text.trimEnd();
  while (pattern.lastIndex < text.length) {
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
  if (tokens[parser.at]?.kind !== "operator") return textTest(first.text, model);
  const tests = [];
  for (let left = first; tokens[parser.at]?.kind === "operator";) {
    const operator = tokens[parser.at++],
      right = tokens[parser.at++];
    if (right?.kind !== "word") {
      throw new Error(`After “${left.text} ${operator.text}” a number or a name is missing.`);
    }
    tests.push(comparison(left, operator.text, right, model));
    left = right;
  }
  return (index) => tests.every((test) => test(index));
}

function comparison(left, operator, right, model) {
  const texts = TEXTS[left.text.toLowerCase()];
  if (texts && operator.includes("=") && !"<>".includes(operator[0])) {
    const wanted = right.text.toLowerCase(),
      equal = operator !== "!=";
    return (index) => texts(model, index).some((text) => text.toLowerCase() === wanted) === equal;
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
  const near = model.quantities.filter((quantity) => quantity.name.toLowerCase().includes(wanted)).slice(0, 3);
  return near.length ? `; near it: ${near.map((quantity) => quantity.name).join(", ")}` : "";
}

/** A bare word: part of the head's name, a role, its class, or one of its relations. */
function textTest(word, model) {
  const wanted = word.toLowerCase();
  return (index) => headTexts(model, index).some((text) => text.toLowerCase().includes(wanted));
}

function headTexts(model, index) {
  const classes = model.patternClass(index);
  return [
    model.headName(index),
    ...model.roles(index),
    ...(classes ? [classes, words(classes)] : []),
    ...model.relations(index).map((row) => row.relation),
  ];
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
  const compared = quantity ? `${asWord(quantity.name)} > ${middle} and ${below}` : below;
  return {
    word: role ?? named ?? model.headName(0),
    compared,
    between: quantity && low < high ? `${low} < ${asWord(quantity.name)} < ${high}` : null,
    column: tested ? `${asWord(`${tested.name}.p`)} < 0.05` : null,
    whole: [role && `role = ${asWord(role)}`, named && `class = ${asWord(named)}`].filter(Boolean),
    all: role ? `${asWord(role)} and ${compared}` : compared,
  };
}

/** A name as the filter reads it: in double quotes where it must be. */
function asWord(name) {
  return /^[^\s()<>=!"]+$/.test(name) ? name : `"${name}"`;
}
