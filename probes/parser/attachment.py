"""Unlabelled attachment: how many words found their head, per relation of the word."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from headscope.contracts import Row


def count_attachments(
    predicted: Int[Tensor, "batch word"],
    governors: Int[Tensor, "batch word"],
    relations: Int[Tensor, "batch word"],
    classes: int,
) -> tuple[Float[Tensor, "relation"], Float[Tensor, "relation"]]:
    """Correct and all words of each relation; words whose gold head is negative do not count."""
    real = governors >= 0
    relation = torch.where(real, relations, 0).flatten()
    empty = torch.zeros(classes, dtype=torch.float64, device=governors.device)
    correct = empty.index_add(0, relation, ((predicted == governors) & real).flatten().double())
    return correct, empty.index_add(0, relation, real.flatten().double())


class AttachmentScore(Metric):
    """Sums per relation, from which every attachment score follows."""

    full_state_update = False
    correct: Tensor
    count: Tensor

    def __init__(self, relations: Sequence[str]) -> None:
        super().__init__()
        self.relations = list(relations)
        for state in ("correct", "count"):
            self.add_state(state, torch.zeros(len(self.relations), dtype=torch.float64), dist_reduce_fx="sum")

    def update(
        self,
        predicted: Int[Tensor, "batch word"],
        governors: Int[Tensor, "batch word"],
        relations: Int[Tensor, "batch word"],
    ) -> None:
        correct, count = count_attachments(predicted, governors, relations, len(self.relations))
        self.correct += correct
        self.count += count

    def compute(self) -> Float[Tensor, "2 relation"]:
        """Correct and all words of each relation, over all processes."""
        return torch.stack([self.correct, self.count])  # two tensors would lose their axis where there is one relation


def attachment_scores(
    correct: Float[Tensor, "relation"], count: Float[Tensor, "relation"], relations: Sequence[str]
) -> dict[str, Tensor]:
    """UAS in percent without punctuation, with and without root words."""
    left_out = {"uas": ("punct",), "uas_without_root": ("punct", "root")}
    among = {
        name: correct.new_tensor([base(relation) not in out for relation in relations]) for name, out in left_out.items()
    }
    return {name: 100 * (correct * words).sum() / (count * words).sum() for name, words in among.items()}


def base(relation: str) -> str:
    """The relation without its subtype."""
    return relation.partition(":")[0]


def relation_table(
    correct: Float[Tensor, "relation"], count: Float[Tensor, "relation"], relations: Sequence[str]
) -> list[Row]:
    """Recall of each scored relation that occurs, most frequent first."""
    rows = [
        {"relation": relation, "recall": 100 * right / words, "count": int(words)}
        for relation, right, words in zip(relations, correct.tolist(), count.tolist(), strict=True)
        if words and base(relation) != "punct"
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["relation"]))
