"""TensorBoard: metrics, figures as images, tables as text, what the user gave as hyperparameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.image import imread
from pytorch_lightning.loggers import TensorBoardLogger

from headscope.contracts import Row
from headscope.errors import ConfigError
from headscope.reports.terminal import column_texts
from headscope.runs.report import Entry, Report


class TensorBoardDashboard(TensorBoardLogger):
    """Event files in the run's folder."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(default_hp_metric=False, **options)
        except ModuleNotFoundError as error:
            raise ConfigError("logger=tensorboard: not installed; run `make setup`, or pip install tensorboard.") from error
        self.overrides: Mapping[str, str] = {}

    def open(self, entry: Entry) -> None:
        self.overrides = entry.overrides

    def publish(self, report: Report) -> None:
        writer = self.experiment
        for name, rows in report.tables.items():
            writer.add_text(f"tables/{name}", markdown(rows))
        for file in report.figures:
            pixels = (imread(file) * 255).round().astype(np.uint8)
            writer.add_image(f"figures/{file.stem}", pixels, dataformats="HWC")
        # Lightning's own way would log every metric a second time, as of step 0.
        from torch.utils.tensorboard.summary import hparams

        metrics = {name: value for name, value in report.metrics.items() if value is not None}
        for summary in hparams(dict(self.overrides), metrics):
            writer._get_file_writer().add_summary(summary)

    def close(self, status: int) -> None:
        if self._experiment is not None:
            self._experiment.close()


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a table with all columns that any of them has."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [column_texts(column, [row.get(column) for row in rows]) for column in columns]
    lines = [columns, ["---"] * len(columns), *map(list, zip(*cells, strict=True))]
    return "\n".join("| " + " | ".join(text.replace("|", r"\|") for text in line) + " |" for line in lines)
