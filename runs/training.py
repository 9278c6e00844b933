"""One run: build what the configuration names, go through its stages, report what was found."""

import logging
import signal
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Checkpoint, EarlyStopping
from pytorch_lightning.loggers import Logger
from pytorch_lightning.trainer.connectors.signal_connector import _SignalConnector

from headscope.contracts import DataModule, Module, Row, RunResults, number
from headscope.errors import ConfigError
from headscope.processes import SigtermAnswer, is_first_process, stop_if_told, watched
from headscope.published import figures_beside
from headscope.reports.terminal import announce, show
from headscope.runs.checkpoints import TrainingWatch, WholeCheckpointIO, remove_drafts, resume_point
from headscope.runs.children import key_of
from headscope.runs.progress_bar import EpochBar, StepLoss
from headscope.runs.report import OpenRun, is_part, open_run
from headscope.runs.resume import Note, note_data, prepare_folder
from headscope.runs.slurm import queue_again

OF_TRAINING = (Checkpoint, EarlyStopping)


def run(cfg: DictConfig) -> RunResults:
    """Train, evaluate, report."""
    folder, first = Path(cfg.run_dir), is_first_process()
    logging.disable(logging.NOTSET if first else logging.WARNING)
    if done := prepare_folder(folder, cfg):
        if first:
            show(done, folder, part=is_part(folder))
        return done
    note = Note.read(folder)
    with open_run(cfg, run_id=note.run_id if note else None) as opened:
        return run_and_report(cfg, opened)


def run_and_report(cfg: DictConfig, opened: OpenRun) -> RunResults:
    """Build, go through the stages, and finish with what was found."""
    started = time.monotonic()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    if cfg.analyses and "analyses" not in cfg.module:
        raise ConfigError("analyses=…: need module=head_analysis, as in experiment=clark_surface.")
    datamodule: DataModule = instantiate(cfg.data, _convert_="all")
    datamodule.require(cfg.stages)
    facts = datamodule.facts()
    module: Module = instantiate(cfg.module, _convert_="all")(facts=facts)
    source = datamodule.source()
    note_data(opened.folder, source)
    if watched():
        announce(cfg.experiment_name, facts, source)
    trainer = build_trainer(cfg, opened.loggers)
    metrics = run_stages(cfg, trainer, module, datamodule)
    findings = module.findings()
    metrics = with_counts(metrics, findings.metrics)
    stop_if_told()
    published = figures_beside(cfg.published, source)
    tables = {
        "summary": summary(metrics, published, source.examples),
        **with_published(findings.tables, published["tables"]),
    }
    findings = replace(findings, metrics=metrics, tables=tables)
    return opened.finish(findings, source, time.monotonic() - started, trained=trained_parameters(cfg, module))


def trained_parameters(cfg: DictConfig, module: Any) -> int | None:
    """How many numbers were learnt; None where nothing was."""
    return sum(one.numel() for one in module.parameters() if one.requires_grad) if "fit" in cfg.stages else None


def build_trainer(cfg: DictConfig, loggers: Sequence[Logger] = ()) -> pl.Trainer:
    """The trainer with its callbacks and loggers; a progress bar where somebody watches."""
    warnings.filterwarnings("ignore", module=r"(pytorch_lightning|lightning_fabric|torchmetrics)\.")
    callbacks = [instantiate(callback, _convert_="all") for callback in cfg.callbacks.values() if callback]
    trains = "fit" in cfg.stages
    if not trains:
        callbacks = [callback for callback in callbacks if not isinstance(callback, OF_TRAINING)]
    own = [StopsWhenTold(), *([TrainingWatch(), StepLoss()] if trains else [])]
    bar = [EpochBar(cfg.monitor)] if watched() else []
    trainer: pl.Trainer = instantiate(
        cfg.trainer,
        callbacks=[*own, *callbacks, *bar],
        logger=list(loggers),
        enable_progress_bar=bool(bar),
        enable_checkpointing=trains,
        default_root_dir=cfg.run_dir,
        **({"num_sanity_val_steps": 1} if trains and monitor_is_given() else {}),
        _convert_="all",
    )
    trainer._signal_connector = SignalConnector(trainer)
    if trains and type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:  # nobody chose another
        trainer.strategy.checkpoint_io = WholeCheckpointIO()
    return trainer


