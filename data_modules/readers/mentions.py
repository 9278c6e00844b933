"""Mentions of entities in a document, what a rule can see of them, and the antecedents that baselines choose by rule."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headscope.data_modules.readers.text import shown
from headscope.errors import DataError

KINDS = ("pronoun", "proper", "nominal")
KIND_OF_UPOS = {"PRON": "pronoun", "PROPN": "proper", "": None, "_": None}  # all others are nominal
SIGN = re.compile(r"[()]|[^()]+")
MOST_AT_A_WORD = 100  # mentions that may lie over one word; a sentence with more would take time and memory without end


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FIRST_PERSON = _words("i me my mine myself we us our ours ourselves")
SECOND_PERSON = _words("you your yours yourself yourselves")
PLURAL_PRONOUNS = _words("we us our ours ourselves they them their theirs themselves yourselves these those")
SINGULAR_PRONOUNS = _words("i me my mine myself he him his himself she her hers herself it its itself yourself this that")
MASCULINE = _words(
    "he him his himself man men boy boys father dad son brother husband uncle nephew grandfather grandson "
    "king prince duke lord sir mr. mr gentleman guy actor waiter monk priest"
)
FEMININE = _words(
    "she her hers herself woman women girl girls mother mum mom daughter sister wife aunt niece grandmother granddaughter "
    "queen princess duchess lady madam mrs. mrs ms. ms miss actress waitress nun"
)
NEUTER = _words("it its itself")
PRONOUNS = FIRST_PERSON | SECOND_PERSON | PLURAL_PRONOUNS | SINGULAR_PRONOUNS | _words("who whom whose which")
TITLES = _words("mr mrs ms miss sir lady lord")


@dataclass(frozen=True)
class Mention:
    """A span of words, 1-based and inclusive, that refers to the entity of its group; its kind may be unknown."""

    start: int
    end: int
    head: int
    group: str
    kind: str | None
    text: str
    head_text: str
    number: str | None = None
    gender: str | None = None
    person: int = 3

    def agrees_with(self, other: "Mention") -> bool:
        """Whether number, gender and person may be the same; what is not known may be anything."""
        pairs = ((self.number, other.number), (self.gender, other.gender), (self.person, other.person))
        return all(one is None or another is None or one == another for one, another in pairs)


@dataclass(frozen=True)
class Document:
    """Running text with its mentions in the order of their head words.

    `unparsed` holds the lengths of its sentences where neither a parse nor a part of speech is annotated.
    """

    name: str
    words: tuple[str, ...]
    mentions: tuple[Mention, ...]
    unparsed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Word:
    """The grammar of a word: its governor is an index from 1 within the same text, 0 for a root."""

    upos: str
    governor: int
    relation: str
    plural: bool | None


class Brackets:
    """The mentions of a sentence or document whose brackets open and close one after the other.

    `what` and `within` name the brackets and the text in errors.
    """

    def __init__(self, file: Path, what: str, within: str = "sentence") -> None:
        self.file, self.what, self.within = file, what, within
        self.spans: list[tuple[int, int, str]] = []  # first word, last word and group
        self._open: dict[str, list[tuple[int, int]]] = {}  # of each group, innermost last: first word and line
        self._waiting = self._at_word = self._word = 0

    def open(self, group: str, line: int, word: int) -> None:
        """A mention of a group begins at a word."""
        self._count(line, word)
        self._waiting += 1
        self._open.setdefault(group, []).append((word, line))

    def close(self, group: str, line: int, word: int) -> None:
        """The mention of a group that was opened last ends at a word."""
        if not self._open.get(group):
            raise DataError(f"{self.file}:{line}: {self.what} {shown(group)} is closed here, but no bracket of it is open.")
        self._waiting -= 1
        self.spans.append((self._open[group].pop()[0], word, group))

    def add(self, group: str, line: int, first: int, last: int) -> None:
        """A mention that is opened and closed at once."""
        self._count(line, last)
        self.spans.append((first, last, group))

    def _count(self, line: int, word: int) -> None:
        self._at_word = self._at_word + 1 if word == self._word else 1
        self._word = word
        if self._waiting + self._at_word > MOST_AT_A_WORD:
            raise DataError(f"{self.file}:{line}: expected at most {MOST_AT_A_WORD} mentions over a word, found more.")

    def require_closed(self) -> None:
        """Refuse a text that ends within a mention."""
        left = [(line, group) for group, opened in self._open.items() for _, line in opened]
        if left:
            line, group = min(left)
            bracket = f"the bracket of {self.what} {shown(group)}"
            raise DataError(f"{self.file}:{line}: {bracket} is not closed in its {self.within}.")


def brackets_in(text: str) -> Iterator[tuple[str, str]]:
    """`open` for (1-person, `close` for 1), `both` for (1-person), each with what it holds; ValueError for anything else."""
    signs = SIGN.findall(text)
    if not signs:
        raise ValueError(text)
    at = 0
    while at < len(signs):
        before, content, after = (signs[at], *signs[at + 1 : at + 3], "", "")[:3]
        if before == "(" and content not in ("", "(", ")"):
            yield ("both" if after == ")" else "open"), content
            at += 3 if after == ")" else 2
        elif before not in ("(", ")") and content == ")":
            yield "close", before
            at += 2
        else:
            raise ValueError(text)


def mention(
    words: Sequence[str], span: tuple[int, int], head: int, group: str, kind: str | None, plural: bool | None
) -> Mention:
    """A mention with all that can be seen of it; `plural` is what the annotation says of its head word, if anything.

    Where no part of speech says the kind, a word of the list is a pronoun if it is a mention by itself.
    """
    start, end = span
    inside = [word.lower() for word in words[start - 1 : end]]
    head_text = words[head - 1].lower()
    if kind is None and start == end and head_text in PRONOUNS:
        kind = "pronoun"
    number = {True: "plural", False: "singular", None: None}[plural]
    person = 3
    if kind == "pronoun":
        number = number if plural else pronoun_number(head_text)
        person = 1 if head_text in FIRST_PERSON else 2 if head_text in SECOND_PERSON else 3
    title = inside[0] if kind == "proper" else ""
    return Mention(start, end, head, group, kind, " ".join(inside), head_text, number, gender(head_text, title), person)


def pronoun_number(word: str) -> str | None:
    """Singular, plural or unknown."""
    return "plural" if word in PLURAL_PRONOUNS else "singular" if word in SINGULAR_PRONOUNS else None


def gender(head: str, title: str) -> str | None:
    """From the head word, or from a title before a name."""
    for word in (head, title if title.rstrip(".") in TITLES else ""):
        for name, known in (("masculine", MASCULINE), ("feminine", FEMININE), ("neuter", NEUTER)):
            if word in known:
                return name
    return None


def mention_of_tree(words: Sequence[str], grammar: Sequence[Word], span: tuple[int, int], group: str) -> Mention:
    """A mention whose head is the first word of the span that depends on a word outside it."""
    start, end = span
    inside = range(start, end + 1)
    outside = [word for word in inside if grammar[word - 1].governor not in inside]
    # Punctuation at the edge may depend on a word outside too, but is no head beside a word.
    head = next((word for word in outside if grammar[word - 1].upos != "PUNCT"), outside[0])
    coordinated = any(grammar[word - 1].governor == head and grammar[word - 1].relation == "conj" for word in inside)
    kind = KIND_OF_UPOS.get(grammar[head - 1].upos, "nominal")
    return mention(words, span, head, group, kind, coordinated or grammar[head - 1].plural)


def parsed_document(document: Document, sentences: Iterable[Sequence[Word]]) -> Document:
    """An unparsed document with the grammar of its sentences: its mentions get their head words and kinds from there."""
    grammar: list[Word] = []
    for sentence in sentences:
        before = len(grammar)
        grammar += [replace(word, governor=word.governor and word.governor + before) for word in sentence]
    found = [mention_of_tree(document.words, grammar, (m.start, m.end), m.group) for m in document.mentions]
    return Document(document.name, document.words, in_order(found))


def in_order(mentions: Iterable[Mention]) -> tuple[Mention, ...]:
    """Mentions in the order of their head words, and of one head word the longest first."""
    return tuple(sorted(mentions, key=lambda m: (m.head, m.start, -m.end)))


Rule = Callable[[Mention, Sequence[Mention]], Mention | None]


def candidates(mention: Mention, mentions: Sequence[Mention]) -> list[Mention]:
    """The mentions whose head word stands before that of the mention, nearest first."""
    return sorted((other for other in mentions if other.head < mention.head), key=lambda m: (m.head, m.start), reverse=True)


def nearest(mention: Mention, before: Sequence[Mention]) -> Mention | None:
    """The nearest mention."""
    return before[0] if before else None


def same_head_word(mention: Mention, before: Sequence[Mention]) -> Mention | None:
    """The nearest mention with the same head word."""
    return next((other for other in before if other.head_text == mention.head_text), None)


def rules(mention: Mention, before: Sequence[Mention]) -> Mention | None:
    """The nearest mention of the same words; else of the same head word; else that agrees; else the nearest."""
    same_text = next((other for other in before if other.text == mention.text), None)
    agreeing = next((other for other in before if other.agrees_with(mention)), None)
    return same_text or same_head_word(mention, before) or agreeing or nearest(mention, before)


BASELINES: dict[str, Rule] = {"nearest mention": nearest, "same head word": same_head_word, "rules": rules}
