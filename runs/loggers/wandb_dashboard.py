"""Weights & Biases: online where there is an account, in the run's folder where there is none."""

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytorch_lightning.loggers import WandbLogger

from headscope.contracts import Row
from headscope.errors import InputError
from headscope.runs.report import Entry, Report

if TYPE_CHECKING:
    import wandb

QUIET = {"silent": True, "console": "off"}


class WandbDashboard(WandbLogger):
    """A run with its configuration, metrics, tables and figures.

    `offline` decides; where it is not given, WANDB_MODE does; where that is not set, whether there is an account.
    """

    def __init__(
        self, name: str | None = None, group: str | None = None, offline: bool | None = None, **options: Any
    ) -> None:
        super().__init__(name=name, group=group, settings=QUIET | options.pop("settings", {}), **options)
        self.asked_offline, self.closing_line = offline, None

    def open(self, entry: Entry) -> None:
        import wandb
        from wandb.errors import Error

        wandb.setup(wandb.Settings(silent=True))
        said = {"name": entry.name, "group": entry.group, "job_type": entry.kind, "tags": entry.tags, "id": entry.run_id}
        given = {key: self._wandb_init.get(key) or value for key, value in said.items()}
        try:
            # A resumed run goes on with its own entry, which its identity names.
            self._wandb_init |= given | {"mode": self._mode(), "resume": "allow"}
            self.log_hyperparams(dict(entry.config))
        except Error as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"logger=wandb: {reason}; logger.wandb.offline=true keeps the run in its folder.") from error
        if self.experiment.offline:
            self.closing_line = f"wandb sync {shlex.quote(self.experiment.settings.sync_dir)}"
        elif self.experiment.url:
            self.closing_line = f"wandb: {self.experiment.url}"

    def _mode(self) -> str | None:
        """How wandb is to run; None leaves it to WANDB_MODE."""
        import wandb

        if self.asked_offline is not None:
            return "offline" if self.asked_offline else "online"
        if os.environ.get("WANDB_MODE"):
            return None
        return "online" if wandb.login(prompt=False, verify=False) else "offline"

    def publish(self, report: Report) -> None:
        import wandb

        limits: Any = wandb.Table  # declares the default as the one number there can be
        limits.MAX_ROWS = max([limits.MAX_ROWS, *map(len, report.tables.values())])
        tables = {f"tables/{name}": table_of(rows) for name, rows in report.tables.items()}
        figures = {f"figures/{file.stem}": wandb.Image(str(file)) for file in report.figures}
        self.experiment.log(tables | figures)
        self.experiment.summary.update({name: value for name, value in report.metrics.items() if value is not None})
        self.experiment.config.update({"checksums": dict(report.checksums)}, allow_val_change=True)
        artifact = wandb.Artifact(f"run-{self.experiment.id}", type="run", metadata={"checksums": dict(report.checksums)})
        for file in report.files:
            artifact.add_file(str(file), name=file.name, policy="immutable")  # no second copy of what stays where it is
        for file in report.figures:
            artifact.add_file(str(file), name=f"figures/{file.name}", policy="immutable")
        self.experiment.log_artifact(artifact)

    def close(self, status: int) -> str | None:
        if self._experiment is not None:
            self._experiment.finish(exit_code=status)
        return self.closing_line


def table_of(rows: Sequence[Row]) -> "wandb.Table":
    """The rows with all columns that any of them has."""
    import wandb

    columns: list[Any] = list(dict.fromkeys(column for row in rows for column in row))
    cells: list[Any] = [[plain(row.get(column)) for column in columns] for row in rows]
    return wandb.Table(columns=columns, data=cells, allow_mixed_types=True)


def plain(value: object) -> object:
    """A cell that a table can hold: numbers and words as they are, anything else as text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
