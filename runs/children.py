"""A run inside a run: composed from an experiment and the overrides that are handed on to it, then run as any other.

Tables, joined tasks, atlases and sweeps are made of these. The configuration says which override of the command line
belongs to whom (`handed_on`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from hydra import compose
from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf, open_dict

from headscope.contracts import RunResults
from headscope.errors import ConfigError
from headscope.processes import is_first_process, sole_run, stop_if_told
from headscope.runs.limits import check_limits
from headscope.runs.resume import plain_config, task_overrides


def handed_on(cfg: DictConfig) -> list[str]:
    """The overrides of the command line that the runs inside this one get; an error for one that only one could mean.

    `handed_on` has an entry for a key, or for all keys below it: true, false for what is this run's own, or the sentence
    that refuses it. What has no entry is handed on.
    """
    kept = []
    for override in task_overrides():
        key = key_of(override)
        rule = rule_of(key, cfg.handed_on)
        if isinstance(rule, str):
            raise ConfigError(f"{key}: {rule.format(override=override)}")
        if rule:
            kept.append(override)
    return kept


def key_of(override: str) -> str:
    """What an override is about: a key or a group."""
    return override.lstrip("+~").partition("=")[0].partition("@")[0]


def rule_of(key: str, rules: Mapping[str, Any]) -> bool | str:
    """The entry of the key, or of the nearest above it."""
    while key:
        if key in rules:
            return rules[key]
        key = key.rpartition(".")[0]
    return True


def compose_child(
    experiment: str, folder: Path, given: Sequence[str], own: Sequence[str] = (), settings: Mapping[str, Any] | None = None
) -> DictConfig:
    """The configuration of a run inside this one: its experiment, what is handed on, its own overrides, then settings.

    Settings are values by dotted key; None leaves the experiment's own.
    """
    # What is handed on of a group's option is not about the one that the run chooses itself.
    chosen = tuple(f"{key_of(text)}." for text in own if "." not in key_of(text))
    kept = [text for text in given if not f"{key_of(text)}.".startswith(chosen)]
    cfg = compose("train", [f"experiment={experiment}", *kept, *own])
    for key, value in (settings or {}).items():
        if value is not None:
            OmegaConf.update(cfg, key, value)
    cfg.experiment_name, cfg.run_dir = experiment, str(folder)
    return cfg


def compose_job(loader: ConfigLoader, config: DictConfig, arguments: list[str], folder: Path) -> DictConfig:
    """The configuration with which a job of a sweep will run."""
    cfg = loader.load_sweep_config(config, arguments)
    HydraConfig.instance().set_config(cfg)
    with open_dict(cfg):
        del cfg["hydra"]
    cfg.run_dir = str(folder)
    return OmegaConf.create(plain_config(cfg))


def run_child(cfg: DictConfig, output: Path | None = None) -> RunResults:
    """Run it as any other; what it prints goes into a file, where one is named, since the terminal is the parent's."""
    stop_if_told()
    check_limits(cfg)
    with sole_run(Path(cfg.run_dir)), printed_to(output) if output else nullcontext():
        return get_method(cfg.job)(cfg)


@contextmanager
def printed_to(file: Path) -> Iterator[None]:
    """What is printed in the block goes into a file, in the first process."""
    file.parent.mkdir(parents=True, exist_ok=True)
    target = file if is_first_process() else Path(os.devnull)
    with target.open("w", encoding="utf-8") as stream, redirect_stdout(stream):
        yield
