"""How likely is candidate i the head of word j? One score per pair, from attention, words or distance.

A scorer takes its shape from the facts of the data and returns scores (batch, candidate, word).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.contracts import Facts, Quantity, Section
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import given
from headscope.probes.parser.pair_scores import Maps, PairScores

Scores = Float[Tensor, "batch candidate word"]
SECTION = Section("probe", "probe on attention")
WEIGHTS = {
    "head_to_dependent": Quantity(
        "weight_head_to_dependent",
        "probe's weight, head to dependent",
        "What the graph parser on attention learned to make of attention from the head.",
        better="high",
        section=SECTION,
    ),
    "dependent_to_head": Quantity(
        "weight_dependent_to_head",
        "probe's weight, dependent to head",
        "What the graph parser on attention learned to make of attention from the dependent.",
        better="high",
        section=SECTION,
        headline=True,
    ),
}
DISTANCES = (-2, -1, 0, 1, 2)
# Of weights that heads.csv reports. Adam makes steps of almost nothing as long as others, so that the last digits of a
# gradient, which depend on how processes share a batch, would show in the weights; Apple's GPUs have no float64.
EXACT = torch.float32 if torch.backends.mps.is_available() else torch.float64
DISTANCE_FEATURES = 3 + len(DISTANCES)


class AttentionScorer(nn.Module):
    """Attention only: every head has one weight for each direction."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.head_to_dependent = nn.Parameter(torch.zeros(facts.layers, facts.heads, dtype=EXACT))
        self.dependent_to_head = nn.Parameter(torch.zeros(facts.layers, facts.heads, dtype=EXACT))

    def forward(self, batch: AttentionBatch) -> Scores:
        weights = torch.stack([self.head_to_dependent.flatten(), self.dependent_to_head.flatten()], 1)
        ahead, back = (query_first(batch).to(EXACT) @ weights).transpose(0, 1).unbind(-1)  # autocast leaves float64 alone
        return ahead + back.mT

    def head_weights(self) -> dict[Quantity, Float[Tensor, "layer head"]]:
        """What was learnt about each head."""
        return {
            WEIGHTS["head_to_dependent"]: self.head_to_dependent.detach(),
            WEIGHTS["dependent_to_head"]: self.dependent_to_head.detach(),
        }


class AttentionWordScorer(nn.Module):
    """Attention and words: the weight of a head is linear in the vectors of the pair.

    Since W(v_i ⊕ v_j) = A v_i + B v_j, no tensor over pairs of words and vector sizes is ever made. `released` gives each
    candidate the vector of the word behind it, as the code of the paper's authors does by an index that is one off.
    """

    def __init__(self, facts: Facts, released: bool = False) -> None:
        super().__init__()
        self.released = released
        self.maps = facts.layers * facts.heads
        # Per map: the query's and the key's share in the weight of the map and of its transpose.
        self.query = nn.Linear(facts.vector_size, 2 * self.maps, bias=False)
        self.key = nn.Linear(facts.vector_size, 2 * self.maps, bias=False)
        nn.init.zeros_(self.query.weight)
        nn.init.zeros_(self.key.weight)

    def forward(self, batch: AttentionBatch) -> Scores:
        if not self.released:
            return PairScores.apply(query_first(batch), batch.vectors, self.query.weight, self.key.weight)
        # Both vectors of a unit side by side: as a candidate and as a word. Of a map as it is the query is the candidate,
        # of its transpose the key.
        vectors = torch.cat([candidate_vectors(batch, released=True), given(batch.vectors, "data with vectors")], 2)
        (query, query_back), (key, key_back) = self.query.weight.chunk(2), self.key.weight.chunk(2)
        none = torch.zeros_like(query)
        by_query = torch.cat([torch.cat([query, none], 1), torch.cat([none, query_back], 1)])
        by_key = torch.cat([torch.cat([none, key], 1), torch.cat([key_back, none], 1)])
        return PairScores.apply(query_first(batch), vectors, by_query, by_key)


def query_first(batch: AttentionBatch) -> Maps:
    """The maps with all heads of a pair side by side; as they come from the map store, this costs nothing."""
    return given(batch.maps, "data with maps").permute(3, 0, 4, 1, 2).flatten(3)


def candidate_vectors(batch: AttentionBatch, released: bool) -> Float[Tensor, "batch candidate vector"]:
    """The vectors of candidates; as released, those of the words behind them, and none for the last."""
    vectors = given(batch.vectors, "data with vectors")
    return nn.functional.pad(vectors[:, 1:], (0, 0, 0, 1)) if released else vectors


class DistanceWordScorer(nn.Module):
    """Distances and words, without attention: one hidden layer over both vectors and the distance; `released` as above."""

    def __init__(self, facts: Facts, hidden: int = 256, released: bool = False) -> None:
        super().__init__()
        self.released = released
        self.candidate = nn.Linear(facts.vector_size, hidden)
        self.word = nn.Linear(facts.vector_size, hidden, bias=False)
        self.distance = nn.Linear(DISTANCE_FEATURES, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, batch: AttentionBatch) -> Scores:
        candidate = self.candidate(candidate_vectors(batch, self.released))[:, :, None]
        word = self.word(batch.vectors)[:, None]
        hidden = candidate + word + self.distance(distance_features(batch.mask))
        return self.score(hidden.tanh()).squeeze(-1)


class RightBranchingScorer(nn.Module):
    """The head is the next word; ROOT for the last."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()

    def forward(self, batch: AttentionBatch) -> Scores:
        position = torch.arange(batch.mask.shape[1], device=batch.mask.device)
        scores = (position[:, None] == position + 1).float()
        scores[0] += 0.5
        return scores.expand(len(batch.mask), -1, -1)


def distance_features(mask: Tensor) -> Float[Tensor, "batch candidate word feature"]:
    """How far the candidate is ahead or behind, in shares of the sentence; near distances; ROOT."""
    position = torch.arange(mask.shape[1], device=mask.device)
    ahead = (position[:, None] - position).expand(len(mask), -1, -1)
    length = mask.sum(1).clamp(min=2)[:, None, None] - 1
    near = [(ahead == distance).float() for distance in DISTANCES]
    features = torch.stack([ahead.clamp(min=0) / length, (-ahead).clamp(min=0) / length, *near], dim=-1)
    root = (position == 0).float()[None, :, None, None].expand(*ahead.shape, 1)
    return torch.cat([features * (1 - root), root], dim=-1)
