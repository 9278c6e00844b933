"""Documents with coreference from CoNLL-U, whose `Entity=` brackets stand in the last column (GUM, CorefUD)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headscope.data_modules.readers.conllu import Block, Row, blocks, sentence, word_rows
from headscope.data_modules.readers.mentions import Document, Mention, mention
from headscope.errors import DataError

BRACKET = re.compile(r"\((?P<open>[^()]+)(?P<closed>\))?|(?P<close>[^()]+)\)")
PART = re.compile(r"\[(\d+)/\d+\]$")  # of a mention in several pieces
KIND_OF_UPOS = {"PRON": "pronoun", "PROPN": "proper"}


@dataclass
class Draft:
    """A document as far as it has been read."""

    name: str
    words: list[str]
    spans: list[tuple[int, int, str]]
    rows: list[Row]
    governors: list[int]  # in the document; 0 for roots


def read_entity_documents(file: Path) -> list[Document]:
    """The documents of a file; each starts at a `# newdoc` line."""
    return [_document(draft) for draft in _drafts(file)]


def _drafts(file: Path) -> Iterator[Draft]:
    draft, group_field = None, 0
    for block in blocks(file):
        name = _value(block.comments, "# newdoc")
        if name is not None or draft is None:
            if draft:
                yield draft
            draft = Draft(name or file.stem, [], [], [], [])
        if fields := _value(block.comments, "# global.Entity"):
            group_field = _group_field(file, block, fields)
        _extend(draft, file, block, group_field)
    if draft:
        yield draft


def _value(comments: Iterable[str], key: str) -> str | None:
    """What a comment says after its key; an empty text where it says nothing."""
    return next((line.partition("=")[2].strip() for line in comments if line.startswith(key)), None)


def _group_field(file: Path, block: Block, fields: str) -> int:
    names = fields.split("-")
    index = next((names.index(name) for name in ("GRP", "eid") if name in names), None)
    if index is None:
        raise DataError(f"{file}:{block.rows[0][0]}: expected GRP or eid in global.Entity, found {fields!r}.")
    return index


def _extend(draft: Draft, file: Path, block: Block, group_field: int) -> None:
    before, rows = len(draft.words), word_rows(file, block.rows)
    tree = sentence(file, block.rows)
    draft.words += tree.words
    draft.rows += rows
    draft.governors += [governor and governor + before for governor in tree.governors]
    draft.spans += entity_spans(file, block.rows, before, group_field)


def entity_spans(file: Path, rows: Iterable[Row], before: int, group_field: int = 0) -> list[tuple[int, int, str]]:
    """The (first, last, group) of every mention of a sentence; words are counted on from those before it.

    A bracket at an empty node opens with the next word, or closes with the one before; a mention without words is none.
    """
    spans: list[tuple[int, int, str]] = []
    waiting: list[tuple[str, int, int]] = []
    index = before
    for number, row in rows:
        if "-" in row[0]:
            continue
        empty_node = "." in row[0]
        index += not empty_node
        text = next((value.removeprefix("Entity=") for value in row[9].split("|") if value.startswith("Entity=")), "")
        if "".join(match[0] for match in BRACKET.finditer(text)) != text:
            raise DataError(f"{file}:{number}: expected brackets such as (1-person or 1) in Entity=, found {text!r}.")
        for match in BRACKET.finditer(text):
            if match["close"]:
                spans.append(_closed(file, number, match["close"], waiting, index))
                continue
            group = _group(file, number, match["open"], group_field)
            if match["closed"]:
                spans.append((index + empty_node, index, group))
            else:
                waiting.append((group, index + empty_node, number))
    if waiting:
        group, _, number = waiting[0]
        raise DataError(f"{file}:{number}: the bracket of entity {group} is not closed in its sentence.")
    # Of a mention in several pieces, the first stands for the whole.
    spans = [span for span in spans if span[0] <= span[1] and (PART.search(span[2]) is None or "[1/" in span[2])]
    return [(start, end, PART.sub("", group)) for start, end, group in spans]


def _group(file: Path, number: int, bracket: str, group_field: int) -> str:
    fields = bracket.split("-")
    if group_field >= len(fields):
        raise DataError(f"{file}:{number}: expected the group as field {group_field + 1} of ({bracket}, found none.")
    return fields[group_field]


def _closed(file: Path, number: int, group: str, waiting: list[tuple[str, int, int]], index: int) -> tuple[int, int, str]:
    for opened in reversed(waiting):
        if opened[0] == group:
            waiting.remove(opened)
            return opened[1], index, group
    raise DataError(f"{file}:{number}: entity {group} is closed here, but no bracket of it is open.")


def _document(draft: Draft) -> Document:
    found = [_mention(draft, span) for span in draft.spans]
    return Document(draft.name, tuple(draft.words), tuple(sorted(found, key=lambda m: (m.head, m.start, -m.end))))


def _mention(draft: Draft, span: tuple[int, int, str]) -> Mention:
    start, end, group = span
    inside = range(start, end + 1)
    outside = [word for word in inside if draft.governors[word - 1] not in inside]
    # Punctuation at the edge may depend on a word outside too, but is no head beside a word.
    head = next((word for word in outside if draft.rows[word - 1][1][3] != "PUNCT"), outside[0])
    upos = draft.rows[head - 1][1][3]
    coordinated = any(draft.governors[w - 1] == head and draft.rows[w - 1][1][7] == "conj" for w in inside)
    kind = KIND_OF_UPOS.get(upos, "nominal")
    return mention(draft.words, (start, end), head, group, kind, coordinated or is_plural(draft.rows[head - 1][1]))


def is_plural(row: list[str]) -> bool | None:
    """The number of a noun from its features, its tag, or its form beside its lemma."""
    _, form, lemma, upos, xpos, features, *_ = row
    if "Number=" in features:
        return "Number=Plur" in features
    if xpos.startswith("NN"):
        return xpos.endswith("S")
    if upos not in ("NOUN", "PROPN"):
        return None
    differs = form.lower() != lemma.lower()
    return differs if upos == "NOUN" else differs and form.lower().endswith("s")
