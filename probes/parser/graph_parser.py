"""Graph parsers over frozen attention (Clark, section 5): for each word, a distribution over its heads."""

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headscope.contracts import Facts, Findings, HeadValues
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch, mean_of_all
from headscope.errors import require_choice
from headscope.probes.base import Probe
from headscope.probes.parser.arborescence import best_trees
from headscope.probes.parser.attachment import AttachmentScore, attachment_scores, relation_table
from headscope.probes.parser.scorers import EXACT

NEVER = -1e9  # the score of a candidate that is not there


class GraphParser(Probe):
    """Learns a scorer of (candidate, word) pairs; beside it, on request, the same scorer on a control task."""

    def __init__(
        self,
        scorer: Callable[[Facts], nn.Module],
        facts: Facts,
        lr: float = 0.01,
        decode: str = "argmax",
        control: bool = False,
    ) -> None:
        super().__init__(lr)
        require_choice("module.decode", decode, ("argmax", "mst"))
        self.decode, self.has_root = decode, facts.layout.first is not None
        self.scorer = scorer(facts)
        self.control_scorer = copy.deepcopy(self.scorer) if control else None
        self.attachments = AttachmentScore(facts.relations)
        self.control_attachments = AttachmentScore(facts.relations)

    def loss(self, batch: AttentionBatch) -> Tensor:
        scored = (batch.gold["punctuation"] == 0) & (self.governors(batch) >= 0)
        loss = governor_loss(candidate_scores(self.scorer, batch, self.has_root), self.governors(batch), scored)
        if self.control_scorer:
            # No parameter is shared: the sum trains both probes as if each were alone.
            scored = (batch.gold["punctuation"] == 0) & (self.governors(batch, "control") >= 0)
            scores = candidate_scores(self.control_scorer, batch, self.has_root)
            loss = loss + governor_loss(scores, self.governors(batch, "control"), scored)
        return loss

    def governors(self, batch: AttentionBatch, name: str = "governors") -> Int[Tensor, "batch word"]:
        """The gold governors; where no token stands for ROOT, those of words under ROOT are left out."""
        gold = batch.gold[name]
        return gold if self.has_root else torch.where(gold == 0, IGNORE, gold)

    def evaluation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        relations = batch.gold["relations"]
        self.attachments.update(self.predict(self.scorer, batch), self.governors(batch), relations)
        if self.control_scorer:
            control = self.predict(self.control_scorer, batch)
            self.control_attachments.update(control, self.governors(batch, "control"), relations)

    def predict(self, scorer: nn.Module, batch: AttentionBatch) -> Int[Tensor, "batch word"]:
        """The head of each word: its best candidate, or that of the best tree."""
        scores = candidate_scores(scorer, batch, self.has_root)
        return best_trees(scores.log_softmax(1), batch.mask) if self.decode == "mst" else scores.argmax(1)

    def scores(self) -> dict[str, Tensor]:
        relations, (correct, count) = self.attachments.relations, self.attachments.compute()
        self.relation_rows = relation_table(correct, count, relations)
        scores = attachment_scores(correct, count, relations)
        if self.control_scorer:
            correct, count = self.control_attachments.compute()
            control = attachment_scores(correct, count, relations)["uas"]
            scores |= {"control": control, "selectivity": scores["uas"] - control}
        self.attachments.reset()
        self.control_attachments.reset()
        return scores

    def findings(self) -> Findings:
        weights = cast(Any, self.scorer).head_weights() if hasattr(self.scorer, "head_weights") else {}
        heads = {quantity.name: HeadValues(quantity, grid.tolist()) for quantity, grid in weights.items()}
        return Findings(tables={"relations": self.relation_rows}, heads=heads)


def candidate_scores(
    scorer: nn.Module, batch: AttentionBatch, has_root: bool = True
) -> Float[Tensor, "batch candidate word"]:
    """The scores with -inf where a candidate is padding or the word itself; without ROOT, nothing is ever below it."""
    words = batch.mask.shape[1]
    itself = torch.eye(words, dtype=torch.bool, device=batch.mask.device)
    scores = scorer(batch)
    scores = scores if scores.dtype == EXACT else scores.float()
    scores = scores.masked_fill(~batch.mask[:, :, None] | itself, -torch.inf)
    if not has_root:  # finite, since the only word of a sentence has no other candidate
        scores = torch.cat([torch.full_like(scores[:, :1], NEVER), scores[:, 1:]], 1)
    return scores


def governor_loss(
    scores: Float[Tensor, "batch candidate word"], governors: Int[Tensor, "batch word"], scored: Bool[Tensor, "batch word"]
) -> Tensor:
    """Mean cross-entropy of the gold governors over the scored words; 0 where there is none."""
    targets = torch.where(scored, governors, IGNORE)
    total = nn.functional.cross_entropy(scores, targets, ignore_index=IGNORE, reduction="sum")
    return mean_of_all(total, scored.sum())
