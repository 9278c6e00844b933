"""Several runs as one: the rows of a published table, or one experiment for several tasks or folds, joined by a function."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from headscope.contracts import ChildRun, Findings, Row, RunResults, Source
from headscope.processes import is_first_process
from headscope.reports.results import read_heads
from headscope.runs.children import compose_child, handed_on
from headscope.runs.part_jobs import Child, run_children
from headscope.runs.report import open_run
from headscope.runs.resume import clear


@dataclass(frozen=True)
class Planned:
    """A run that is to be: its row, the value for which the row is run, its experiment and overrides, and its folder."""

    row: str
    value: Any
    experiment: str
    overrides: tuple[str, ...]

    @property
    def label(self) -> str:
        """What the table calls it."""
        return self.row if self.value is None else f"{self.value}, {self.row}"

    @property
    def folder(self) -> str:
        """Its experiment, or its label where overrides tell it from others of the same experiment."""
        return re.sub(r"[^\w-]+", "_", self.label) if self.overrides else self.experiment


def run(cfg: DictConfig) -> RunResults:
    """Run every row, join what they found, report it."""
    folder = Path(cfg.run_dir)
    planned = list(plan(cfg))
    parts = run_rows(cfg, planned)
    findings: Findings = instantiate(cfg.join, _convert_="all")(parts)
    runs = {one.label: one.folder for one in planned}
    if cfg.then:
        # What the rows found may decide how the last run is made.
        overrides = [filled_in(text, findings.metrics) for text in cfg.then.overrides]
        parts += run_rows(cfg, [Planned("final", None, cfg.then.experiment, tuple(overrides))])
        runs["final"] = "final"
    if is_first_process():
        # Not before all rows are there: one that fails leaves the old table. The last run inside may have left a model.
        clear(folder, keep=("model",) if cfg.then else ())
    with open_run(cfg, group=folder.name) as opened:
        seconds = sum(part.results.provenance.seconds for part in parts)
        return opened.finish(findings, source_of(parts), seconds, runs)


def plan(cfg: DictConfig) -> Iterator[Planned]:
    """All rows for each value of `each`, or once where it has none; then the rows that run once."""
    for key, value in [(key, value) for key, values in cfg.each.items() for value in values] or [(None, None)]:
        for label, row in cfg.rows.items():
            own = row.get("overrides") or []
            yield Planned(label, value, row.experiment, tuple([f"{key}={value}", *own] if key else own))
    for label, row in cfg.once.items():
        yield Planned(label, None, row.experiment, tuple(row.overrides))


def filled_in(override: str, metrics: Mapping[str, float | None]) -> str:
    """An override with what was found in the place of {metric}."""
    for name, value in metrics.items():
        override = override.replace(f"{{{name}}}", str(value))
    return override


def run_rows(cfg: DictConfig, planned: Sequence[Planned]) -> list[ChildRun]:
    """One ordinary run for each, with the table's own choice of a map store."""
    folder = Path(cfg.run_dir)
    store = [f"data.cache={str(cfg.data.cache).lower()}"] if "cache" in cfg.data else []
    given = [*store, *handed_on(cfg)]
    children = [
        Child(one.label, compose_child(one.experiment, folder / one.folder, given, one.overrides)) for one in planned
    ]
    found = run_children(children, cfg.experiment_name)
    rows = zip(planned, children, found, strict=True)
    return [ChildRun(one.row, one.value, results, read_heads(child.folder)) for one, child, results in rows]


def source_of(parts: Sequence[ChildRun]) -> Source:
    """The files that any of the runs read; inputs are those of the last run or, for several values, of the first row's."""
    last = parts[-1].results.provenance
    data = {file: sha256 for part in parts for file, sha256 in part.results.provenance.data.items()}
    examples: Mapping[str, int] = last.examples
    if any(part.value is not None for part in parts):
        first = [part.results.provenance.examples for part in parts if part.row == parts[0].row]
        examples = {"test": sum(counts.get("test", 0) for counts in first)}
    return replace(last.as_source(), data=data, examples=examples)


def published_table(parts: Sequence[ChildRun], rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> Findings:
    """One metric of each row beside the published figure, with further columns; the join of a published table."""
    summary: list[Row] = []
    for part in parts:
        metric, metrics = rows[part.row]["metric"], part.results.metrics
        published = part.results.provenance.config["published"].get(metric)
        summary.append(
            {
                "row": part.row if part.value is None else f"{part.value}, {part.row}",
                "ours": metrics[metric],
                "published": rows[part.row].get("published", published),
                "metric": metric,
                "inputs": part.results.provenance.examples.get("test"),
            }
            | {name.removeprefix("test/"): metrics.get(name) for name in columns}
        )
    return Findings({row["row"]: row["ours"] for row in summary}, {"summary": summary})