def monitor_is_given() -> bool:
    """Whether the command line names a metric to monitor: one batch of validation, first of all, tells if there is such."""
    return HydraConfig.initialized() and any(key_of(text).endswith("monitor") for text in HydraConfig.get().overrides.task)


class StopsWhenTold(pl.Callback):
    """Between batches, asks for a SIGTERM that a library swallowed."""

    def on_train_batch_start(self, *_: Any) -> None:
        stop_if_told()

    def on_validation_batch_start(self, *_: Any, **__: Any) -> None:
        stop_if_told()

    def on_test_batch_start(self, *_: Any, **__: Any) -> None:
        stop_if_told()


class SignalConnector(_SignalConnector):
    """Lightning's, but it does not come between SIGTERM and who answers it, and queues a job of SLURM's again as we do.

    Its own handler of SIGTERM would let a stage run on to its next check, and in several processes waits for all of them
    inside the handler.
    """

    def register_signal_handlers(self) -> None:
        answer = signal.getsignal(signal.SIGTERM)
        super().register_signal_handlers()
        if answer == signal.SIG_IGN or isinstance(answer, SigtermAnswer):
            self._register_signal(signal.SIGTERM, answer)

    def _slurm_sigusr_handler_fn(self, signum: int, _: Any) -> None:
        queue_again(signum)


def run_stages(cfg: DictConfig, trainer: pl.Trainer, module: Any, datamodule: Any) -> dict[str, float | None]:
    """Go through the stages; the metrics are those of the evaluations, on the best checkpoint where one was trained."""
    folder = Path(cfg.run_dir)
    metrics: dict[str, float | None] = {}
    for stage in cfg.stages:
        stop_if_told()
        if stage == "fit":
            remove_drafts(folder)
            resume_from = resume_point(folder) if cfg.resume else None
            trainer.fit(module, datamodule=datamodule, ckpt_path=resume_from, weights_only=True)
            metrics |= validation_score(trainer)
        else:
            best = "best" if "fit" in cfg.stages else None
            getattr(trainer, stage)(module, datamodule=datamodule, ckpt_path=best, verbose=False, weights_only=True)
            metrics |= {name: number(value) for name, value in trainer.callback_metrics.items()}
    return metrics


def with_counts(metrics: Mapping[str, float | None], found: Mapping[str, float | None]) -> dict[str, float | None]:
    """The metrics, whole where a module counted them: Lightning knows numbers with decimals alone."""
    counts = {f"test/{name}" for name, value in found.items() if isinstance(value, int)}
    return {name: int(value) if name in counts and value is not None else value for name, value in metrics.items()}


def validation_score(trainer: pl.Trainer) -> dict[str, float | None]:
    """What the best checkpoint was chosen by; a later stage may measure the same again."""
    checkpoint: Any = trainer.checkpoint_callback
    score = getattr(checkpoint, "best_model_score", None)
    return {} if score is None else {checkpoint.monitor: number(score)}


def summary(metrics: Mapping[str, float | None], published: Mapping[str, Any], examples: Mapping[str, int]) -> list[Row]:
    """Our figures beside the published ones, and the number of inputs of the part of the data that they are of."""
    return [
        {"metric": name, "ours": value, "published": published.get(name), "inputs": examples.get(name.partition("/")[0])}
        for name, value in metrics.items()
    ]


def with_published(tables: Mapping[str, Sequence[Row]], published: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Row]]:
    """The tables with the published figure of each row, by what its first column says."""
    return {
        name: [{**row, "published": published[name].get(next(iter(row.values())))} for row in rows]
        if name in published
        else list(rows)
        for name, rows in tables.items()
    }
