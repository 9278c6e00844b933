"""Finished runs side by side: what they share, what differs, and how well their heads agree."""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.stats import spearmanr

from headscope.contracts import HeadValues, Provenance, Quantity, Row, RunResults, Section, head_name
from headscope.reports.results import finished_results, read_heads

FEWEST_HEADS = 3  # fewer have no order worth a correlation
SHOWN_DIGITS = 8
COLUMNS = {"metric", "difference", "key", "quantity", "layer", "head"}  # beside which runs stand: no names for them
Cells = dict[tuple[int, int], float | None]  # a value for each (layer, head), from 1
SECTION = Section("differences", "differences between runs")


@dataclass(frozen=True)
class FinishedRun:
    """What a run left behind, under the name that tables give it."""

    label: str
    folder: Path
    results: RunResults
    heads: Mapping[str, Cells]
    counts: Mapping[str, int]  # of each quantity, the fewest inputs or words that a head's value is of, where known

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Its final figures."""
        return self.results.metrics

    @property
    def provenance(self) -> Provenance:
        """Where its figures come from."""
        return self.results.provenance


def open_finished(label: str, folder: Path) -> FinishedRun | None:
    """The run of a folder, if it finished."""
    if (results := finished_results(folder)) is None:
        return None
    cells: dict[str, Cells] = {}
    counts: dict[str, int] = {}
    for row in read_heads(folder):
        value = float(row["value"]) if row["value"] else None
        cells.setdefault(row["quantity"], {})[int(row["layer"]), int(row["head"])] = value
        if row["n"]:
            counts[row["quantity"]] = min(int(float(row["n"])), counts.get(row["quantity"], sys.maxsize))
    return FinishedRun(label, folder, results, cells, counts)


def unique_labels(folders: Sequence[Path]) -> list[str]:
    """The names of the folders, with as many folders above them as it takes to tell them apart, and from other columns."""
    for depth in range(1, max(len(folder.parts) for folder in folders) + 1):
        labels = ["/".join(folder.parts[-depth:]) for folder in folders]
        told_apart = len(set(labels) - COLUMNS) == len(labels)
        if told_apart and not any(map(str.isdigit, labels)):  # the jobs of a sweep: a number alone would pass for a value
            break
    return labels


def name_of(what: str, run: FinishedRun, runs: Sequence[FinishedRun]) -> str:
    """What is told of a run and the first, with the run's name where there are several."""
    return what if len(runs) == 2 else f"{what}:{run.label}"


def difference(value: float | None, first: float | None) -> float | None:
    """How far a value is from the first; None where either is undefined."""
    return None if value is None or first is None else value - first


def metric_rows(runs: Sequence[FinishedRun]) -> list[Row]:
    """The metrics that all runs have, and how far each run is from the first."""
    first, *others = runs
    return [
        {"metric": name}
        | {run.label: run.metrics[name] for run in runs}
        | {name_of("difference", run, runs): difference(run.metrics[name], first.metrics[name]) for run in others}
        for name in first.metrics
        if all(name in run.metrics for run in others)
    ]


def run_rows(runs: Sequence[FinishedRun]) -> list[Row]:
    """The experiment, encoder and data of each run, with the beginning of their checksums."""
    return [
        {
            "run": run.label,
            "experiment": run.results.experiment,
            "encoder": run.provenance.encoder["name"],
            "weights": str(run.provenance.encoder.get("sha256"))[:SHOWN_DIGITS],
            "data": ", ".join(Path(file).name for file in run.provenance.data),
            "data_checksum": checksum(run.provenance.data.values()),
            "examples": ", ".join(f"{count} {part}" for part, count in run.provenance.examples.items()),
            "seed": run.provenance.seed,
        }
        for run in runs
    ]


def checksum(parts: Iterable[str]) -> str:
    """The beginning of one checksum for several."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:SHOWN_DIGITS]


def configuration_rows(configs: Mapping[str, Mapping], keys: Sequence[str]) -> list[Row]:
    """What each run's configuration says of the keys; a key that repeats another within a part of the data is left out."""
    rows = [{"key": key} | {label: text_of(value_at(config, key)) for label, config in configs.items()} for key in keys]
    known = {json.dumps([row["key"], *list(row.values())[1:]]) for row in rows}
    return [row for row in rows if not _repeats(row, known)]


