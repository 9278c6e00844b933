"""A published table: several experiments, each an ordinary run in a folder of its own, joined in one table."""

from pathlib import Path

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig

from data_modules.progress import progress
from reports.results import write_report
from reports.terminal import show
from runs.provenance import describe

OF_THE_TABLE = ("experiment", "run_dir")


def run(cfg: DictConfig) -> dict[str, object]:
    """Run every row with the overrides of the command line; returns what results.json holds."""
    folder = Path(cfg.run_dir)
    (folder / "results.json").unlink(missing_ok=True)
    rows, seconds = [], 0.0
    for label, row in progress(list(cfg.rows.items()), cfg.experiment_name):
        row_cfg = compose_row(cfg, row.experiment, folder / row.experiment)
        results = get_method(row_cfg.job)(row_cfg)
        seconds += results["provenance"]["seconds"]
        rows.append(
            {
                "row": label,
                "ours": results["metrics"][row.metric],
                "published": row_cfg.published.get(row.metric),
                "metric": row.metric,
            }
            | {name.removeprefix("test/"): results["metrics"].get(name) for name in ("test/control", "test/selectivity")}
        )
    table = {
        "experiment": cfg.experiment_name,
        "metrics": {row["row"]: row["ours"] for row in rows},
        "tables": {"summary": rows},
        "provenance": {**results["provenance"], **describe(cfg), "seconds": round(seconds, 2)},
        "runs": {label: row.experiment for label, row in cfg.rows.items()},
    }
    write_report(folder, table, {}, [instantiate(figure, _partial_=True) for figure in cfg.figures.values()])
    show(table, folder)
    return table


def compose_row(cfg: DictConfig, experiment: str, folder: Path) -> DictConfig:
    """The configuration of a row: its experiment, the table's own data settings, then the user's overrides."""
    given = [text for text in HydraConfig.get().overrides.task if text.lstrip("+~").partition("=")[0] not in OF_THE_TABLE]
    shared = [f"data.cache={str(cfg.data.cache).lower()}"]
    row = compose("train", [f"experiment={experiment}", *shared, *given])
    row.experiment_name, row.run_dir = experiment, str(folder)
    return row
