"""Scores of classified maps: F1, precision and recall of each class, confusion, calibration; one temperature for all."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.functional import accuracy, calibration_error, cohen_kappa, confusion_matrix, f1_score, precision, recall

from headscope.contracts import Row
from headscope.data_modules.patterns.labels import one_class_notes

BINS = 10
TEMPERATURES = (0.2, 5.0, 161)  # from, to, how many


class Predictions(Metric):
    """The index, label and logits of every map, from all processes."""

    full_state_update = False
    indices: list[Tensor]
    labels: list[Tensor]
    logits: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        for name in ("indices", "labels", "logits"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, indices: Int[Tensor, "map"], labels: Int[Tensor, "map"], logits: Float[Tensor, "map class"]) -> None:
        self.indices.append(indices)
        self.labels.append(labels)
        self.logits.append(logits)

    def compute(self) -> tuple[Int[Tensor, "map"], Int[Tensor, "map"], Float[Tensor, "map class"]]:
        """In the order of the indices."""
        indices, labels, logits = (
            torch.cat(state) if isinstance(state, list) else state for state in (self.indices, self.labels, self.logits)
        )
        order = indices.argsort()
        return indices[order], labels[order], logits[order].float()


def pattern_scores(
    logits: Float[Tensor, "map class"], labels: Int[Tensor, "map"], temperature: Tensor | float = 1.0
) -> dict[str, Tensor]:
    """Macro F1, accuracy, and the expected calibration error at a temperature."""
    options = {"task": "multiclass", "num_classes": logits.shape[1]}
    sure = (logits / temperature).softmax(1)
    return {
        "f1": f1_score(logits, labels, average="macro", **options),
        "accuracy": accuracy(logits, labels, average="micro", **options),
        "calibration_error": calibration_error(sure, labels, n_bins=BINS, norm="l1", **options),
        "nll": nn.functional.cross_entropy(logits / temperature, labels),
    }


def best_temperature(logits: Float[Tensor, "map class"], labels: Int[Tensor, "map"]) -> Float[Tensor, ""]:
    """The temperature that makes the labels likeliest."""
    start, end, count = TEMPERATURES
    low, high = torch.tensor([start, end]).log10().tolist()
    candidates = torch.logspace(low, high, count, device=logits.device)
    scaled = (logits / candidates[:, None, None]).log_softmax(-1)
    likely = scaled.gather(2, labels[None, :, None].expand(count, -1, 1)).mean((1, 2))
    return candidates[likely.argmax()]


def class_rows(logits: Float[Tensor, "map class"], labels: Int[Tensor, "map"], classes: Sequence[str]) -> list[Row]:
    """Precision, recall and F1 of each class."""
    options = {"task": "multiclass", "num_classes": len(classes), "average": "none"}
    columns = {name: score(logits, labels, **options).tolist() for name, score in SCORES.items()}
    counts = torch.bincount(labels, minlength=len(classes)).tolist()
    return [
        {"class": name, **{column: values[n] for column, values in columns.items()}, "maps": counts[n]}
        for n, name in enumerate(classes)
    ]


SCORES = {"precision": precision, "recall": recall, "f1": f1_score}


def confusion_rows(logits: Float[Tensor, "map class"], labels: Int[Tensor, "map"], classes: Sequence[str]) -> list[Row]:
    """A row for each label, with how many of its maps were taken for each class."""
    counts = confusion_matrix(logits.argmax(1), labels, task="multiclass", num_classes=len(classes)).tolist()
    return [{"label": label, **dict(zip(classes, row, strict=True))} for label, row in zip(classes, counts, strict=True)]


def reliability_rows(
    logits: Float[Tensor, "map class"], labels: Int[Tensor, "map"], temperature: Tensor | float = 1.0
) -> list[Row]:
    """How often it is right where it is about this sure."""
    sure, found = (logits / temperature).softmax(1).max(1)
    bins = (sure * BINS).long().clamp(max=BINS - 1)
    counts = torch.bincount(bins, minlength=BINS)
    sums = torch.stack([torch.bincount(bins, values.double(), BINS) for values in (sure, (found == labels).double())])
    means = (sums / counts.clamp(min=1)).tolist()
    return [
        {"from": n / BINS, "to": (n + 1) / BINS, "confidence": means[0][n], "accuracy": means[1][n], "maps": count}
        for n, count in enumerate(counts.tolist())
        if count
    ]


def prediction_rows(
    names: Sequence[Row], labels: Int[Tensor, "map"], logits: Float[Tensor, "map class"], classes: Sequence[str]
) -> list[Row]:
    """What was said of each map."""
    rows = zip(names, labels.tolist(), logits.argmax(1).tolist(), logits.tolist(), strict=True)
    return [
        {**name, "label": classes[label], "predicted": classes[found], **_named(numbers, classes)}
        for name, label, found, numbers in rows
    ]


def _named(numbers: Sequence[float], classes: Sequence[str]) -> dict[str, float]:
    return {f"logit:{name}": number for name, number in zip(classes, numbers, strict=True)}


def agreement_rows(pairs: Sequence[tuple[str, str]], classes: Sequence[str]) -> list[Row]:
    """How far two passes over the same maps agree; nothing where there was only one."""
    if not pairs:
        return []
    first, second = (torch.tensor([classes.index(name) for name in names]) for names in zip(*pairs, strict=True))
    rows = {
        "kappa of two passes": float(cohen_kappa(first, second, task="multiclass", num_classes=len(classes))),
        "macro F1 of the second pass": float(
            f1_score(second, first, task="multiclass", num_classes=len(classes), average="macro")
        ),
        "equal labels": float((first == second).float().mean()),
        "maps labelled twice": len(pairs),
    }
    return [{"what": what, "value": value} for what, value in rows.items()]


def uniform_notes(classifier: str, logits: Float[Tensor, "map class"], classes: Sequence[str]) -> list[str]:
    """A line where a classifier gives nearly all maps one class."""
    shares = torch.bincount(logits.argmax(1), minlength=len(classes)) / max(1, len(logits))
    return one_class_notes(dict(zip(classes, shares.tolist(), strict=True)), classifier, "the labelled maps")