def _repeats(row: Row, known: set[str]) -> bool:
    key, *values = row.values()
    parts = key.split(".")
    return any(json.dumps([".".join(parts[start:]), *values]) in known for start in range(1, len(parts)))


def value_at(config: object, key: str) -> object:
    """The value of a dotted key; None where the configuration has none."""
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return config


def text_of(value: object) -> str:
    """A value of a configuration as people write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def comparable_heads(runs: Sequence[FinishedRun]) -> list[str]:
    """The quantities that all runs have, for the same heads."""
    first, *others = runs
    return [
        name for name, cells in first.heads.items() if all(run.heads.get(name, {}).keys() == cells.keys() for run in others)
    ]


def agreement_rows(runs: Sequence[FinishedRun], quantities: Sequence[str]) -> list[Row]:
    """For each quantity and run: rank correlation with the first, and how far apart the heads are."""
    first, *others = runs
    rows = []
    for quantity in quantities:
        for run in others:
            pairs = {
                head: (value, after)
                for head, value in first.heads[quantity].items()
                if value is not None and (after := run.heads[quantity][head]) is not None
            }
            counts = [one.counts[quantity] for one in (first, run) if quantity in one.counts]
            rows.append({"quantity": quantity, "run": run.label, **agreement(pairs), "n": min(counts, default=None)})
    return [{key: value for key, value in row.items() if key != "run"} for row in rows] if len(runs) == 2 else rows


def agreement(pairs: Mapping[tuple[int, int], tuple[float, float]]) -> Row:
    """How alike two runs are over the heads; None where there is nothing to tell."""
    if not pairs:
        return dict.fromkeys(("spearman", "mean_absolute_difference", "largest_difference", "head")) | {"heads": 0}
    changes = {head: after - before for head, (before, after) in pairs.items()}
    layer, head = max(changes, key=lambda head: abs(changes[head]))
    return {
        "spearman": spearman(*zip(*pairs.values(), strict=True)),
        "mean_absolute_difference": float(np.mean(np.abs(list(changes.values())))),
        "largest_difference": changes[layer, head],
        "head": head_name(layer, head),
        "heads": len(pairs),
    }


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Rank correlation; None where the heads are few or all alike."""
    if len(one) < FEWEST_HEADS or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    return float(cast(Any, spearmanr(one, other)).statistic)


def head_differences(runs: Sequence[FinishedRun], quantities: Sequence[str]) -> dict[str, HeadValues]:
    """The difference of every head to the first run, as per-head quantities of the comparison."""
    first, *others = runs
    return {
        (name := name_of(f"difference:{quantity}", run, runs)): HeadValues(
            difference_of(name, first.results.quantities.get(quantity, Quantity(quantity, quantity)), run.label),
            _grid(first.heads[quantity], run.heads[quantity]),
        )
        for quantity in quantities
        for run in others
    }


def difference_of(name: str, quantity: Quantity, run: str) -> Quantity:
    """What the difference of a quantity is called."""
    return Quantity(
        name, f"difference of {quantity.label}", f"The value in {run} minus that in the first run.", quantity.unit,
        section=SECTION,
    )  # fmt: skip


def _grid(before: Cells, after: Cells) -> list[list[float | None]]:
    layers, heads = (max(axis) for axis in zip(*before, strict=True))
    return [[difference(after[la, he], before[la, he]) for he in range(1, heads + 1)] for la in range(1, layers + 1)]


def value_rows(runs: Sequence[FinishedRun], quantities: Sequence[str]) -> list[Row]:
    """The values of every head in all runs."""
    return [
        {"quantity": quantity, "layer": layer, "head": head} | {run.label: run.heads[quantity][layer, head] for run in runs}
        for quantity in quantities
        for layer, head in runs[0].heads[quantity]
    ]
