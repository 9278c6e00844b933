"""Antecedents by rule: the baselines that a head is compared with."""

from collections.abc import Callable, Sequence

from headscope.data_modules.readers.mentions import Mention

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
