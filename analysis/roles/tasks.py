"""Roles of heads over several tasks: per task and as the mean over tasks, as the paper reports them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from headscope.analysis.roles.heads import TUNED
from headscope.contracts import ChildRun, Findings, HeadValues, Quantity, Row, by_name
from headscope.published import figures_of, why_not_beside

# What the summary says of each task, over the four coarse roles unless the name says that it is of the fine ones.
METRICS = (
    "share_delimiter", "share_local", "share_syntactic", "share_block", "share_none", "mean_score",
    "p_values_between_5_and_95_percent", "syntactic_that_are_local", "local_syntactic_spearman", "above_tau_that_fail",
    "fine_above_tau_that_fail", "share_of_several_fine_roles", "delimiter_heads", "delimiter_only_in_last_three_layers",
)  # fmt: skip
TABLES = ("roles", "by_layer", "overlap", "fine_overlap", "failed_pairs", "before_after", "change_by_third", "tau_curve")
SPEARMAN = "local_syntactic_spearman"
MODELS = {TUNED: "tuned", "": "model"}


def joined_tasks(parts: Sequence[ChildRun], means: Mapping[str, float | str]) -> Findings:
    """The tasks as one; `means` are the published means over tasks, which are of fine-tuned models."""
    metrics = {part.value: part.results.metrics for part in parts}
    models = [model for model in MODELS if f"test/{model}share_none" in next(iter(metrics.values()))]
    told = [part.results.provenance for part in parts]
    means = {} if any(why_not_beside(one.config["published"], one) for one in told) else means
    rows = [summary_row(metrics, name, model, means) for model in models for name in METRICS]
    spearman = [
        {
            "task": part.value,
            "model": MODELS[model],
            "ours": part.results.metrics.get(f"test/{model}{SPEARMAN}"),
            "published": figures_of(part.results.provenance).get(f"test/{model}{SPEARMAN}"),
            "n": part.results.provenance.examples.get("test"),
        }
        for model in models
        for part in parts
    ]
    tables = {f"{name}_of_tasks": of_tasks(parts, name) for name in TABLES}
    tested = ", ".join(f"{part.value} {part.results.provenance.examples.get('test')}" for part in parts)
    shown = any(row["published"] is not None for row in rows)
    published = "; published means are over QNLI, QQP, MRPC and SST-2, 1,000 test inputs each" if shown else ""
    return Findings(
        metrics={f"{prefix_of(row['model'])}{row['metric']}": row["mean"] for row in rows}
        | {f"{task} {prefix_of(row['model'])}{row['metric']}": row[task] for row in rows for task in metrics},
        tables={"summary": rows, "spearman": spearman, "block": of_tasks(parts, "block"), **tables},
        heads=by_name(mean_heads(parts)),
        notes={
            "summary": [f"inputs: {tested}{published}"],
            "block": [f"{part.value}: {line}" for part in parts for line in part.results.notes.get("block", ())],
        },
    )


def prefix_of(model: str) -> str:
    """What the names of a model's metrics begin with."""
    return next(prefix for prefix, said in MODELS.items() if said == model)


def summary_row(
    metrics: Mapping[str, Mapping[str, float | None]], name: str, model: str, means: Mapping[str, float | str]
) -> Row:
    """One metric of one model: of each task, the mean over the tasks that have it, and the published mean of several."""
    values = {task: found.get(f"test/{model}{name}") for task, found in metrics.items()}
    known = [value for value in values.values() if value is not None]
    mean = float(np.mean(known)) if known else None
    published = means.get(name) if model and len(known) > 1 else None
    return {"metric": name, "model": MODELS[model], **values, "mean": mean, "published": published}


def of_tasks(parts: Sequence[ChildRun], name: str) -> list[Row]:
    """A table of every task, with the task in front."""
    return [{"task": part.value, **row} for part in parts for row in part.results.tables.get(name, ())]


def mean_heads(parts: Sequence[ChildRun]) -> Iterator[HeadValues]:
    """The mean over tasks of what is said of each head, with the interval of that mean where the tasks have intervals."""
    meanings = {name: quantity for part in parts for name, quantity in part.results.quantities.items()}
    cells: dict[str, dict[tuple[int, int], list[Row]]] = {}
    for part in parts:
        for row in part.heads:
            cells.setdefault(row["quantity"], {}).setdefault((int(row["layer"]), int(row["head"])), []).append(row)
    for name, heads in cells.items():
        if name not in meanings:
            continue
        shape = tuple(max(axis) for axis in zip(*heads, strict=True))
        grids = {what: np.full(shape, np.nan) for what in ("value", "n", "low", "high")}
        for (layer, head), rows in heads.items():
            for what, number in mean_cell(rows).items():
                grids[what][layer - 1, head - 1] = number
        known = {what: grids[what].tolist() for what in ("n", "low", "high") if np.isfinite(grids[what]).any()}
        yield HeadValues(over_tasks(meanings[name]), grids["value"].tolist(), **known)


def mean_cell(rows: Sequence[Row]) -> dict[str, float]:
    """The mean of a number over tasks; the halves of independent intervals add up as squares."""
    values = [float(row["value"]) for row in rows if row.get("value") not in (None, "")]
    found = {"value": float(np.mean(values)) if values else float("nan")}
    if all(row.get(what) not in (None, "") for row in rows for what in ("n", "low", "high")):
        half = np.sqrt(sum(((float(row["high"]) - float(row["low"])) / 2) ** 2 for row in rows)) / len(rows)
        found |= {"n": sum(float(row["n"]) for row in rows), "low": found["value"] - half, "high": found["value"] + half}
    return found


def over_tasks(quantity: Quantity) -> Quantity:
    """The same quantity as a mean over tasks."""
    return replace(quantity, description=f"{quantity.description} Here the mean over tasks.".strip())
