"""The folds of a cross-validation joined: scores of every classifier, and what the network takes for what."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headscope.contracts import ChildRun, Findings, Row
from headscope.data_modules.patterns.labels import CLASSES
from headscope.probes.patterns.scores import (
    best_temperature,
    class_rows,
    confusion_rows,
    pattern_scores,
    reliability_rows,
    uniform_notes,
)

PUBLISHED = 0.86
Fold = tuple[Tensor, Tensor]  # logits (map, class) and labels (map) of what a run was tested on


def joined_folds(parts: Sequence[ChildRun], network: str) -> Findings:
    """Tables of all rows; the temperature of a fold is that which is best for the others, since none is learnt from twice.

    `temperature` and `f1` are what the last run, which learns from all maps, is told of the folds.
    """
    folds: dict[str, list[Fold]] = {}
    for part in parts:
        folds.setdefault(part.row, []).append(logits_and_labels(part.results.tables["predictions"]))
    logits, labels = pooled(folds[network])
    temperatures = [best_temperature(*pooled(others(folds[network], n))) for n in range(len(folds[network]))]
    calibrated = torch.cat([logits / t for (logits, _), t in zip(folds[network], temperatures, strict=True)])
    final, f1 = float(best_temperature(logits, labels)), float(pattern_scores(logits, labels)["f1"])
    agreement = [row for part in parts[:1] for row in part.results.tables.get("agreement", [])]
    before, after = (float(pattern_scores(one, labels)["calibration_error"]) for one in (logits, calibrated))
    rows = [summary_row(name, own) for name, own in folds.items()]
    return Findings(
        metrics={
            "f1": f1,
            **{f"f1 of {row['row']}": row["f1 of all folds"] for row in rows if row["row"] != network},
            "accuracy": float(pattern_scores(logits, labels)["accuracy"]),
            "calibration_error": after,
            "calibration_error without temperature": before,
            "temperature": final,
            **{row["what"]: row["value"] for row in agreement},
        },
        tables={
            "summary": [*rows, {**dict.fromkeys(rows[0]), "row": "published", "f1 of all folds": PUBLISHED}],
            "classes": [{"row": name, **row} for name, own in folds.items() for row in class_rows(*pooled(own), CLASSES)],
            "confusion": confusion_rows(logits, labels, CLASSES),
            "reliability": reliability_rows(calibrated, labels),
            "agreement": agreement,
            "predictions": [row for part in parts if part.row == network for row in part.results.tables["predictions"]],
        },
        notes={"summary": [note for name, own in folds.items() for note in uniform_notes(name, pooled(own)[0], CLASSES)]},
    )


def logits_and_labels(rows: Sequence[Row]) -> Fold:
    """What a run said of the maps that it was tested on."""
    logits = torch.tensor([[row[f"logit:{name}"] for name in CLASSES] for row in rows])
    return logits, torch.tensor([CLASSES.index(row["label"]) for row in rows])


def pooled(folds: Sequence[Fold]) -> Fold:
    """All maps of some folds."""
    return torch.cat([logits for logits, _ in folds]), torch.cat([labels for _, labels in folds])


def others(folds: Sequence[Fold], left_out: int) -> list[Fold]:
    """All folds but one; the one itself where there is no other."""
    return [fold for index, fold in enumerate(folds) if index != left_out] or list(folds)


def summary_row(name: str, folds: Sequence[Fold]) -> Row:
    """Macro F1 of all maps together, and its mean and deviation over the folds."""
    scores = torch.stack([pattern_scores(*fold)["f1"] for fold in folds])
    together = pattern_scores(*pooled(folds))
    spread = {"mean of folds": float(scores.mean()), "deviation": float(scores.std())} if len(folds) > 1 else {}
    return {
        "row": name,
        "f1 of all folds": float(together["f1"]),
        "mean of folds": None,
        "deviation": None,
        **spread,
        "accuracy": float(together["accuracy"]),
        "folds": len(folds),
        "n": sum(len(labels) for _, labels in folds),
    }
