"""Documents with coreference from CoNLL-2012 files, whose columns hold a parse and, last, the chains."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headscope.data_modules.readers.mentions import Brackets, Document, Mention, in_order, mention
from headscope.data_modules.readers.text import lines, quoted, whole_number
from headscope.errors import DataError

NUMBER, WORD, TAG, PARSE, CHAINS = 2, 3, 4, 5, -1
LEAST_COLUMNS = 12
NOTHING = ("-", "_")  # in the place of a part of speech, a parse or chains
BEGIN, END = "#begin document", "#end document"
MARK = re.compile(r"# ?(begin|end) document(.*)")
CHAIN = re.compile(r"(\()?([0-9]+)(\))?")
Row = tuple[int, list[str]]  # a line's number and its columns
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
    """A constituent; its head word and whether it joins several are known once it is closed."""

    label: str
    start: int
    head: int = 0
    coordinated: bool = False
    children: list["Node"] = field(default_factory=list)


Tree = dict[tuple[int, int], Node]  # of each span of words that is a constituent, the innermost


def read_conll2012(file: Path) -> list[Document]:
    """The documents of a file; every part is one."""
    documents = [_document(file, name, sentences) for name, sentences in marked_documents(file, _columns)]
    if not documents:
        raise DataError(f"{file}: expected at least one document, found none.")
    return documents


def marked_documents(
    file: Path, columns_of: Callable[[Path, int, str, list[Row]], list[str]]
) -> Iterator[tuple[str, list[list[Row]]]]:
    """The name of each document between its marks, and the rows of its sentences; blank lines are between these.

    `columns_of` is given the file, a line with its number, and the rows of the sentence before it.
    """
    name, sentences, rows, last = None, [], [], 0
    for number, line in lines(file):
        last, mark = number, MARK.match(line)
        if mark and mark[1] == "begin":
            if name is not None:
                raise DataError(f"{file}:{number}: expected {END!r} before another document begins.")
            name = mark[2].strip()
        elif mark or not line.strip():
            if rows:
                sentences.append(rows)
                rows = []
            if mark:
                yield _begun(file, number, name), sentences
                name, sentences = None, []
        elif not line.startswith("#"):
            _begun(file, number, name)
            rows.append((number, columns_of(file, number, line, rows)))
    if name is not None:
        raise DataError(f"{file}:{last}: expected {END!r} at the end of the document.")


def _begun(file: Path, number: int, name: str | None) -> str:
    """The name of the document that a line is in."""
    if name is None:
        raise DataError(f"{file}:{number}: expected {BEGIN!r} before this line.")
    return name or file.stem


def split_columns(line: str) -> list[str]:
    """What stands between spaces and tabs, however many; a word may hold a no-break space."""
    columns = [column for column in line.replace("\t", " ").split(" ") if column]
    # LitBank leaves the last column empty where a word has no chain.
    return [*columns, NOTHING[0]] if line.endswith("\t") and columns[-1] in NOTHING else columns


def _columns(file: Path, number: int, line: str, before: list[Row]) -> list[str]:
    """The columns of a line; those of a sentence are equally many, and its words are numbered."""
    columns = split_columns(line)
    if len(columns) < LEAST_COLUMNS:
        raise DataError(f"{file}:{number}: expected at least {LEAST_COLUMNS} columns, found {len(columns)}.")
    if before and len(columns) != len(before[0][1]):
        raise DataError(
            f"{file}:{number}: expected {len(before[0][1])} columns as in the line before, found {len(columns)}."
        )
    require_following(file, number, columns, before, NUMBER)
    return columns


def require_following(file: Path, number: int, columns: list[str], before: list[Row], column: int) -> None:
    """Refuse a word whose number, in a column, is not the next one of its sentence; the first may have any."""
    index = whole_number(columns[column])
    following = int(before[-1][1][column]) + 1 if before else index
    if index is None or index != following:
        wanted = "a word number" if following is None else f"word number {following}"
        raise DataError(f"{file}:{number}: expected {wanted} in column {column + 1}, found {quoted(columns[column])}.")


def _document(file: Path, name: str, sentences: list[list[Row]]) -> Document:
    words, mentions = [], []
    for rows in sentences:
        before = len(words)
        words += [row[WORD] for _, row in rows]
        tree, tags = parse(file, rows), [row[TAG] for _, row in rows]
        for start, end, group in chain_spans(file, rows):
            mentions.append(_mention(words, tags, tree, before, start, end, group))
    annotated = any(row[column] not in NOTHING for rows in sentences for _, row in rows for column in (TAG, PARSE))
    return Document(name, tuple(words), in_order(mentions), () if annotated else tuple(map(len, sentences)))


def _mention(words: list[str], tags: list[str], tree: Tree, before: int, start: int, end: int, group: str) -> Mention:
    head = head_word(tree, tags, start, end)
    tag = tags[head]
    kind = None if tag in NOTHING else "nominal"
    if tag.startswith(("PRP", "WP", "NNP")):
        kind = "proper" if tag.startswith("NNP") else "pronoun"
    plural = tag.endswith("S") if tag.startswith("NN") else None
    if (start, end) in tree and tree[start, end].coordinated:
        plural = True
    return mention(words, (before + start + 1, before + end + 1), before + head + 1, group, kind, plural)


def chain_spans(file: Path, rows: list[Row]) -> list[tuple[int, int, str]]:
    """The (first, last, chain) of every mention of a sentence, counted from 0."""
    found = Brackets(file, "chain")
    for index, (number, row) in enumerate(rows):
        for part in () if row[CHAINS] in NOTHING else row[CHAINS].split("|"):
            match = CHAIN.fullmatch(part)
            if match is None or not (match[1] or match[3]):
                raise DataError(
                    f"{file}:{number}: expected chains such as (1, (1) or 1) in the last column, found {quoted(part)}."
                )
            if match[1] and match[3]:
                found.add(match[2], number, index, index)
            elif match[1]:
                found.open(match[2], number, index)
            else:
                found.close(match[2], number, index)
    found.require_closed()
    return found.spans


def parse(file: Path, rows: list[Row]) -> Tree:
    """The constituents of a sentence from its parse column; none where the column is empty throughout."""
    tree: Tree = {}
    if all(row[PARSE] in NOTHING for _, row in rows):
        return tree
    path = [Node("", 0)]
    for index, (number, row) in enumerate(rows):
        labels, closed = _parse_part(file, number, row[PARSE])
        path += [Node(label.partition("-")[0], index) for label in labels]
        path[-1].children.append(Node(row[TAG], index, index))
        tree[index, index] = path[-1].children[-1]
        for _ in range(closed):
            if len(path) == 1:
                raise DataError(f"{file}:{number}: a bracket of the parse is closed that was never opened.")
            node = _closed(path.pop())
            tree.setdefault((node.start, index), node)
            path[-1].children.append(node)
    if len(path) > 1:
        raise DataError(f"{file}:{rows[-1][0]}: {len(path) - 1} brackets of the parse are not closed in the sentence.")
    return tree


def _parse_part(file: Path, number: int, text: str) -> tuple[list[str], int]:
    """The labels that open before a word, and how many constituents close behind it: (S(NP* and *))."""
    before, word, after = text.partition("*")
    nothing, *labels = before.split("(")
    if not word or nothing or not all(labels) or ")" in before or after.strip(")"):
        raise DataError(f"{file}:{number}: expected a parse such as (NP*, * or *)) in column 6, found {quoted(text)}.")
    return labels, len(after)


def _closed(node: Node) -> Node:
    """A constituent with all that is asked of it later; what is inside is asked once and forgotten."""
    head = _head_child(node)
    node.head = head.head
    # A conjunction stands on the way down to its head.
    node.coordinated = head.coordinated or any(child.label == "CC" for child in node.children)
    node.children = []
    return node


def head_word(tree: Tree, tags: list[str], start: int, end: int) -> int:
    """The head of the constituent that covers the span; of a span that is none, its last noun before any other phrase.

    Where no word of the span has a part of speech, its last word.
    """
    if (start, end) in tree:
        return tree[start, end].head
    inside = range(start, end + 1)
    stop = next((index for index in inside if index > start and tags[index] in ("IN", ",", "WDT", "WP", ":")), end + 1)
    nouns = [index for index in range(start, stop) if tags[index].startswith(("NN", "PRP"))]
    return nouns[-1] if nouns else stop - 1


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
