"""What a run was: command, configuration, versions, state of the code."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

PROJECT = Path(__file__).parents[1]
PACKAGES = ("torch", "pytorch-lightning", "transformers", "hydra-core", "torchmetrics", "numpy", "scipy")


def describe(cfg: DictConfig) -> dict[str, object]:
    """The part of the provenance that does not depend on the data."""
    return {
        "command": " ".join(sys.argv),
        "config": plain_config(cfg),
        "seed": cfg.seed,
        "git": git_state(),
        "packages": {package: installed(package) for package in PACKAGES},
    }


def plain_config(cfg: DictConfig) -> dict[str, object]:
    """The configuration with every reference filled in."""
    return OmegaConf.to_container(cfg, resolve=True)


def git_state() -> dict[str, object] | None:
    """The commit, and whether files differ from it; None outside a checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "changed": bool(_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def installed(package: str) -> str | None:
    """The version of a package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str:
    call = subprocess.run(["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, check=True)
    return call.stdout.strip()
