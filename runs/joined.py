"""Several ordinary runs, each in a folder of its own, whose results a function joins; on request one more run after them."""

from collections.abc import Iterator
from pathlib import Path

from hydra.utils import get_method, instantiate
from omegaconf import DictConfig

from headscope.processes import is_first_process
from headscope.progress import announced
from headscope.reports.results import read_heads
from headscope.runs.provenance import describe
from headscope.runs.table import compose_row, folder_name, report
from headscope.runs.training import defined


def run(cfg: DictConfig) -> dict[str, object]:
    """Run every row, once or for each value; join what they found; returns what results.json holds."""
    folder, first = Path(cfg.run_dir), is_first_process()
    if first:
        (folder / "results.json").unlink(missing_ok=True)
    parts = []
    for name, part, row in announced(list(planned(cfg)), cfg.experiment_name):
        results = run_row(cfg, row, folder / name, part["overrides"])
        parts.append({**part, "results": results, "heads": read_heads(folder / name)})
    joined = instantiate(cfg.join, _convert_="all")(parts)
    ran = {name: name for name, _, _ in planned(cfg)}
    if cfg.get("then"):
        parts.append({"results": run_row(cfg, cfg.then, folder / "final", [*cfg.then.overrides, *joined["overrides"]])})
        ran["final"] = "final"
    results = {
        "experiment": cfg.experiment_name,
        "metrics": defined(joined["metrics"]),
        "tables": defined(joined["tables"]),
        "provenance": {**parts[-1]["results"]["provenance"], **describe(cfg), **totals(parts)},
        "runs": ran,
    }
    if first:
        report(cfg, results, joined.get("heads", {}), folder)
    return results


def planned(cfg: DictConfig) -> Iterator[tuple[str, dict[str, object], DictConfig]]:
    """The folder of each run, what it is a run of, and its row: rows for each value, then those that run once."""
    for key, values in cfg.each.items():
        for value in values:
            for label, row in cfg.rows.items():
                overrides = [f"{key}={value}", *row.overrides]
                yield folder_name(f"{value}_{label}", row, overrides), _part(label, value, overrides), row
    for label, row in (cfg.get("once") or {}).items():
        yield folder_name(label, row, row.overrides), _part(label, None, list(row.overrides)), row


def _part(label: str, value: object, overrides: list[str]) -> dict[str, object]:
    return {"row": label, "value": value, "overrides": overrides}


def run_row(cfg: DictConfig, row: DictConfig, folder: Path, overrides: list[str]) -> dict[str, object]:
    """One ordinary run."""
    row_cfg = compose_row(cfg, row.experiment, folder, overrides)
    return get_method(row_cfg.job)(row_cfg)


def totals(parts: list[dict]) -> dict[str, object]:
    """The files that any of the runs read, the inputs that the first row was tested on, and the time of all."""
    provenances = [part["results"]["provenance"] for part in parts]
    data = {file: sha256 for provenance in provenances for file, sha256 in provenance["data"].items()}
    first = [part["results"]["provenance"] for part in parts if part.get("row") == parts[0]["row"]]
    tested = sum(provenance["examples"].get("test", 0) for provenance in first)
    seconds = sum(provenance["seconds"] for provenance in provenances)
    return {"data": data, "examples": {"test": tested}, "seconds": round(seconds, 2)}
