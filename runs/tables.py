"""Several runs as one: the rows of a published table, or one experiment for several tasks or folds, joined by a function."""

import logging
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.contracts import ChildRun, Findings, Row, RunResults, Source
from headscope.errors import InputError
from headscope.processes import is_first_process
from headscope.published import figures_of
from headscope.reports.results import read_heads
from headscope.runs.children import compose_child, handed_on, key_of
from headscope.runs.part_jobs import Child, run_children
from headscope.runs.report import open_run
from headscope.runs.resume import clear, task_overrides

log = logging.getLogger(__name__)
ONE_EACH = "a fine-tuned model of each task"


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


def run(cfg: DictConfig, more: "Callable[[Planned], Sequence[str]] | None" = None) -> RunResults:
    """Run every row, join what they found, report it; `more` gives the overrides of a row that are known when it begins."""
    folder = Path(cfg.run_dir)
    without = left_out(cfg)
    planned = list(plan(cfg, without))
    parts = run_rows(cfg, planned, more)
    findings: Findings = instantiate(cfg.join, _convert_="all")(parts)
    findings = replace(findings, notes=with_left_out(findings.notes, without))
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
        return opened.finish(findings, source_of(parts, cfg.same_inputs), seconds, runs)


def left_out(cfg: DictConfig) -> dict[Any, str]:
    """The values that there is no data for, and why; an error where the command line names one of them, or none is left."""
    known: Mapping[Any, str] = instantiate(cfg.without, _convert_="all")
    wanted = [value for values in cfg.each.values() for value in values]
    without = {value: known[value] for value in wanted if value in known}
    named = {reference_of(cfg, key) for key in cfg.each} & {key_of(text) for text in task_overrides()}
    if without and (named or len(without) == len(wanted)):
        value, why = next(iter(without.items()))
        raise InputError(f"{value}: {why}; {'leave it out, or ' if named else ''}name a folder that has it with data.dir=.")
    for value, why in without.items():
        log.warning("%s is left out: %s.", value, why)
    return without


def reference_of(cfg: DictConfig, key: str) -> str:
    """The key that the values of `each` are taken from: `tasks` of `${tasks}`."""
    unresolved = cast(dict[str, Any], OmegaConf.to_container(cfg.each, resolve=False))
    return str(unresolved[key]).strip("${}")


def with_left_out(notes: Mapping[str, Sequence[str]], without: Mapping[Any, str]) -> dict[str, Sequence[str]]:
    """The notes with a line of what is missing beneath the first table."""
    lines = [f"left out: {value} ({why})" for value, why in without.items()]
    return {**notes, "summary": [*notes.get("summary", ()), *lines]} if lines else dict(notes)


def plan(cfg: DictConfig, without: Container[Any] = ()) -> Iterator[Planned]:
    """All rows for each value of `each`, or once where it has none; then the rows that run once."""
    values = [(key, value) for key, values in cfg.each.items() for value in values if value not in without]
    for key, value in values or [(None, None)]:
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


def run_rows(
    cfg: DictConfig, planned: Sequence[Planned], more: "Callable[[Planned], Sequence[str]] | None" = None
) -> list[ChildRun]:
    """One ordinary run for each, with the table's own choice of a map store."""
    folder = Path(cfg.run_dir)
    store = [f"data.cache={str(cfg.data.cache).lower()}"] if "cache" in cfg.data else []
    given = [*store, *handed_on(cfg)]

    def child(one: Planned) -> Child:
        own = [*one.overrides, *(more(one) if more else ())]
        return Child(one.label, compose_child(one.experiment, folder / one.folder, given, own))

    found = zip(planned, run_children(planned, child, cfg.experiment_name), strict=True)
    return [ChildRun(one.row, one.value, results, read_heads(folder / one.folder)) for one, results in found]


def source_of(parts: Sequence[ChildRun], same_inputs: bool = False) -> Source:
    """The files that any of the runs read; inputs are those of the last run or, for several values, of the first row's,
    unless all values are about the same."""
    last = parts[-1].results.provenance
    data = {file: sha256 for part in parts for file, sha256 in part.results.provenance.data.items()}
    examples: Mapping[str, int] = last.examples
    if not same_inputs and any(part.value is not None for part in parts):
        first = [part.results.provenance.examples for part in parts if part.row == parts[0].row]
        examples = {"test": sum(counts.get("test", 0) for counts in first)}
    source = replace(last.as_source(), data=data, examples=examples)
    provenances = [part.results.provenance for part in parts]
    if len({str(one.encoder.get("name")) for one in provenances}) > 1:
        models = [one.encoder for one in provenances]
        source = replace(source, encoder={**in_common(models), "name": name_of_all(parts, models)})
    if len({str((one.tuned_encoder or {}).get("name")) for one in provenances}) > 1:
        models = [one.tuned_encoder or {} for one in provenances]
        source = replace(source, tuned_encoder={**in_common(models), "name": name_of_all(parts, models)})
    return source


def name_of_all(parts: Sequence[ChildRun], models: Sequence[Mapping[str, Any]]) -> str:
    """What runs of different models are of: one model of each task, or the models by name."""
    if any(isinstance(part.value, str) for part in parts):
        return ONE_EACH
    return ", ".join(dict.fromkeys(name for model in models for name in str(model.get("name")).split(", ")))


def in_common(models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is said of all of several models alike, such as their state."""
    return {key: value for key, value in models[0].items() if all(one.get(key) == value for one in models)}


def published_table(parts: Sequence[ChildRun], rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> Findings:
    """One metric of each row beside the published figure, with further columns; the join of a published table."""
    summary: list[Row] = []
    for part in parts:
        metric, metrics = rows[part.row]["metric"], part.results.metrics
        published = figures_of(part.results.provenance).get(metric)
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
