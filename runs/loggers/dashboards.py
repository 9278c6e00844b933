"""Loggers of a run: opened before any work, given the results at the end, closed also after a failure."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.loggers import Logger

from headscope.processes import is_first_process
from headscope.reports.results import HEAD_COLUMNS, head_rows
from headscope.runs.cli import explain
from headscope.runs.provenance import plain_config

NOT_IN_A_NAME = ("experiment", "logger", "run_dir", "resume")


@dataclass(frozen=True)
class Report:
    """What a finished run hands to a dashboard."""

    metrics: Mapping[str, float | None]
    tables: Mapping[str, Sequence[Mapping]]
    figures: Sequence[Path]  # PNG


@runtime_checkable
class Dashboard(Protocol):
    """A logger that shows more than numbers per step; loggers that lack this are left alone."""

    def open(self, name: str, group: str | None, config: Mapping) -> None:
        """Begin the run's entry."""

    def publish(self, report: Report) -> None:
        """Show the results."""

    def close(self, status: int) -> str | None:
        """End the entry with the exit status of the run; what to tell the user, if anything."""


class Loggers(list[Logger]):
    """The loggers of a run, and what there is to say of them once they are closed."""

    closing_lines: Sequence[str] = ()

    @property
    def dashboards(self) -> list[Dashboard]:
        """Those that show results; none in any process but the first."""
        return [logger for logger in self if isinstance(logger, Dashboard)] if is_first_process() else []

    def publish(self, results: Mapping, heads: Mapping[str, Mapping], folder: Path) -> None:
        """Hand over what the run has written into its folder."""
        rows = [{column: row.get(column) for column in HEAD_COLUMNS} for row in head_rows(heads)]
        tables = {name: rows for name, rows in {**results["tables"], "heads": rows}.items() if rows}
        report = Report(results["metrics"], tables, sorted((folder / "figures").glob("*.png")))
        for dashboard in self.dashboards:
            dashboard.publish(report)


@contextmanager
def open_loggers(cfg: DictConfig, group: str | None = None) -> Iterator[Loggers]:
    """The loggers that the configuration names, each with an entry of its own for this run."""
    loggers = Loggers(instantiate(logger, _convert_="all") for logger in (cfg.get("logger") or {}).values())
    name, group_of_job = name_and_group(cfg.experiment_name, Path(cfg.run_dir))
    status = 0
    try:
        for dashboard in loggers.dashboards:
            dashboard.open(name, group_of_job or group, plain_config(cfg))
        yield loggers
    except BaseException as error:
        status = explain(error)[0]
        raise
    finally:
        lines = [dashboard.close(status) for dashboard in loggers.dashboards]
        loggers.closing_lines = [line for line in lines if line]


def name_and_group(experiment: str, folder: Path) -> tuple[str, str | None]:
    """What to call a run, and the sweep or table that it is part of."""
    if not HydraConfig.initialized():
        return experiment, None
    hydra = HydraConfig.get()
    job_folder = Path(hydra.runtime.output_dir)
    if part := folder.resolve() != job_folder.resolve():
        experiment = folder.name
    if hydra.mode != RunMode.MULTIRUN:
        return experiment, job_folder.name if part else None
    changes = [text for text in hydra.overrides.task if text.lstrip("+~").partition("=")[0] not in NOT_IN_A_NAME]
    return " ".join([experiment, *changes]), Path(hydra.sweep.dir).resolve().name
