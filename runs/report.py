"""The beginning and the end of every run: its folder, its loggers, what it was, and the one place that writes results."""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig

from headscope.contracts import HEAD_COLUMNS, Figure, Findings, Provenance, Row, RunResults, Source, defined
from headscope.errors import require_figure_width
from headscope.files import checksums_below, content_sha256, write_csv, write_json
from headscope.layout import Layout
from headscope.processes import is_first_process, progress
from headscope.reports.results import HEADS, ITSELF, RESULTS
from headscope.reports.terminal import show
from headscope.runs.explain import explain
from headscope.runs.resume import NOTE, READ_BACK, plain_config, task_overrides

if TYPE_CHECKING:
    from pytorch_lightning.loggers import Logger

PROJECT = Path(__file__).parents[1]
PACKAGES = ("torch", "pytorch-lightning", "transformers", "hydra-core", "torchmetrics", "numpy", "scipy")


# What a run was


def describe(cfg: DictConfig, source: Source, seconds: float, trained: int | None = None) -> Provenance:
    """Command, configuration, versions, state of the code and machine, beside what the data says of itself."""
    return Provenance(
        **vars(source),
        command=shlex.join(sys.argv),
        config=plain_config(cfg),
        seed=cfg.seed,
        git=git_state(),
        packages=versions(PACKAGES),
        hardware=hardware(),
        seconds=round(seconds, 2),
        trained_parameters=trained,
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
class Entry:
    """What a dashboard is told of a run when it begins; a run of the same identity goes on with its entry."""

    name: str
    group: str | None  # the sweep or table that it is part of
    kind: str  # of run: the function that runs it, such as training or tables
    overrides: Mapping[str, str]  # what the user gave, by key
    config: Mapping[str, Any]
    run_id: str

    @property
    def tags(self) -> list[str]:
        """By what one looks for runs: experiment, encoder, kind of data."""
        choices = [self.config["experiment_name"], *(self.overrides.get(group) for group in ("encoder", "data"))]
        return list(dict.fromkeys(text for text in choices if text))


@dataclass(frozen=True)
class Report:
    """What a finished run hands to a dashboard."""

    metrics: Mapping[str, float | None]
    tables: Mapping[str, Sequence[Row]]
    figures: Sequence[Path]  # PNG
    files: Sequence[Path] = ()  # all that the run leaves for others to read, figures not among them
    checksums: Mapping[str, str] = field(default_factory=dict)  # of the model and of every file that was read


@runtime_checkable
class Dashboard(Protocol):
    """A logger that shows more than numbers per step; loggers that lack this are left alone."""

    def open(self, entry: Entry) -> None:
        """Begin the run's entry, or go on with it where a run of this identity was begun before."""

    def publish(self, report: Report) -> None:
        """Show the results."""

    def close(self, status: int) -> str | None:
        """End the entry with the exit status of the run; what to tell the user, if anything."""


class OpenRun:
    """A run whose loggers are open; `finish` ends it."""

    def __init__(self, cfg: DictConfig) -> None:
        require_figure_width(cfg.figure_width)  # before any work is done
        self.cfg, self.folder = cfg, Path(cfg.run_dir)
        self.loggers: list[Logger] = [instantiate(one, _convert_="all") for one in (cfg.get("logger") or {}).values()]
        # None in any process but the first: one entry for all.
        self.dashboards = [one for one in self.loggers if isinstance(one, Dashboard)] if is_first_process() else []
        self.results: RunResults | None = None
        self.closing_lines: list[str] = []

    def finish(
        self,
        findings: Findings,
        source: Source,
        seconds: float,
        runs: Mapping[str, str] | None = None,
        trained: int | None = None,
    ) -> RunResults:
        """Write the files of the run and hand them to its dashboards, in the first process; returns what it amounts to.

        `trained` is the number of parameters that were.
        """
        layout = Layout.from_json(source.layout)
        results = RunResults(
            experiment=self.cfg.experiment_name,
            metrics=defined(findings.metrics),
            tables=layout.said_in(defined(findings.tables)),
            provenance=describe(self.cfg, source, seconds, trained),
            quantities={name: values.quantity.said_by(layout) for name, values in findings.heads.items()},
            drawings=defined(findings.drawings),
            runs=runs or {},
            notes=layout.said_in(findings.notes),
        )
        if is_first_process():
            figures = [instantiate(one, _partial_=True) for one in (self.cfg.get("figures") or {}).values() if one]
            results = finish(self.folder, results, findings, progress(figures, "figures"))
            heads = [{column: row.get(column) for column in HEAD_COLUMNS} for row in findings.head_rows()]
            tables = {name: rows for name, rows in {**results.tables, "heads": heads}.items() if rows}
            self.publish(results, tables, findings.files)
        self.results = results
        return results

    def publish(self, results: RunResults, tables: Mapping[str, Sequence[Row]], others: Iterable[str] = ()) -> None:
        """Hand to the dashboards what was written into the folder, `others` being files beside those of every run."""
        left = [self.folder / name for name in (RESULTS, HEADS, NOTE, *others)]
        files = [file for file in dict.fromkeys(left) if file.is_file()]
        figures = sorted((self.folder / "figures").glob("*.png"))
        for dashboard in self.dashboards:
            dashboard.publish(Report(results.metrics, tables, figures, files, checksums(results.provenance)))


@contextmanager
def open_run(
    cfg: DictConfig, group: str | None = None, lines: Sequence[str] = (), run_id: str | None = None
) -> Iterator[OpenRun]:
    """The loggers that the configuration names, each with an entry of its own; what was finished is shown at the end.

    `run_id` is that of a run that may have been begun before, whose entry is then gone on with.
    """
    run = OpenRun(cfg)
    name, group_of_job = name_and_group(cfg, run.folder)
    kind = cfg.job.removeprefix("headscope.runs.").rpartition(".")[0]
    entry = Entry(name, group_of_job or group, kind, overrides(), plain_config(cfg), run_id or uuid.uuid4().hex[:8])
    status = 0
    try:
        for dashboard in run.dashboards:
            dashboard.open(entry)
        yield run
    except BaseException as error:
        status = explain(error)[0]
        raise
    finally:
        closed = [dashboard.close(status) for dashboard in run.dashboards]
        run.closing_lines = [line for line in [*closed, *lines] if line]
    if run.results and is_first_process():
        show(run.results, run.folder, run.closing_lines, is_part(run.folder))


def publish_sweep(cfg: DictConfig, results: RunResults) -> None:
    """Give a sweep an entry of its own beside those of its jobs, with its table and figure."""
    run = OpenRun(cfg)
    group = run.folder.resolve().name
    identity = hashlib.sha256(str(run.folder.resolve()).encode()).hexdigest()[:8]  # the same command goes on with it
    entry = Entry(f"{results.experiment} sweep", group, "sweep", overrides(), plain_config(cfg), identity)
    try:
        for dashboard in run.dashboards:
            dashboard.open(entry)
        run.publish(results, {name: rows for name, rows in results.tables.items() if rows})
    finally:
        for dashboard in run.dashboards:
            dashboard.close(0)


def is_part(folder: Path) -> bool:
    """Whether the run in a folder is one inside another, as the row of a table is."""
    return HydraConfig.initialized() and folder.resolve() != Path(HydraConfig.get().runtime.output_dir).resolve()


def name_and_group(cfg: DictConfig, folder: Path) -> tuple[str, str | None]:
    """What to call a run, and the sweep or table that it is part of."""
    experiment: str = cfg.experiment_name
    if not HydraConfig.initialized():
        return experiment, None
    hydra = HydraConfig.get()
    if part := is_part(folder):
        experiment = folder.name
    if hydra.mode != RunMode.MULTIRUN:
        return experiment, Path(hydra.runtime.output_dir).name if part else None
    # Short: the last part of a key and of a path tell the jobs of a sweep apart.
    changes = [(key, value) for key, value in overrides().items() if not cfg.not_in_a_name.get(key)]
    short = [f"{key.rpartition('.')[2]}={value.rstrip('/').rpartition('/')[2]}" for key, value in changes]
    return " ".join([experiment, *short]), Path(hydra.sweep.dir).resolve().name


def overrides() -> dict[str, str]:
    """What the command line says, by key."""
    given = task_overrides() if HydraConfig.initialized() else []
    parts = [text.lstrip("+~").partition("=") for text in given]
    return {key: value for key, _, value in parts}


def checksums(source: Source) -> dict[str, str]:
    """Of the models and of every file that a run read, by name."""
    models = {"encoder": source.encoder, "tuned_encoder": source.tuned_encoder or {}}
    found = {name: model["sha256"] for name, model in models.items() if model.get("sha256")}
    vectors = dict(source.vectors["files"]) if source.vectors else {}
    return found | {Path(file).name: sha256 for file, sha256 in {**source.data, **vectors}.items()}


# Results


def finish(folder: Path, results: RunResults, findings: Findings, figures: Iterable[Figure] = ()) -> RunResults:
    """Write all files of a run, results.json last, so that its presence means the run finished; returns its content.

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
