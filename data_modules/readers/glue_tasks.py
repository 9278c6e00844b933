"""The tasks of GLUE: where their columns are, what their labels mean, what they are scored by."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One task; `labels` is None where a score from 0 to 5 is asked for. The first metric is the main one.

    `broken_rows` says that the official files have some lines which end too early.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    dev_file: str = "dev.tsv"
    hub_texts: tuple[str, ...] | None = None
    hub_dev: str = "validation"
    broken_rows: bool = False

    @property
    def outputs(self) -> int:
        """How many numbers a model gives for an input."""
        return len(self.labels) if self.labels else 1


PAIR = ("sentence1", "sentence2")
ENTAILMENT = ("entailment", "not_entailment")
TASKS = {
    "mrpc": Task("MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), ("f1", "accuracy"), hub_texts=PAIR),
    "stsb": Task("STS-B", PAIR, "score", None, ("pearson", "spearman")),
    "sst2": Task("SST-2", ("sentence",), "label", ("0", "1"), ("accuracy",)),
    "qqp": Task(
        "QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), ("f1", "accuracy"), broken_rows=True,
    ),
    "rte": Task("RTE", PAIR, "label", ENTAILMENT, ("accuracy",)),
    "qnli": Task("QNLI", ("question", "sentence"), "label", ENTAILMENT, ("accuracy",)),
    "mnli": Task(
        "MNLI", PAIR, "gold_label", ("entailment", "neutral", "contradiction"), ("accuracy",),
        dev_file="dev_matched.tsv", hub_texts=("premise", "hypothesis"), hub_dev="validation_matched",
    ),
}  # fmt: skip
