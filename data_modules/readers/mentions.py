"""Mentions of entities in a document, what a rule can see of them, and the antecedents that baselines choose by rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headscope.data_modules.readers.text import shown
from headscope.errors import DataError

KINDS = ("pronoun", "proper", "nominal")
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
TITLES = _words("mr mrs ms miss sir lady lord")


@dataclass(frozen=True)
class Mention:
    """A span of words, 1-based and inclusive, that refers to the entity of its group."""

    start: int
    end: int
    head: int
    group: str
    kind: str
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
    """Running text with its mentions in the order of their head words."""

    name: str
    words: tuple[str, ...]
    mentions: tuple[Mention, ...]


class Brackets:
    """The mentions of a sentence whose brackets are opened and closed one after the other; `what` names them in errors."""

    def __init__(self, file: Path, what: str) -> None:
        self.file, self.what = file, what
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
        """Refuse a sentence that ends within a mention."""
        left = [(line, group) for group, opened in self._open.items() for _, line in opened]
        if left:
            line, group = min(left)
            raise DataError(f"{self.file}:{line}: the bracket of {self.what} {shown(group)} is not closed in its sentence.")


def mention(words: Sequence[str], span: tuple[int, int], head: int, group: str, kind: str, plural: bool | None) -> Mention:
    """A mention with all that can be seen of it; `plural` is what the annotation says of its head word, if anything."""
    start, end = span
    inside = [word.lower() for word in words[start - 1 : end]]
    head_text = words[head - 1].lower()
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
