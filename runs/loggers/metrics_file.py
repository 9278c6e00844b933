"""logs/metrics.csv: what was logged at every step; a resumed run goes on below the rows of its earlier part."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.utilities import rank_zero_only

STEP, EPOCH = "step", "epoch"


class MetricsFile(CSVLogger):
    """Lightning's CSV file, which by itself forgets what an earlier part of the run has logged."""

    def __init__(self, resume: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.earlier = self._read() if resume else []

    def _read(self) -> list[dict[str, str]]:
        file = Path(self.log_dir) / "metrics.csv"
        if not file.is_file():
            return []
        with file.open(encoding="utf-8", errors="replace", newline="") as stream:
            rows = list(csv.DictReader(stream))
        # A row that a kill cut short has no number of its step.
        return [row for row in rows if (row.get(STEP) or "").isdecimal()]

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Keep them; before the first ones of a resumed run, all that the earlier part logged up to here."""
        if self.earlier and step is not None:
            kept, self.earlier = [row for row in self.earlier if _before(row, metrics, step)], []
            self.experiment.metrics = [{name: value for name, value in row.items() if value} for row in kept]
            self.save()
        super().log_metrics(dict(metrics), step)


def _before(row: Mapping[str, str], metrics: Mapping[str, Any], step: int) -> bool:
    """Whether a row was logged before these metrics and not in their place."""
    same = {name for name, value in row.items() if value} & set(metrics) - {STEP, EPOCH}
    return int(row[STEP]) < step or (int(row[STEP]) == step and not same)
