"""Values that cannot work, told before any library or model is read: conf/_limits.yaml says what can."""

import math
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from headscope.errors import ConfigError, InputError
from headscope.files import PACKAGE, local_path
from headscope.runs.help import CONF

Bounds = Sequence[Any]
BASIC = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"  # no launcher: this process
INTERACTIVE = ("bash", "interactive")  # names of SLURM's jobs in which Lightning does not take itself for a task


def check_limits(cfg: DictConfig) -> None:
    """Refuse the first value that is outside what its key takes."""
    for kind, keys in limits().items():
        for key, bounds in keys.items():
            value = OmegaConf.select(cfg, key, throw_on_missing=False)
            if value is not None:
                KINDS[kind](key, value, bounds)
    require_tasks_per_node()


def launcher_is_chosen() -> bool:
    """Whether the runs inside this one are to be jobs: a launcher is named, and this is no job itself."""
    return (
        HydraConfig.initialized()
        and HydraConfig.get().mode != RunMode.MULTIRUN
        and HydraConfig.get().launcher._target_ != BASIC
    )


def require_parts(cfg: DictConfig) -> None:
    """Refuse a launcher for a run that has none inside it."""
    has_parts = "parts" in cfg or ("rows" in cfg and cfg.get("tasks", True))  # without tasks, some are one run
    if launcher_is_chosen() and not has_parts:
        name = HydraConfig.get().runtime.choices["hydra/launcher"]
        raise ConfigError(f"hydra/launcher={name}: {cfg.experiment_name} is one run, with no parts to launch; add -m.")


def require_tasks_per_node() -> None:
    """Refuse what Lightning cannot share out: tasks of SLURM of which it is not said how many each machine has."""
    tasks = int(os.environ.get("SLURM_NTASKS", "1"))
    if tasks > 1 and "SLURM_NTASKS_PER_NODE" not in os.environ and os.environ.get("SLURM_JOB_NAME") not in INTERACTIVE:
        each = -(-tasks // int(os.environ.get("SLURM_NNODES", "1")))
        raise ConfigError(
            f"srun: {tasks} tasks were asked for with --ntasks (-n), which does not say how many run on each machine; "
            f"give srun --ntasks-per-node={each} instead, and trainer.devices={each}."
        )


@cache
def limits() -> dict[str, dict[str, Bounds]]:
    """What conf/_limits.yaml says, by kind of value and key."""
    found: Any = OmegaConf.to_container(OmegaConf.load(CONF / "_limits.yaml"))
    return found


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """A number that can be counted with: neither a switch nor NaN nor infinite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def whole(key: str, value: Any, bounds: Bounds) -> None:
    if not (is_whole(value) and _inside(value, bounds)):
        raise ConfigError(f"{key}={value}: expected a whole number {_range(bounds)}.")


def epochs(key: str, value: Any, bounds: Bounds) -> None:
    if not (is_whole(value) and (value == -1 or _inside(value, bounds))):
        raise ConfigError(f"{key}={value}: expected a whole number {_range(bounds)}, or -1 for no end.")


def number(key: str, value: Any, bounds: Bounds) -> None:
    if not (is_number(value) and _inside(value, bounds)):
        raise ConfigError(f"{key}={value}: expected a number {_range(bounds)}.")


def above(key: str, value: Any, bounds: Bounds) -> None:
    if not (is_number(value) and _inside(value, bounds) and value > bounds[0]):
        more = f" and at most {bounds[1]}" if len(bounds) > 1 else ""
        raise ConfigError(f"{key}={value}: expected a number above {bounds[0]}{more}.")


def below(key: str, value: Any, bounds: Bounds) -> None:
    if not (is_number(value) and _inside(value, bounds) and value < bounds[1]):
        raise ConfigError(f"{key}={value}: expected a number from {bounds[0]} and below {bounds[1]}.")


def choice(key: str, value: Any, bounds: Bounds) -> None:
    if value not in bounds:
        raise ConfigError(f"{key}={value}: expected {', '.join(map(str, bounds[:-1]))} or {bounds[-1]}.")


def switch(key: str, value: Any, bounds: Bounds) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}={value}: expected true or false.")


def file(key: str, value: Any, bounds: Bounds) -> None:
    """A path that is there; the bounds are words that are no path."""
    if not isinstance(value, str):
        raise ConfigError(f"{key}={value}: expected the path of a file or folder.")
    if value not in bounds and not value.startswith(PACKAGE) and not local_path(value).exists():
        folder = Path(value).expanduser().parent
        missing = "" if folder.exists() else f", nor a folder {folder}"
        raise InputError(f"{value}: no such file or folder{missing}; give {key}= one that is there.")


KINDS: dict[str, Callable[[str, Any, Bounds], None]] = {
    "whole": whole, "epochs": epochs, "number": number, "above": above, "below": below,
    "choice": choice, "switch": switch, "file": file,
}  # fmt: skip


def _inside(value: float, bounds: Bounds) -> bool:
    return bounds[0] <= value and (len(bounds) < 2 or value <= bounds[1])


def _range(bounds: Bounds) -> str:
    return f"from {bounds[0]}" + (f" to {bounds[1]}" if len(bounds) > 1 else "")
