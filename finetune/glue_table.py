"""The scores of several tasks from several starts as one table (Kovaleva, Table 1), and what training gained."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headscope.contracts import ChildRun, Findings, Row
from headscope.data_modules.readers.glue import TASKS
from headscope.published import figures_of

UNTRAINED, PRETRAINED = "untrained", "pre-trained"
GAIN = ("accuracy", "pearson")  # the paper's mean gain, 35.9, is that of accuracy and, for STS-B, of Pearson
EPOCHS = (
    "ours: after the epoch that is best on this same dev set by the task's first metric; last epoch: after the last one "
    "(the paper does not say which it took)"
)
GAINS = "gain: pre-trained minus untrained, by accuracy, or Pearson (STS-B); published: the same of Table 1, same tasks"


def start_table(parts: Sequence[ChildRun]) -> Findings:
    """Every metric of each task and start beside the published one, and the gains with their mean."""
    summary = [row for part in parts for row in metric_rows(part)]
    gains = list(gain_rows(parts))
    main = {f"{part.value}, {part.row}": part.results.metrics[f"test/{TASKS[part.value].metrics[0]}"] for part in parts}
    both = {
        f"{row['row']}, {row['metric'].removeprefix('test/')}": row["ours"]
        for row in summary
        if row["metric"] != f"test/{TASKS[row['row'].partition(',')[0]].metrics[0]}"
    }
    return Findings(
        metrics=main | both | {"mean gain": gains[-1]["ours"]} if gains else main | both,
        tables={"summary": summary, "gains": gains},
        notes={"summary": [EPOCHS, *unequal(summary)], "gains": [GAINS]},
    )


def metric_rows(part: ChildRun) -> Iterator[Row]:
    """One row for each metric of the task."""
    metrics, published = part.results.metrics, figures_of(part.results.provenance)
    counts = part.results.provenance.examples
    trained = "fit" in part.results.provenance.config["stages"]
    for name in TASKS[part.value].metrics:
        yield {
            "row": f"{part.value}, {part.row}",
            "metric": f"test/{name}",
            "ours": metrics[f"test/{name}"],
            "published": published.get(f"test/{name}"),
            "last_epoch": metrics.get(f"test/{name}_last_epoch"),
            "train": counts["train"] if trained else None,
            "inputs": counts["test"],
        }


def unequal(rows: Sequence[Row]) -> list[str]:
    """A line for each task whose starts did not learn from equally many examples."""
    counts: dict[str, set[int]] = {}
    for row in rows:
        if row["train"] is not None:
            counts.setdefault(row["row"].partition(",")[0], set()).add(row["train"])
    return [
        f"{task}: its starts learnt from {' and '.join(f'{one:,}' for one in sorted(several))} examples, so do not compare"
        for task, several in counts.items()
        if len(several) > 1
    ]


def gain_rows(parts: Sequence[ChildRun]) -> Iterator[Row]:
    """What a pre-trained start gained over no training, by task, then on average; nothing without both."""
    by_start = {start: {part.value: part for part in parts if part.row == start} for start in (UNTRAINED, PRETRAINED)}
    rows: list[Row] = []
    for task in by_start[PRETRAINED]:
        if task in by_start[UNTRAINED]:
            metric = next(name for name in GAIN if name in TASKS[task].metrics)
            before, after = (by_start[start][task].results for start in (UNTRAINED, PRETRAINED))
            ours = difference(after.metrics, before.metrics, f"test/{metric}")
            told = [figures_of(one.provenance) for one in (after, before)]
            rows.append(
                {
                    "task": task,
                    "metric": metric,
                    "ours": ours,
                    "published": difference(told[0], told[1], f"test/{metric}"),
                    "inputs": after.provenance.examples["test"],
                }
            )
    yield from rows
    if rows:
        means = {key: mean_of([row[key] for row in rows]) for key in ("ours", "published")}
        yield {"task": f"mean of {len(rows)}", "metric": "", **means, "inputs": sum(row["inputs"] for row in rows)}


def difference(after: Mapping[str, Any], before: Mapping[str, Any], name: str) -> float | None:
    """Of one entry; None where either has none."""
    one, other = after.get(name), before.get(name)
    return None if one is None or other is None else one - other


def mean_of(values: Sequence[float | None]) -> float | None:
    """None where any is not known: a mean over fewer would be of something else."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
