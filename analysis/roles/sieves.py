"""Sieves (Pande et al. 2021): which tokens a role expects each token to attend to.

A sieve is a function of a batch's gold annotation, its real tokens and the names of its relations; it returns a boolean
(batch, token, token) matrix. A new role is one such function and one line of YAML.
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from headscope.analysis.links import link_ends
from headscope.data_modules.segments import TOKEN_CLASSES
from headscope.errors import require_choice

Gold = Mapping[str, Tensor]
Sieve = Bool[Tensor, "batch token token"]
REACH = 2
ROOT = "root"
NAMED = ("nsubj", "dobj", "obj", "amod", "advmod")  # the relations that the paper looks at one by one
SCHEMES = {
    "all": "all dependencies, both directions",
    "released": "from the dependent to its head, every relation, the root to itself, as in the released code",
    "named": "from the dependent to its head, nsubj, dobj, amod and advmod alone",
}


def near(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str], first: int, last: int) -> Sieve:
    """The tokens from `first` to `last` places after each token."""
    positions = torch.arange(real.shape[1], device=real.device)
    ahead = positions - positions[:, None]
    return _both_real((ahead >= first) & (ahead <= last), real)


def local(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str]) -> Sieve:
    """Within two places, the token itself included."""
    return near(gold, real, relations, -REACH, REACH)


def special(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str], tokens: Sequence[str]) -> Sieve:
    """The special tokens of some classes, wherever they stand."""
    for name in tokens:
        require_choice("analyses.roles.sieves, tokens", name, TOKEN_CLASSES)
    wanted = [TOKEN_CLASSES.index(name) for name in tokens]
    chosen = torch.stack([gold["token_class"] == number for number in wanted]).any(0)
    return _columns(chosen, real)


def block(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str]) -> Sieve:
    """The tokens of the same sentence of a pair; nothing where there is but one sentence."""
    sentence = gold["sentence"]
    pair = ((sentence == 1).any(1) & (sentence == 0).any(1))[:, None, None]
    same = (sentence[:, :, None] == sentence[:, None]) & (sentence >= 0)[:, None]
    return _both_real(same & pair, real)


def syntactic(
    gold: Gold,
    real: Bool[Tensor, "batch token"],
    relations: Sequence[str],
    only: Sequence[str] | None = None,
    scheme: str = "all",
) -> Sieve:
    """The tokens in a dependency with each token, as the scheme says; with `only`, to its head by these relations."""
    require_choice("analyses.roles.syntactic", scheme, SCHEMES)
    if scheme == "named":
        only = NAMED
    named, both_ways = only is not None, only is None and scheme == "all"
    if only is None:
        only = [name for name in relations if scheme == "released" or name.lower() != ROOT]
    start, end, there = link_ends(gold["dependencies"])
    if relations:
        wanted = torch.tensor([name in only for name in relations], device=real.device)
        there = there & wanted[gold["dependency_relations"].clamp(min=0)]
    elif named:
        there = torch.zeros_like(there)
    size = real.shape[1]
    cells = torch.where(there, start * size + end, size * size)  # padding falls into one cell behind the last
    matrix = torch.zeros(len(real), size * size + 1, dtype=torch.bool, device=real.device).scatter(1, cells, True)
    links = matrix[:, :-1].unflatten(1, (size, size))
    return _both_real(links | links.mT if both_ways else links, real)


# Further sieves, which the paper names and does not count


def same_word(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str]) -> Sieve:
    """The pieces of the same word, in lower case, in the other sentence of a pair."""
    word, sentence = gold["word_type"], gold["sentence"]
    same = (word[:, :, None] == word[:, None]) & (word >= 0)[:, None]
    return _both_real(same & (sentence[:, :, None] != sentence[:, None]), real)


def pieces(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str]) -> Sieve:
    """The other pieces of the same word; nothing for a word of one piece."""
    word, sentence = gold["word_index"], gold["sentence"]
    same = (word[:, :, None] == word[:, None]) & (sentence[:, :, None] == sentence[:, None]) & (word >= 0)[:, None]
    return _both_real(same & ~torch.eye(real.shape[1], dtype=torch.bool, device=real.device), real)


def rare(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str], below: int = 5) -> Sieve:
    """The pieces of words that occur less often than this in the data, wherever they stand."""
    count = gold["word_count"]
    return _columns((count > 0) & (count < below), real)


def question_mark(gold: Gold, real: Bool[Tensor, "batch token"], relations: Sequence[str]) -> Sieve:
    """The question marks, wherever they stand."""
    return _columns(gold["question_mark"] == 1, real)


def _columns(chosen: Bool[Tensor, "batch token"], real: Bool[Tensor, "batch token"]) -> Sieve:
    return _both_real(chosen[:, None].expand(-1, real.shape[1], -1), real)


def _both_real(sieve: Tensor, real: Bool[Tensor, "batch token"]) -> Sieve:
    return sieve & real[:, :, None] & real[:, None]
