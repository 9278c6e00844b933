"""Finished runs side by side: any folders with results.json, such as one experiment with several encoders."""

import time
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from headscope.contracts import Findings, Row, RunResults, Source
from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.processes import is_first_process
from headscope.reports.comparison import (
    FinishedRun,
    agreement_rows,
    comparable_heads,
    configuration_rows,
    head_differences,
    metric_rows,
    open_finished,
    run_rows,
    unique_labels,
    value_rows,
)
from headscope.runs.report import open_run
from headscope.runs.resume import changed_keys, clear, comparable

MOST_DRAWN = 12


def run(cfg: DictConfig) -> RunResults:
    """Read the runs, compare them, report it."""
    started = time.monotonic()
    folder = Path(cfg.run_dir).resolve()
    if folder in run_folders(cfg.runs):
        raise ConfigError(f"run_dir={cfg.run_dir}: holds one of the runs to compare; use another run_dir.")
    runs = open_runs(cfg.runs)
    metrics = metric_rows(runs)
    if not metrics:
        raise InputError(f"runs: {' and '.join(run.label for run in runs)} have no metric in common.")
    shared = comparable_heads(runs)
    drawn = quantities_to_draw(cfg.quantities, shared)
    agreement = agreement_rows(runs, shared)
    findings = Findings(
        metrics=differences(metrics, agreement),
        tables={
            "summary": metrics,
            "runs": run_rows(runs),
            "configuration": configuration_table(runs),
            "head_agreement": agreement,
            "head_values": value_rows(runs, drawn),
        },
        heads=head_differences(runs, shared),
    )
    folders = {run.label: str(run.folder) for run in runs}
    if is_first_process():
        clear(folder)
    with open_run(cfg) as opened:
        return opened.finish(findings, source_of(runs, shared, drawn), time.monotonic() - started, folders)


def open_runs(paths: Sequence[str] | str, least: int = 2) -> list[FinishedRun]:
    """The runs in the folders, each with a name of its own; a path of results.json stands for its folder."""
    folders = run_folders(paths)
    if len(folders) < least:
        given = paths if isinstance(paths, str) else ", ".join(map(str, paths))
        raise ConfigError(f"runs=[{given}]: expected the folders of {('one', 'two')[least - 1]} or more finished runs.")
    if twice := [folder for index, folder in enumerate(folders) if folder in folders[:index]]:
        raise ConfigError(f"runs: {twice[0]} is named twice.")
    found = []
    for label, folder in zip(unique_labels(folders), folders, strict=True):
        if (run := open_finished(label, folder)) is None:
            raise InputError(f"{folder}: expected a finished run, found no results.json there.")
        found.append(run)
    return found


def run_folders(paths: Sequence[str] | str) -> list[Path]:
    """The folders that are named, by themselves or by their results.json."""
    named = [Path(path) for path in ([paths] if isinstance(paths, str) else paths)]
    return [(path.parent if path.name == "results.json" else path).expanduser().resolve() for path in named]


def quantities_to_draw(wanted: Sequence[str] | str, shared: Sequence[str]) -> list[str]:
    """The quantities asked for, or the first that all runs share."""
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in wanted:
        if name not in shared:
            raise ConfigError(f"quantities: {name} is no per-head quantity that all runs share{did_you_mean(name, shared)}")
    return wanted or list(shared[:MOST_DRAWN])


def differences(metrics: Sequence[Row], agreement: Sequence[Row]) -> dict[str, float | None]:
    """Every difference to the first run and every rank correlation, by name."""
    found = {f"{c}:{row['metric']}": row[c] for row in metrics for c in row if c.partition(":")[0] == "difference"}
    found |= {":".join(["spearman", row["quantity"], *filter(None, [row.get("run")])]): row["spearman"] for row in agreement}
    return found


def configuration_table(runs: Sequence[FinishedRun]) -> list[Row]:
    """The keys that differ from the first run, with the value in every run."""
    configs = {run.label: comparable(run.provenance.config) for run in runs}
    first, *others = configs.values()
    keys = dict.fromkeys(key for other in others for key in changed_keys(first, other) if key != "experiment_name")
    return configuration_rows(configs, list(keys))


def source_of(runs: Sequence[FinishedRun], shared: Sequence[str], drawn: Sequence[str]) -> Source:
    """Where the compared figures come from, as far as one sentence can say it of several runs."""
    of_runs = [run.provenance for run in runs]
    everything = {quantity for run in runs for quantity in run.heads}
    names = dict.fromkeys(one.encoder["name"] for one in of_runs)
    counts = [one.examples for one in of_runs]
    each = {f"{part} in {run.label}": n for run in runs for part, n in run.provenance.examples.items()}
    return Source(
        encoder={"name": " and ".join(names)},
        data={file: sha256 for one in of_runs for file, sha256 in one.data.items()},
        examples=counts[0] if all(count == counts[0] for count in counts) else each,
        skipped={run.label: sum(run.provenance.skipped.values()) for run in runs},
        words_without_pieces={run.label: sum(run.provenance.words_without_pieces.values()) for run in runs},
        left_out={
            "per-head quantities that not all runs have for the same heads": len(everything - set(shared)),
            "per-head quantities without a figure; quantities=[…] chooses": len(shared) - len(drawn),
        },
    )
