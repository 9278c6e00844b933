"""One run: build what the configuration names, go through its stages, write the results."""

import logging
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.loggers import Logger

from headscope.errors import ConfigError
from headscope.processes import is_first_process
from headscope.progress import progress, watched
from headscope.reports.results import finished_results, number, read_json, write_json, write_report
from headscope.reports.terminal import show
from headscope.runs.loggers.dashboards import Loggers, open_loggers
from headscope.runs.provenance import describe, plain_config

log = logging.getLogger(__name__)
OF_TRAINING = (pl.callbacks.Checkpoint, pl.callbacks.EarlyStopping)
MAY_DIFFER_ON_RESUME = ("resume", "run_dir", "logger")


def run(cfg: DictConfig) -> dict[str, object]:
    """Train, evaluate, report; returns what results.json holds."""
    folder, first = Path(cfg.run_dir), is_first_process()
    logging.disable(logging.NOTSET if first else logging.WARNING)
    if done := prepare_folder(folder, cfg):
        if first:
            show(done, folder)
        return done
    with open_loggers(cfg) as loggers:
        results = run_and_report(cfg, folder, loggers)
    if first:
        show(results, folder, loggers.closing_lines)
    return results


def run_and_report(cfg: DictConfig, folder: Path, loggers: Loggers) -> dict[str, object]:
    """Build, go through the stages, write the files of the run and hand them to its dashboards."""
    started = time.monotonic()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    if cfg.analyses and "analyses" not in cfg.module:
        raise ConfigError("analyses=…: need module=head_analysis, as in experiment=clark_surface.")
    datamodule = instantiate(cfg.data, _convert_="all")
    datamodule.require(cfg.stages)
    module = instantiate(cfg.module, _convert_="all")(facts=datamodule.facts())
    trainer = build_trainer(cfg, loggers)
    metrics = run_stages(cfg, trainer, module, datamodule)
    findings = module.findings()
    results = {
        "experiment": cfg.experiment_name,
        "metrics": metrics,
        "tables": {
            "summary": summary(metrics, cfg),
            **with_published(defined(findings.get("tables", {})), cfg.published.tables),
        },
        "provenance": {**describe(cfg), **asdict(datamodule.source()), "seconds": round(time.monotonic() - started, 2)},
    }
    if is_first_process():
        figures = [instantiate(figure, _partial_=True) for figure in (cfg.get("figures") or {}).values() if figure]
        write_report(folder, results, findings.get("heads", {}), progress(figures, "figures"), findings.get("files", {}))
        loggers.publish(results, findings.get("heads", {}), folder)
    return results


def prepare_folder(folder: Path, cfg: DictConfig) -> dict[str, object] | None:
    """Make room for a new run, or find what an earlier one left; its results if it had finished."""
    config, note = comparable(plain_config(cfg)), folder / "config.json"
    if cfg.resume:
        before = read_json(note)
        if before is not None and (changed := changed_keys(before, config)):
            raise ConfigError(f"resume=true: {', '.join(changed)} differ from the run in {folder}; use a new run_dir.")
        if before is not None and (done := finished_results(folder)):
            return done
    elif is_first_process():
        (folder / "results.json").unlink(missing_ok=True)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    if is_first_process():
        write_json(note, config)
    return None


def comparable(config: Mapping) -> dict[str, object]:
    """The part of a configuration that decides the numbers, with the run's own folder taken out of its values."""
    own = config["run_dir"]
    return {key: _without(value, own) for key, value in config.items() if key not in MAY_DIFFER_ON_RESUME}


def _without(value: object, folder: str) -> object:
    if isinstance(value, Mapping):
        return {key: _without(part, folder) for key, part in value.items()}
    return value.replace(folder, "${run_dir}") if isinstance(value, str) else value


def changed_keys(before: object, after: object, prefix: str = "") -> list[str]:
    """The dotted names of the values that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [
            name
            for key in keys
            for name in changed_keys(before.get(key), after.get(key), f"{prefix}.{key}" if prefix else key)
        ]
    return [] if before == after else [prefix]


def build_trainer(cfg: DictConfig, loggers: Sequence[Logger] = ()) -> pl.Trainer:
    """The trainer with its callbacks and loggers; a progress bar where somebody watches."""
    warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric|torchmetrics)\.")
    callbacks = [instantiate(callback, _convert_="all") for callback in cfg.callbacks.values() if callback]
    if "fit" not in cfg.stages:
        callbacks = [callback for callback in callbacks if not isinstance(callback, OF_TRAINING)]
    bar = [pl.callbacks.RichProgressBar(leave=True, console_kwargs={"stderr": True})] if watched() else []
    return instantiate(
        cfg.trainer,
        callbacks=callbacks + bar,
        logger=list(loggers),
        enable_progress_bar=bool(bar),
        enable_checkpointing="fit" in cfg.stages,
        default_root_dir=cfg.run_dir,
        _convert_="all",
    )


def run_stages(
    cfg: DictConfig, trainer: pl.Trainer, module: pl.LightningModule, datamodule: pl.LightningDataModule
) -> dict[str, float | None]:
    """Go through the stages; the metrics are those of the evaluations, on the best checkpoint where one was trained."""
    last = Path(cfg.run_dir) / "checkpoints" / "last.ckpt"
    metrics: dict[str, float | None] = {}
    for stage in cfg.stages:
        if stage == "fit":
            resume_from = last if cfg.resume and last.is_file() else None
            trainer.fit(module, datamodule=datamodule, ckpt_path=resume_from, weights_only=True)
            metrics |= watched_score(trainer)
        else:
            best = "best" if "fit" in cfg.stages else None
            getattr(trainer, stage)(module, datamodule=datamodule, ckpt_path=best, verbose=False, weights_only=True)
            metrics |= {name: number(value) for name, value in trainer.callback_metrics.items()}
    return metrics


def watched_score(trainer: pl.Trainer) -> dict[str, float | None]:
    """What the best checkpoint was chosen by; a later stage may measure the same again."""
    score = getattr(trainer.checkpoint_callback, "best_model_score", None)
    return {} if score is None else {trainer.checkpoint_callback.monitor: number(score)}


def summary(metrics: dict[str, float | None], cfg: DictConfig) -> list[dict[str, object]]:
    """Our figures beside the published ones."""
    return [{"metric": name, "ours": value, "published": cfg.published.get(name)} for name, value in metrics.items()]


def defined(value: object) -> object:
    """The same with None for every number that is not defined."""
    if isinstance(value, dict):
        return {key: defined(part) for key, part in value.items()}
    if isinstance(value, list):
        return [defined(part) for part in value]
    return number(value) if isinstance(value, float) else value


def with_published(tables: dict[str, list[dict]], published: DictConfig) -> dict[str, list[dict]]:
    """The tables with the published figure of each row, by what its first column says."""
    return {
        name: [{**row, "published": published[name].get(next(iter(row.values())))} for row in rows]
        if name in published
        else rows
        for name, rows in tables.items()
    }
