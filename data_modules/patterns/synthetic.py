"""Synthetic attention maps of each of the five patterns, to train on beside labelled ones; never to test on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int8

from headscope.data_modules.patterns.labels import CLASSES
from headscope.data_modules.segments import TOKEN_CLASSES

LENGTHS = (8, 128)
PAIRS = 0.7  # share of inputs with two sentences; a block needs two
CLS, SEP, PUNCTUATION = (TOKEN_CLASSES.index(name) for name in ("cls", "sep", "punctuation"))
Rows = Float[np.ndarray, "token token"]


@dataclass(frozen=True)
class SyntheticMap:
    """A synthetic map with the classes of its tokens."""

    weights: Float[np.ndarray, "token token"]
    token_class: Int8[np.ndarray, "token"]  # numbers of segments.TOKEN_CLASSES
    label: str


def synthetic_maps(count: int, seed: int) -> list[SyntheticMap]:
    """Classes in turn; the same for the same seed, whatever the count."""
    return [synthetic_map(CLASSES[index % len(CLASSES)], np.random.default_rng([seed, index])) for index in range(count)]


def synthetic_map(label: str, random: np.random.Generator) -> SyntheticMap:
    """A map of one class: its pattern strong, the others weak or absent, noise everywhere."""
    classes = token_classes_of_input(random, pair=label == "block" or random.random() < PAIRS)
    weights = MAKERS[label](classes, random)
    weights *= random.lognormal(0, random.uniform(0, 0.4), weights.shape)
    return SyntheticMap((weights / weights.sum(1, keepdims=True)).astype(np.float32), classes, label)


def token_classes_of_input(random: np.random.Generator, pair: bool) -> Int8[np.ndarray, "token"]:
    """[CLS] first, [SEP] last and between the sentences of a pair; some of the rest is punctuation."""
    length = round(np.exp(random.uniform(*np.log(LENGTHS))))
    classes = np.where(random.random(length) < random.uniform(0, 0.15), PUNCTUATION, 0).astype(np.int8)
    classes[0], classes[-1] = CLS, SEP
    ends = [length - 1]
    if pair:
        ends.append(round(length * random.uniform(0.3, 0.7)))
        classes[ends[-1]] = SEP
    for end in ends:  # most sentences end with a period
        if random.random() < 0.6:
            classes[end - 1] = PUNCTUATION
    return classes


def vertical(classes: np.ndarray, random: np.random.Generator) -> Rows:
    """Columns of special tokens."""
    return mixture(classes, random, columns=random.uniform(0.3, 0.97), band=random.uniform(0, 0.1))


def diagonal(classes: np.ndarray, random: np.random.Generator) -> Rows:
    """The previous, same or next token; sometimes fainter stripes beside it."""
    spread = background(classes, random) + repeated_words(len(classes), random, most=0.3)
    return mixture(classes, random, random.uniform(0, 0.1), random.uniform(0.4, 0.97), spread)


def vertical_diagonal(classes: np.ndarray, random: np.random.Generator) -> Rows:
    """Both at once."""
    columns = random.uniform(0.15, 0.6)
    return mixture(classes, random, columns, band=random.uniform(0.25, 0.95 - columns))


def block(classes: np.ndarray, random: np.random.Generator) -> Rows:
    """Attention inside the own sentence of a pair, to all of it or rather to what is near."""
    inside = same_sentence(classes) + random.uniform(0, 0.2)
    spread = (background(classes, random) + random.uniform(0, 4) * wide_band(len(classes), random)) * inside
    return mixture(classes, random, random.uniform(0, 0.25), random.uniform(0, 0.12), spread)


def heterogeneous(classes: np.ndarray, random: np.random.Generator) -> Rows:
    """None of these: columns of ordinary words, spots, links between repeated words, or nearly even attention."""
    length = len(classes)
    spread = background(classes, random) * np.exp(random.uniform(0, 2) * random.standard_normal(length) * (classes == 0))
    if random.random() < 0.5:
        spread[random.integers(length, size=length), random.integers(length, size=length)] += random.uniform(0, 6)
    if random.random() < 0.3:
        spread += random.uniform(0, 2) * wide_band(length, random)
    spread += repeated_words(length, random, most=1.0)
    return mixture(classes, random, random.uniform(0, 0.2), random.uniform(0, 0.12), spread)


MAKERS: dict[str, Callable[[np.ndarray, np.random.Generator], Rows]] = {
    "vertical": vertical,
    "diagonal": diagonal,
    "vertical_diagonal": vertical_diagonal,
    "block": block,
    "heterogeneous": heterogeneous,
}


def mixture(
    classes: np.ndarray, random: np.random.Generator, columns: float, band: float, spread: Rows | None = None
) -> Rows:
    """Rows that give these shares to special columns and to near tokens, more or less, and spread out the rest."""
    spread = background(classes, random) if spread is None else spread
    spread = spread / spread.sum(1, keepdims=True)
    uneven = random.uniform(0, 0.4, size=2)
    shares = np.array([columns, band]) * np.clip(1 + uneven * random.standard_normal((len(classes), 2)), 0.1, 1.6)
    shares /= np.maximum(1, shares.sum(1, keepdims=True) / 0.99)
    near = near_tokens(len(classes), random)
    to_columns, to_band = shares[:, :1], shares[:, 1:]
    return to_columns * special_columns(classes, random) + to_band * near + (1 - to_columns - to_band) * spread


def special_columns(classes: np.ndarray, random: np.random.Generator) -> Float[np.ndarray, "token"]:
    """How the attention to special tokens is shared among one, often [CLS], or several of them."""
    special = np.flatnonzero((classes == CLS) | (classes == SEP))
    chosen = random.permutation(special)[: random.integers(1, len(special) + 1)] if random.random() < 0.6 else special[:1]
    row = np.zeros(len(classes))
    row[chosen] = random.dirichlet(np.ones(len(chosen)))
    return row


def near_tokens(length: int, random: np.random.Generator) -> Rows:
    """Rows around the previous, same or next token, sharp or with some width."""
    offset, width = random.integers(-1, 2), random.choice([0.1, random.uniform(0.3, 1.8)])
    distance = np.arange(length)[None] - np.arange(length)[:, None]
    rows = np.exp(-0.5 * ((distance - offset) / width) ** 2) + 1e-12 * np.exp(-np.abs(distance))
    return rows / rows.sum(1, keepdims=True)


def background(classes: np.ndarray, random: np.random.Generator) -> Rows:
    """Attention without a pattern: uneven cells, some tokens liked better than others; special ones get no more."""
    length = len(classes)
    liked = random.uniform(0, 0.8) * random.standard_normal(length) * (classes == 0)
    return np.exp(random.uniform(0.1, 1.2) * random.standard_normal((length, length)) + liked)


def wide_band(length: int, random: np.random.Generator) -> Rows:
    """1 on the diagonal, slowly less away from it."""
    distance = np.abs(np.arange(length)[None] - np.arange(length)[:, None])
    return np.exp(-distance / random.uniform(2, 8))


def repeated_words(length: int, random: np.random.Generator, most: float) -> Rows:
    """In some inputs broken stripes beside the diagonal, as where the sentences of a pair repeat words."""
    away = int(random.integers(length // 4, length // 2 + 1))
    stripes = (np.eye(length, k=away) + np.eye(length, k=-away)) * (random.random((length, length)) < 0.6)
    return (random.random() < 0.4) * random.uniform(0, most) * length * stripes


def same_sentence(classes: np.ndarray) -> Float[np.ndarray, "token token"]:
    """1 for two ordinary tokens of one sentence."""
    sentence = np.cumsum(classes == SEP)
    ordinary = (classes != CLS) & (classes != SEP)
    return ((sentence[:, None] == sentence) & ordinary[:, None] & ordinary).astype(float)
