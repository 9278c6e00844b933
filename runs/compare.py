"""Finished runs side by side: any folders with results.json, such as one experiment with several encoders."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.progress import progress
from headscope.reports.comparison import (
    FinishedRun,
    agreement_rows,
    comparable_heads,
    configuration_rows,
    difference_grids,
    metric_rows,
    run_rows,
    unique_labels,
    value_rows,
)
from headscope.reports.results import finished_results, write_report
from headscope.reports.terminal import show
from headscope.runs.loggers.dashboards import open_loggers
from headscope.runs.provenance import describe
from headscope.runs.training import changed_keys, comparable

MOST_DRAWN = 12


def run(cfg: DictConfig) -> dict[str, object]:
    """Read the runs, compare them; returns what results.json holds."""
    started, folder = time.monotonic(), Path(cfg.run_dir)
    (folder / "results.json").unlink(missing_ok=True)
    runs = open_runs(cfg.runs)
    metrics = metric_rows(runs)
    if not metrics:
        raise InputError(f"runs: {' and '.join(run.label for run in runs)} have no metric in common.")
    shared = comparable_heads(runs)
    drawn = quantities_to_draw(cfg.quantities, shared)
    agreement, grids = agreement_rows(runs, shared), difference_grids(runs, shared)
    results = {
        "experiment": cfg.experiment_name,
        "metrics": differences(metrics, agreement),
        "tables": {
            "summary": metrics,
            "runs": run_rows(runs),
            "configuration": configuration_table(runs),
            "head_agreement": agreement,
            "head_values": value_rows(runs, drawn),
        },
        "provenance": provenance(runs, shared, drawn) | describe(cfg) | {"seconds": round(time.monotonic() - started, 2)},
        "runs": {run.label: str(run.folder) for run in runs},
    }
    with open_loggers(cfg) as loggers:
        figures = [instantiate(figure, _partial_=True) for figure in (cfg.get("figures") or {}).values() if figure]
        write_report(folder, results, grids, progress(figures, "figures"))
        loggers.publish(results, grids, folder)
    show(results, folder, loggers.closing_lines)
    return results


def open_runs(paths: Sequence[str] | str) -> list[FinishedRun]:
    """The runs in the folders, each with a name of its own; a path of results.json stands for its folder."""
    paths = [Path(path) for path in ([paths] if isinstance(paths, str) else paths)]
    folders = [(path.parent if path.name == "results.json" else path).expanduser().resolve() for path in paths]
    if len(folders) < 2:
        raise ConfigError(f"runs=[{', '.join(map(str, paths))}]: expected the folders of two or more finished runs.")
    if twice := [folder for place, folder in enumerate(folders) if folder in folders[:place]]:
        raise ConfigError(f"runs: {twice[0]} is named twice.")
    found = []
    for label, folder in zip(unique_labels(folders), folders, strict=True):
        results = finished_results(folder)
        if results is None:
            raise InputError(f"{folder}: expected a finished run, found no results.json there.")
        found.append(FinishedRun(label, folder, results))
    return found


def quantities_to_draw(wanted: Sequence[str] | str, shared: Sequence[str]) -> list[str]:
    """The quantities asked for, or the first that all runs share."""
    wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in wanted:
        if name not in shared:
            raise ConfigError(f"quantities: {name} is no per-head quantity that all runs share{did_you_mean(name, shared)}")
    return wanted or list(shared[:MOST_DRAWN])


def differences(metrics: Sequence[Mapping], agreement: Sequence[Mapping]) -> dict[str, float | None]:
    """Every difference to the first run and every rank correlation, by name."""
    found = {f"{c}:{row['metric']}": row[c] for row in metrics for c in row if c.partition(":")[0] == "difference"}
    found |= {":".join(["spearman", row["quantity"], *filter(None, [row.get("run")])]): row["spearman"] for row in agreement}
    return found


def configuration_table(runs: Sequence[FinishedRun]) -> list[dict[str, object]]:
    """The keys that differ from the first run, with the value in every run."""
    configs = {run.label: comparable(run.provenance["config"]) for run in runs}
    first, *others = configs.values()
    keys = dict.fromkeys(key for other in others for key in changed_keys(first, other) if key != "experiment_name")
    return configuration_rows(configs, list(keys))


def provenance(runs: Sequence[FinishedRun], shared: Sequence[str], drawn: Sequence[str]) -> dict[str, object]:
    """Where the compared figures come from, as far as one sentence can say it of several runs."""
    of_runs = [run.provenance for run in runs]
    everything = {quantity for run in runs for quantity in run.heads}
    names = dict.fromkeys(one["encoder"]["name"] for one in of_runs)
    counts = [one["examples"] for one in of_runs]
    each = {f"{part} in {run.label}": n for run in runs for part, n in run.provenance["examples"].items()}
    return {
        "encoder": {"name": " and ".join(names)},
        "data": {file: sha256 for one in of_runs for file, sha256 in one["data"].items()},
        "examples": counts[0] if all(count == counts[0] for count in counts) else each,
        "skipped": {run.label: sum(run.provenance["skipped"].values()) for run in runs},
        "words_without_pieces": {run.label: sum(run.provenance["words_without_pieces"].values()) for run in runs},
        "left_out": {
            "per-head quantities that not all runs have for the same heads": len(everything - set(shared)),
            "per-head quantities without a figure; quantities=[…] chooses": len(shared) - len(drawn),
        },
        "vectors": None,
    }
