"""The beginning and the end of every run: its folder, its loggers, what it was, and the one place that writes results."""

import os
import platform
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig

from headscope.contracts import HEAD_COLUMNS, Figure, Findings, Provenance, Row, RunResults, Source, defined
from headscope.files import checksums_below, content_sha256, write_csv, write_json
from headscope.processes import is_first_process, progress
from headscope.reports.results import HEADS, ITSELF, RESULTS
from headscope.reports.terminal import show
from headscope.runs.explain import explain
from headscope.runs.resume import READ_BACK, plain_config, task_overrides

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

PROJECT = Path(__file__).parents[1]
PACKAGES = ("torch", "pytorch-lightning", "transformers", "hydra-core", "torchmetrics", "numpy", "scipy")


# What a run was


def describe(cfg: DictConfig, source: Source, seconds: float) -> Provenance:
    """Command, configuration, versions, state of the code and machine, beside what the data says of itself."""
    return Provenance(
        **vars(source),
        command=" ".join(sys.argv),
        config=plain_config(cfg),
        seed=cfg.seed,
        git=git_state(),
        packages=versions(PACKAGES),
        hardware=hardware(),
        seconds=round(seconds, 2),
    )


def git_state() -> dict[str, Any] | None:
    """The commit, and whether files differ from it; None outside a checkout of the project."""
    if not (PROJECT / ".git").exists():
        return None
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    call = subprocess.run(["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, check=True)
    return call.stdout.strip()


def versions(packages: Sequence[str]) -> dict[str, str | None]:
    """The versions of packages; None for one that is not installed."""
    known: dict[str, str | None] = dict.fromkeys(packages)
    for package in packages:
        with suppress(PackageNotFoundError):
            known[package] = version(package)
    return known


def hardware() -> dict[str, Any]:
    """The machine, as far as it decides speed and rounding."""
    import torch

    gpus = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count(), "gpus": gpus}


# Loggers


@dataclass(frozen=True)
class Report:
    """What a finished run hands to a dashboard."""

    metrics: Mapping[str, float | None]
    tables: Mapping[str, Sequence[Row]]
    figures: Sequence[Path]  # PNG


@runtime_checkable
class Dashboard(Protocol):
    """A logger that shows more than numbers per step; loggers that lack this are left alone."""

    def open(self, name: str, group: str | None, config: Mapping[str, Any], run_id: str) -> None:
        """Begin the run's entry, or go on with it where a run of this identity was begun before."""

    def publish(self, report: Report) -> None:
        """Show the results."""

    def close(self, status: int) -> str | None:
        """End the entry with the exit status of the run; what to tell the user, if anything."""


class OpenRun:
    """A run whose loggers are open; `finish` ends it."""

    def __init__(self, cfg: DictConfig) -> None:
        self.cfg, self.folder = cfg, Path(cfg.run_dir)
        self.loggers: list[Logger] = [instantiate(one, _convert_="all") for one in (cfg.get("logger") or {}).values()]
        # None in any process but the first: one entry for all.
        self.dashboards = [one for one in self.loggers if isinstance(one, Dashboard)] if is_first_process() else []
        self.results: RunResults | None = None
        self.closing_lines: list[str] = []

    def finish(
        self, findings: Findings, source: Source, seconds: float, runs: Mapping[str, str] | None = None
    ) -> RunResults:
        """Write the files of the run and hand them to its dashboards, in the first process; returns what it amounts to."""
        results = RunResults(
            experiment=self.cfg.experiment_name,
            metrics=defined(findings.metrics),
            tables=defined(findings.tables),
            provenance=describe(self.cfg, source, seconds),
            quantities={name: values.quantity for name, values in findings.heads.items()},
            drawings=defined(findings.drawings),
            runs=runs or {},
        )
        if is_first_process():
            figures = [instantiate(one, _partial_=True) for one in (self.cfg.get("figures") or {}).values() if one]
            results = finish(self.folder, results, findings, progress(figures, "figures"))
            heads = [{column: row.get(column) for column in HEAD_COLUMNS} for row in findings.head_rows()]
            tables = {name: rows for name, rows in {**results.tables, "heads": heads}.items() if rows}
            report = Report(results.metrics, tables, sorted((self.folder / "figures").glob("*.png")))
            for dashboard in self.dashboards:
                dashboard.publish(report)
        self.results = results
        return results


@contextmanager
def open_run(
    cfg: DictConfig, group: str | None = None, lines: Sequence[str] = (), run_id: str | None = None
) -> Iterator[OpenRun]:
    """The loggers that the configuration names, each with an entry of its own; what was finished is shown at the end.

    `run_id` is that of a run that may have been begun before, whose entry is then gone on with.
    """
    run = OpenRun(cfg)
    name, group_of_job = name_and_group(cfg, run.folder)
    status = 0
    try:
        for dashboard in run.dashboards:
            dashboard.open(name, group_of_job or group, plain_config(cfg), run_id or uuid.uuid4().hex[:8])
        yield run
    except BaseException as error:
        status = explain(error)[0]
        raise
    finally:
        closed = [dashboard.close(status) for dashboard in run.dashboards]
        run.closing_lines = [line for line in [*closed, *lines] if line]
    if run.results and is_first_process():
        show(run.results, run.folder, run.closing_lines)


def name_and_group(cfg: DictConfig, folder: Path) -> tuple[str, str | None]:
    """What to call a run, and the sweep or table that it is part of."""
    experiment: str = cfg.experiment_name
    if not HydraConfig.initialized():
        return experiment, None
    hydra = HydraConfig.get()
    job_folder = Path(hydra.runtime.output_dir)
    if part := folder.resolve() != job_folder.resolve():
        experiment = folder.name
    if hydra.mode != RunMode.MULTIRUN:
        return experiment, job_folder.name if part else None
    keys = {text: text.lstrip("+~").partition("=")[0] for text in task_overrides()}
    changes = [text for text, key in keys.items() if not cfg.not_in_a_name.get(key)]
    return " ".join([experiment, *changes]), Path(hydra.sweep.dir).resolve().name


# Results


def finish(folder: Path, results: RunResults, findings: Findings, figures: Iterable[Figure] = ()) -> RunResults:
    """Write all files of a run, results.json last, so that its presence means the run finished; returned with checksums.

    What an earlier run left in the folder goes: heads or figures that this one lacks would pass for its own.
    """
    rows = findings.head_rows()
    for name, content in {HEADS: rows, **findings.files}.items():
        if content:
            write_csv(folder / name, content, HEAD_COLUMNS if Path(name).name == HEADS else tuple(content[0]))
        else:
            (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "figures", ignore_errors=True)
    for figure in figures:
        figure(results, rows, folder / "figures")
    results = replace(results, files=checksums_below(folder, READ_BACK))
    content = results.to_json()
    write_json(folder / RESULTS, content | {ITSELF: content_sha256(content)})
    return results
