"""Documents with coreference from CoNLL-2012 files, whose columns hold a parse and, last, the chains."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headscope.data_modules.readers.conllu import lines
from headscope.data_modules.readers.mentions import Document, Mention, mention
from headscope.errors import DataError

WORD, TAG, PARSE, CHAINS = 3, 4, 5, -1
LEAST_COLUMNS = 12
BEGIN, END = "#begin document", "#end document"
PARSE_PART = re.compile(r"\(([^()*\s]+)|(\*)|(\))")
# Collins' rules for noun phrases: labels, and the side from which they are looked for.
NOUN_RULES = (
    (("NN", "NNP", "NNPS", "NNS", "NX", "JJR", "PRP", "PRP$", "WP"), -1),
    (("NP", "NML"), 1),
    (("$", "ADJP", "PRN"), -1),
    (("CD",), -1),
    (("JJ", "JJS", "RB", "QP", "DT"), -1),
)
# For other phrases, the label that is looked for from the left; else the first child.
OTHER_RULES = {"VP": ("VB", "VBD", "VBZ", "VBP", "VBG", "VBN", "MD", "VP"), "S": ("VP", "S"), "PP": ("IN", "TO")}


@dataclass
class Node:
    """A constituent from its first to its last word."""

    label: str
    start: int
    end: int = 0
    children: list["Node"] = field(default_factory=list)


def read_conll2012(file: Path) -> list[Document]:
    """The documents of a file; every part is one."""
    return list(_documents(file))


def _documents(file: Path) -> Iterator[Document]:
    name, sentences, rows, last = None, [], [], 0
    for number, line in lines(file):
        last = number
        if line.startswith(BEGIN):
            if rows or sentences:
                raise DataError(f"{file}:{number}: expected {END!r} before another document begins.")
            name, sentences, rows = line.removeprefix(BEGIN).strip(), [], []
        elif line.startswith(END) or not line.strip():
            if rows:
                sentences.append(rows)
                rows = []
            if line.startswith(END):
                yield _document(file, name or file.stem, sentences)
                name, sentences = None, []
        elif not line.startswith("#"):
            rows.append((number, _columns(file, number, line)))
    if rows or sentences:
        raise DataError(f"{file}:{last}: expected {END!r} at the end of the document.")


def _columns(file: Path, number: int, line: str) -> list[str]:
    columns = line.split()
    if len(columns) < LEAST_COLUMNS:
        raise DataError(f"{file}:{number}: expected at least {LEAST_COLUMNS} columns, found {len(columns)}.")
    return columns


def _document(file: Path, name: str, sentences: list) -> Document:
    words, mentions = [], []
    for rows in sentences:
        before = len(words)
        words += [row[WORD] for _, row in rows]
        tree, tags = parse(file, rows), [row[TAG] for _, row in rows]
        for start, end, group in chain_spans(file, rows):
            mentions.append(_mention(words, tags, tree, before, start, end, group))
    return Document(name, tuple(words), tuple(sorted(mentions, key=lambda m: (m.head, m.start, -m.end))))


def _mention(words: list[str], tags: list[str], tree: Node, before: int, start: int, end: int, group: str) -> Mention:
    head = head_word(tree, tags, start, end)
    tag = tags[head]
    kind = "pronoun" if tag.startswith(("PRP", "WP")) else "proper" if tag.startswith("NNP") else "nominal"
    plural = tag.endswith("S") if tag.startswith("NN") else None
    if is_coordinated(tree, start, end):
        plural = True
    return mention(words, (before + start + 1, before + end + 1), before + head + 1, group, kind, plural)


def chain_spans(file: Path, rows: list[tuple[int, list[str]]]) -> Iterator[tuple[int, int, str]]:
    """The (first, last, chain) of every mention of a sentence, counted from 0."""
    waiting: list[tuple[str, int, int]] = []
    for index, (number, row) in enumerate(rows):
        for part in () if row[CHAINS] in ("-", "_") else row[CHAINS].split("|"):
            match = re.fullmatch(r"(\()?(\d+)(\))?", part)
            if match is None or not (match[1] or match[3]):
                raise DataError(
                    f"{file}:{number}: expected chains such as (1, (1) or 1) in the last column, found {part!r}."
                )
            if match[1] and match[3]:
                yield index, index, match[2]
            elif match[1]:
                waiting.append((match[2], index, number))
            else:
                opened = next((o for o in reversed(waiting) if o[0] == match[2]), None)
                if opened is None:
                    raise DataError(f"{file}:{number}: chain {match[2]} is closed here, but no bracket of it is open.")
                waiting.remove(opened)
                yield opened[1], index, match[2]
    if waiting:
        raise DataError(f"{file}:{waiting[0][2]}: the bracket of chain {waiting[0][0]} is not closed in its sentence.")


def parse(file: Path, rows: list[tuple[int, list[str]]]) -> Node:
    """The constituents of a sentence from its parse column."""
    root = Node("TOP", 0, len(rows) - 1)
    path = [root]
    for index, (number, row) in enumerate(rows):
        for match in PARSE_PART.finditer(row[PARSE]):
            if match[1]:
                path.append(Node(match[1].partition("-")[0], index))
                path[-2].children.append(path[-1])
            elif match[2]:
                path[-1].children.append(Node(row[TAG], index, index))
            elif len(path) > 1:
                path.pop().end = index
            else:
                raise DataError(f"{file}:{number}: a bracket of the parse is closed that was never opened.")
    if len(path) > 1:
        raise DataError(f"{file}:{rows[-1][0]}: {len(path) - 1} brackets of the parse are not closed in the sentence.")
    return root


def head_word(tree: Node, tags: list[str], start: int, end: int) -> int:
    """The head of the constituent that covers the span; of a span that is none, its last noun before any other phrase."""
    if node := _covering(tree, start, end):
        return _head(node)
    inside = range(start, end + 1)
    stop = next((index for index in inside if index > start and tags[index] in ("IN", ",", "WDT", "WP", ":")), end + 1)
    nouns = [index for index in range(start, stop) if tags[index].startswith(("NN", "PRP"))]
    return nouns[-1] if nouns else stop - 1


def _covering(node: Node, start: int, end: int) -> Node | None:
    for child in node.children:
        if child.start <= start and end <= child.end:
            return _covering(child, start, end) or (child if (child.start, child.end) == (start, end) else None)
    return None


def is_coordinated(tree: Node, start: int, end: int) -> bool:
    """Whether the constituent joins several: a conjunction stands on the way down to its head."""
    node = _covering(tree, start, end)
    while node and node.children:
        if any(child.label == "CC" for child in node.children):
            return True
        node = _head_child(node)
    return False


def _head(node: Node) -> int:
    while node.children:
        node = _head_child(node)
    return node.start


def _head_child(node: Node) -> Node:
    children = [child for child in node.children if child.label not in (",", ".", ":", "``", "''", "POS")] or node.children
    if node.label in ("NP", "NML", "NX", "TOP"):
        # Of several noun phrases in a row the first is the head: the others modify it or are joined to it.
        if children[0].label in ("NP", "NML") and not any(c.label.startswith(("NN", "PRP")) for c in children):
            return children[0]
        for labels, side in NOUN_RULES:
            if found := next((child for child in children[::side] if child.label in labels), None):
                return found
        return children[-1]
    wanted = OTHER_RULES.get(node.label, ())
    return next((child for child in children if child.label in wanted), children[0])
