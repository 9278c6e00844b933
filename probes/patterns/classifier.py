"""What all classifiers of attention patterns share: the same scores and tables of the same maps."""

from abc import abstractmethod
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor

from headscope.contracts import Facts, Findings, Row
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, given
from headscope.probes.base import Probe
from headscope.probes.patterns.agreement import kappa_rows, vote_rows
from headscope.probes.patterns.examples import example_rows
from headscope.probes.patterns.scores import (
    Predictions,
    agreement_rows,
    class_rows,
    confusion_rows,
    pattern_scores,
    prediction_rows,
    reliability_rows,
    uniform_notes,
)


class PatternClassifier(Probe):
    """A subclass says how likely each class of a map is."""

    def __init__(self, facts: Facts, lr: float = 0.0) -> None:
        super().__init__(lr)
        if facts.kind != "patterns":
            raise ConfigError(f"module: a classifier of patterns needs data=patterns, found data of kind {facts.kind}.")
        self.patterns = given(facts.patterns, "data of labelled maps")
        self.classes, self.names = self.patterns.classes, self.patterns.tested
        votes = vote_rows(self.patterns.votes, self.classes)
        self.agreement = votes or agreement_rows(self.patterns.label_pairs, self.classes)
        self.predictions = Predictions()
        self.tables: dict[str, list[Row]] = {}
        self.examples: list[Row] = []
        self.notes: list[str] = []

    @abstractmethod
    def logits(self, batch: AttentionBatch) -> Float[Tensor, "batch class"]:
        """The logits of the one map of each input."""

    def calibrated(self, logits: Float[Tensor, "map class"], labels: Tensor) -> Tensor | float:
        """The temperature at which logits are read."""
        return 1.0

    def evaluation_step(self, batch: AttentionBatch, batch_idx: int) -> None:
        self.predictions.update(batch.input_index, batch.gold["label"].squeeze(1), self.logits(batch))

    def scores(self) -> dict[str, Tensor]:
        indices, labels, logits = self.predictions.compute()
        self.predictions.reset()
        temperature = self.calibrated(logits, labels)
        self.tables = {
            "classes": class_rows(logits, labels, self.classes),
            "confusion": confusion_rows(logits, labels, self.classes),
            "reliability": reliability_rows(logits, labels, temperature),
            "agreement": self.agreement,
            "kappas": kappa_rows(self.patterns.votes, self.classes),
        }
        if self.trainer.testing:
            names = [self.names[index] for index in indices.tolist()]
            items = cast(Any, self.trainer).datamodule.read_splits()["test"].items
            self.examples = example_rows([items[index] for index in indices.tolist()], logits / temperature, labels)
            self.tables["predictions"] = prediction_rows(names, labels, logits, self.classes)
        self.notes = uniform_notes("the classifier", logits, self.classes)
        return pattern_scores(logits, labels, temperature)

    def findings(self) -> Findings:
        return Findings(tables=self.tables, drawings={"examples": self.examples}, notes={"classes": self.notes})
