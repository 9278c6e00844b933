"""Documents with coreference from CoNLL-U, whose `Entity=` brackets stand in the last column (GUM, CorefUD)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headscope.data_modules.readers.conllu import RELATION, UPOS, Block, Row, Sentence, blocks, sentence, word_rows
from headscope.data_modules.readers.mentions import Brackets, Document, Word, brackets_in, in_order, mention_of_tree
from headscope.data_modules.readers.text import quoted
from headscope.errors import DataError

ENTITY, GLOBAL = "Entity=", "# global.Entity"
PART = re.compile(r"\[[0-9]+/[0-9]+\]$")  # of a mention in several pieces


@dataclass
class Draft:
    """A document as far as it has been read."""

    name: str
    words: list[str]
    spans: list[tuple[int, int, str]]
    grammar: list[Word]


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
            draft = Draft(name or file.stem, [], [], [])
        if fields := _value(block.comments, GLOBAL):
            group_field = _group_field(file, block, fields)
        _extend(draft, file, block, group_field)
    if draft:
        yield draft


def with_entities(file: Path, sentences: Sequence[Sentence]) -> list[Sentence]:
    """The first sentences of a file with the entities of their mentions; as they are where the file annotates none."""
    found, group_field, annotated = [], 0, False
    for block, known in zip(blocks(file), sentences, strict=False):
        if fields := _value(block.comments, GLOBAL):
            group_field, annotated = _group_field(file, block, fields), True
        if not annotated:  # the first sentence would say so
            return list(sentences)
        grammar = [
            Word(upos, governor, relation, None)
            for upos, governor, relation in zip(known.upos, known.governors, known.relations, strict=True)
        ]
        spans = entity_spans(file, block.rows, 0, group_field)
        mentions = [mention_of_tree(known.words, grammar, (start, end), group) for start, end, group in spans]
        found.append(replace(known, entities=tuple((m.head, m.group) for m in mentions)))
    return found


def _value(comments: Iterable[str], key: str) -> str | None:
    """What a comment says after its key; an empty text where it says nothing."""
    return next((line.partition("=")[2].strip() for line in comments if line.startswith(key)), None)


def _group_field(file: Path, block: Block, fields: str) -> int:
    names = fields.split("-")
    index = next((names.index(name) for name in ("GRP", "eid") if name in names), None)
    if index is None:
        raise DataError(f"{file}:{block.rows[0][0]}: expected GRP or eid in global.Entity, found {quoted(fields)}.")
    return index


def _extend(draft: Draft, file: Path, block: Block, group_field: int) -> None:
    before, rows = len(draft.words), word_rows(file, block.rows)
    tree = sentence(file, block.rows)
    draft.words += tree.words
    draft.grammar += [
        Word(row[UPOS], governor and governor + before, row[RELATION], is_plural(row))
        for (_, row), governor in zip(rows, tree.governors, strict=True)
    ]
    draft.spans += entity_spans(file, block.rows, before, group_field)


def entity_spans(file: Path, rows: Iterable[Row], before: int, group_field: int = 0) -> list[tuple[int, int, str]]:
    """The (first, last, group) of every mention of a sentence; words are counted on from those before it.

    A bracket at an empty node opens with the next word, or closes with the one before; a mention without words is none.
    """
    found = Brackets(file, "entity")
    index = before
    for number, row in rows:
        if "-" in row[0]:
            continue
        empty_node = "." in row[0]
        index += not empty_node
        for kind, bracket in _brackets(file, number, row[9]):
            if kind == "close":
                found.close(bracket, number, index)
                continue
            group = _group(file, number, bracket, group_field)
            if kind == "both":
                found.add(group, number, index + empty_node, index)
            else:
                found.open(group, number, index + empty_node)
    found.require_closed()
    # Of a mention in several pieces, the first stands for the whole.
    spans = [span for span in found.spans if span[0] <= span[1] and (PART.search(span[2]) is None or "[1/" in span[2])]
    return [(start, end, PART.sub("", group)) for start, end, group in spans]


def _brackets(file: Path, number: int, column: str) -> Iterator[tuple[str, str]]:
    """What the last column says of entities: `open` for (1-person, `close` for 1), `both` for (1-person)."""
    texts = [value.removeprefix(ENTITY) for value in column.split("|") if value.startswith(ENTITY)]
    if len(texts) > 1:
        raise DataError(f"{file}:{number}: expected {ENTITY} once in column 10, found it {len(texts)} times.")
    try:
        yield from (bracket for text in texts for bracket in brackets_in(text))
    except ValueError as error:
        raise _malformed(file, number, texts[0]) from error


def _malformed(file: Path, number: int, text: str) -> DataError:
    return DataError(f"{file}:{number}: expected brackets such as (1-person or 1) in {ENTITY}, found {quoted(text)}.")


def _group(file: Path, number: int, bracket: str, group_field: int) -> str:
    fields = bracket.split("-", group_field + 1)
    if group_field >= len(fields) or not fields[group_field]:
        found = quoted(bracket)
        raise DataError(f"{file}:{number}: expected the group as field {group_field + 1} of {found}, found none.")
    return fields[group_field]


def _document(draft: Draft) -> Document:
    found = [mention_of_tree(draft.words, draft.grammar, (start, end), group) for start, end, group in draft.spans]
    return Document(draft.name, tuple(draft.words), in_order(found))


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
