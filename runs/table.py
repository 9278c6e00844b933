"""A published table: several experiments, each an ordinary run in a folder of its own, joined in one table."""

import re
from collections.abc import Iterator
from pathlib import Path

from hydra import compose
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig

from headscope.processes import is_first_process
from headscope.progress import announced
from headscope.reports.results import write_report
from headscope.reports.terminal import show
from headscope.runs.loggers.dashboards import open_loggers
from headscope.runs.provenance import describe

OF_THE_TABLE = ("experiment", "run_dir", "tasks", "folds")


def run(cfg: DictConfig) -> dict[str, object]:
    """Run every row with the overrides of the command line; returns what results.json holds."""
    folder, first = Path(cfg.run_dir), is_first_process()
    if first:
        (folder / "results.json").unlink(missing_ok=True)
    rows, seconds = [], 0.0
    planned = list(all_rows(cfg))
    for label, row, overrides in announced(planned, cfg.experiment_name):
        row_cfg = compose_row(cfg, row.experiment, folder / folder_name(label, row, overrides), overrides)
        results = get_method(row_cfg.job)(row_cfg)
        seconds += results["provenance"]["seconds"]
        rows.append(
            {
                "row": label,
                "ours": results["metrics"][row.metric],
                "published": row.published if "published" in row else row_cfg.published.get(row.metric),
                "metric": row.metric,
            }
            | {name.removeprefix("test/"): results["metrics"].get(name) for name in cfg.columns}
        )
    table = {
        "experiment": cfg.experiment_name,
        "metrics": {row["row"]: row["ours"] for row in rows},
        "tables": {"summary": rows},
        "provenance": {**results["provenance"], **describe(cfg), "seconds": round(seconds, 2)},
        "runs": {label: folder_name(label, row, overrides) for label, row, overrides in planned},
    }
    if first:
        report(cfg, table, {}, folder)
    return table


def report(cfg: DictConfig, table: dict[str, object], heads: dict, folder: Path) -> None:
    """Write the files of the table, hand them to its dashboards, show it."""
    with open_loggers(cfg, group=folder.name) as loggers:
        figures = [instantiate(figure, _partial_=True) for figure in (cfg.get("figures") or {}).values() if figure]
        write_report(folder, table, heads, figures)
        loggers.publish(table, heads, folder)
    show(table, folder, loggers.closing_lines)


def all_rows(cfg: DictConfig) -> Iterator[tuple[str, DictConfig, list[str]]]:
    """The label, the row and its overrides; where the table has an `each`, all rows for each of its values."""
    values = [(key, value) for key, values in cfg.each.items() for value in values] or [None]
    for value in values:
        for label, row in cfg.rows.items():
            own = list(row.get("overrides", []))
            yield (f"{value[1]}, {label}", row, [f"{value[0]}={value[1]}", *own]) if value else (label, row, own)


def folder_name(label: str, row: DictConfig, overrides: list[str]) -> str:
    """Where a row's run goes: its experiment, or its label where several rows share one."""
    return re.sub(r"[^\w-]+", "_", label) if overrides else row.experiment


def compose_row(cfg: DictConfig, experiment: str, folder: Path, overrides: list[str]) -> DictConfig:
    """The configuration of a row: its experiment, the table's data settings, the user's overrides, the row's own."""
    keys = {text: text.lstrip("+~").partition("=")[0] for text in HydraConfig.get().overrides.task}
    # What is said of a group's choice is not about the one that the row makes itself.
    chosen = tuple(f"{key}." for key, _, _ in (text.partition("=") for text in overrides) if "." not in key)
    given = [text for text, key in keys.items() if key not in OF_THE_TABLE and not f"{key}.".startswith(chosen or ("=",))]
    shared = [f"data.cache={str(cfg.data.cache).lower()}"] if "cache" in cfg.data else []
    row = compose("train", [f"experiment={experiment}", *shared, *given, *overrides])
    row.experiment_name, row.run_dir = experiment, str(folder)
    return row
