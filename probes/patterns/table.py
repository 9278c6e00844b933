"""The folds of a cross-validation joined: scores of every classifier, what the network takes for what, how it transfers."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headscope.contracts import ChildRun, Findings, Row
from headscope.data_modules.patterns.labels import CLASSES
from headscope.data_modules.patterns.votes import RANDOM
from headscope.probes.patterns.abstention import abstention_rows
from headscope.probes.patterns.examples import surest
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


CEILING = "macro F1 of a labeller against the other two"


def joined_folds(
    parts: Sequence[ChildRun],
    network: str,
    transfer: Mapping[str, str] | None = None,
    risks: Sequence[float] = (0.05,),
    seeds: Sequence[str] = (),
) -> Findings:
    """Tables of all rows; the temperature of a fold is that which is best for the others, since none is learnt from twice.

    `transfer` names rows that test a family of encoders which was not learnt from. `risks` are shares of errors; the
    confidence that keeps to each is found on other folds. `temperature`, `f1` and `confidence` (of the first risk) are
    what the last run, which learns from all maps, is told of the folds. `seeds` are rows of the same network.
    """
    folds: dict[str, list[Fold]] = {}
    for part in parts:
        folds.setdefault(part.row, []).append(logits_and_labels(part.results.tables["predictions"]))
    away = {name: folds.pop(row) for row, name in (transfer or {}).items() if row in folds}
    logits, labels = pooled(folds[network])
    temperatures = [best_temperature(*pooled(others(folds[network], n))) for n in range(len(folds[network]))]
    calibrated = torch.cat([logits / t for (logits, _), t in zip(folds[network], temperatures, strict=True)])
    final, f1 = float(best_temperature(logits, labels)), float(pattern_scores(logits, labels)["f1"])
    agreement = [row for part in parts[:1] for row in part.results.tables.get("agreement", [])]
    before, after = (float(pattern_scores(one, labels)["calibration_error"]) for one in (logits, calibrated))
    rows = [summary_row(name, own) for name, own in folds.items()]
    rows += seed_rows(network, [folds[name] for name in seeds if name in folds])
    known = {row["what"]: row["value"] for row in agreement}
    beside = {"a labeller against the other two": known.get(CEILING), "published": PUBLISHED}
    said_by = [part for part in parts if part.row == network]
    said = [row for part in said_by for row in part.results.tables["predictions"]]
    abstention = abstention_rows(certainties(calibrated, labels, [len(one) for _, one in folds[network]]), risks)
    return Findings(
        metrics={
            "f1": f1,
            **{f"f1 of {row['row']}": row["f1 of all folds"] for row in rows if row["row"] != network},
            "accuracy": float(pattern_scores(logits, labels)["accuracy"]),
            "calibration_error": after,
            "calibration_error without temperature": before,
            "temperature": final,
            **{f"f1 on {name}, not learnt from": float(pattern_scores(*pooled(own))["f1"]) for name, own in away.items()},
            "confidence": abstention[0]["confidence"],
            **known,
        },
        tables={
            "summary": [
                *rows,
                *({**dict.fromkeys(rows[0]), "row": name, "f1 of all folds": f1} for name, f1 in beside.items() if f1),
            ],
            "transfer": [{"not learnt from": name, **transfer_row(pooled(own))} for name, own in away.items()],
            "shares": share_rows(said),
            "abstention": abstention,
            "classes": [{"row": name, **row} for name, own in folds.items() for row in class_rows(*pooled(own), CLASSES)],
            "confusion": confusion_rows(logits, labels, CLASSES),
            "reliability": reliability_rows(calibrated, labels),
            "agreement": agreement,
            "kappas": [row for part in parts[:1] for row in part.results.tables.get("kappas", [])],
            "predictions": said,
        },
        drawings={"examples": surest([one for part in said_by for one in part.results.drawings.get("examples", [])])},
        notes={"summary": [note for name, own in folds.items() for note in uniform_notes(name, pooled(own)[0], CLASSES)]},
    )


def certainties(logits: Tensor, labels: Tensor, sizes: Sequence[int]) -> list[Fold]:
    """How sure the network is of each map, as calibrated, and whether it is right; fold by fold."""
    sure, found = logits.softmax(1).max(1)
    return list(zip(sure.split(list(sizes)), (found == labels).split(list(sizes)), strict=True))


def seed_rows(network: str, seeds: Sequence[Sequence[Fold]]) -> list[Row]:
    """The mean of several seeds, with the deviation over all their folds; then what they say together, on average."""
    if len(seeds) < 2:
        return []
    each = [summary_row(network, folds) for folds in seeds]
    scores = torch.stack([pattern_scores(*fold)["f1"] for folds in seeds for fold in folds])
    mean = {name: sum(row[name] for row in each) / len(each) for name in ("f1 of all folds", "accuracy")}
    spread = {"mean of folds": float(scores.mean()), "deviation": float(scores.std()), "folds": len(scores)}
    # The rows of one fold are the same maps in the same order, whatever the seed.
    together = [
        (torch.stack([logits.log_softmax(1) for logits, _ in same]).mean(0), same[0][1]) for same in zip(*seeds, strict=True)
    ]
    return [
        {**each[0], "row": f"{network}, mean of {len(seeds)} seeds", **mean, **spread},
        summary_row(f"{network}, {len(seeds)} seeds together", together),
    ]


def transfer_row(fold: Fold) -> Row:
    """Macro F1 on encoders that were not learnt from, over the classes that they show, and the F1 of each."""
    logits, labels = fold
    scores = pattern_scores(logits, labels)
    own = {row["class"]: row["f1"] if row["maps"] else None for row in class_rows(logits, labels, CLASSES)}
    return {"f1": float(scores["f1"]), "accuracy": float(scores["accuracy"]), **own, "n": len(labels)}


def share_rows(rows: Sequence[Row]) -> list[Row]:
    """Of the maps that were drawn at random, the share of each class in percent: by the labels, and by the network."""
    drawn = [row for row in rows if row.get("found") == RANDOM]
    if not drawn:
        return []
    labels, found = (Counter(row[column] for row in drawn) for column in ("label", "predicted"))
    shares = [(name, 100 * labels[name] / len(drawn), 100 * found[name] / len(drawn)) for name in CLASSES]
    return [
        {"class": name, "labels": label, "network": said, "difference": said - label, "n": len(drawn)}
        for name, label, said in shares
    ]


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
