"""Scores of predictions, as GLUE defines them; in percent."""

from collections.abc import Sequence

from jaxtyping import Float, Shaped
from torch import Tensor
from torchmetrics.functional import pearson_corrcoef, spearman_corrcoef
from torchmetrics.functional.classification import binary_f1_score, multiclass_accuracy

from headscope.contracts import Row
from headscope.data_modules.readers.glue import Task


def predicted(logits: Float[Tensor, "*shape output"], task: Task) -> Shaped[Tensor, "*shape"]:
    """The label, or the score."""
    return logits.argmax(-1) if task.labels else logits.squeeze(-1)


def task_scores(logits: Float[Tensor, "input output"], labels: Shaped[Tensor, "input"], task: Task) -> dict[str, float]:
    """The task's metrics in their order."""
    found = predicted(logits, task)
    return {name: 100 * float(SCORES[name](found, labels, task)) for name in task.metrics}


def _f1(found: Tensor, labels: Tensor, task: Task) -> Tensor:
    return binary_f1_score(found, labels)


def _accuracy(found: Tensor, labels: Tensor, task: Task) -> Tensor:
    return multiclass_accuracy(found, labels, num_classes=task.outputs, average="micro")


def _pearson(found: Tensor, labels: Tensor, task: Task) -> Tensor:
    return pearson_corrcoef(found.double(), labels.double()).nan_to_num()


def _spearman(found: Tensor, labels: Tensor, task: Task) -> Tensor:
    return spearman_corrcoef(found.double(), labels.double()).nan_to_num()


SCORES = {"f1": _f1, "accuracy": _accuracy, "pearson": _pearson, "spearman": _spearman}


def prediction_rows(index: Tensor, logits: Tensor, labels: Tensor, task: Task) -> list[Row]:
    """One row per input: gold, prediction, and the probability of each label."""
    names: Sequence[str] = task.labels or ()
    rows = []
    outputs = logits.softmax(-1) if names else logits
    for example, output, label in zip(index.tolist(), outputs.tolist(), labels.tolist(), strict=True):
        if names:
            chances = {f"p_{name}": chance for name, chance in zip(names, output, strict=True)}
            best = names[max(range(len(output)), key=output.__getitem__)]
            rows.append({"example": example, "gold": names[int(label)], "predicted": best, **chances})
        else:
            rows.append({"example": example, "gold": label, "predicted": output[0]})
    return rows
