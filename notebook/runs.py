"""A run as an object: started from Python with the keys of the command line, or opened from its folder."""

from __future__ import annotations

import html
import logging
import os
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method
from omegaconf import open_dict

from headscope.contracts import RunResults
from headscope.errors import ConfigError, InputError
from headscope.processes import sole_run
from headscope.reports.results import HEADS, RESULTS, finished_results
from headscope.runs.cli import register
from headscope.runs.explain import BAD_CONFIGURATION, explain
from headscope.runs.help import CONF
from headscope.runs.limits import check_limits
from headscope.runs.resume import require_room

if TYPE_CHECKING:
    from pandas import DataFrame

ATLAS = "atlas.html"
TALKATIVE = ("pytorch_lightning", "lightning_fabric")  # loggers; on the command line the configuration sees to them
DOTS_PER_INCH = 96  # of a page in a browser
# What a plain word stands for, where it is not an option of the group of that name.
NAMED = {"encoder": "encoder.name", "data": "data.test", "tuned": "tuned.name", "vectors": "vectors.path"}


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run and its folder; numbers are read there when they are asked for."""

    folder: Path
    results: RunResults

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """The named numbers."""
        return self.results.metrics

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return list(self.results.tables)

    def table(self, name: str = "summary") -> DataFrame:
        """A table, with a row for each of its rows."""
        from pandas import DataFrame

        if name not in self.results.tables:
            raise ConfigError(f"{name}: no such table; there are {', '.join(self.results.tables)}.")
        return DataFrame(list(self.results.tables[name]))

    def heads(self) -> DataFrame:
        """All per-head numbers, one a row: layer, head, quantity, value, n, low, high, p."""
        from pandas import read_csv

        if not (self.folder / HEADS).is_file():
            raise InputError(f"{self.folder}: the run has no numbers per head.")
        return read_csv(self.folder / HEADS)

    def grid(self, quantity: str) -> DataFrame:
        """One quantity with a row for each layer and a column for each head, from 1."""
        heads = self.heads()
        rows = heads[heads["quantity"] == quantity]
        if rows.empty:
            raise ConfigError(f"{quantity}: no such quantity; there are {', '.join(heads['quantity'].unique())}.")
        return rows.pivot(index="layer", columns="head", values="value")

    def figures(self) -> list[str]:
        """The names of the figures that the run drew, those that matter first."""
        drawn = (self.folder / "figures").glob("*.svg")
        return [file.stem for file in sorted(drawn, key=lambda file: (file.stat().st_mtime_ns, file.name))]

    def plot(self, name: str | None = None) -> Picture:
        """A figure of the run, the first unless named; a notebook shows it."""
        drawn = self.figures()
        if not drawn:
            raise InputError(f"{self.folder}: the run drew no figures; start it without ~figures.")
        if name is not None and name not in drawn:
            raise ConfigError(f"{name}: no such figure; there are {', '.join(drawn)}.")
        return Picture(self.folder / "figures" / f"{name or drawn[0]}.svg")

    def __repr__(self) -> str:
        return f"run of {self.results.experiment} in {self.folder}"

    def _repr_html_(self) -> str:
        if (page := self.folder / ATLAS).is_file():
            content = html.escape(page.read_text(encoding="utf-8"))
            return f'<iframe srcdoc="{content}" width="100%" height="820" style="border:0" sandbox="allow-scripts"></iframe>'
        cells = "".join(f"<tr><td>{html.escape(name)}</td><td>{value}</td></tr>" for name, value in self.metrics.items())
        title, folder = (html.escape(str(text)) for text in (self.results.experiment, self.folder))
        return f"<b>{title}</b><table>{cells}</table><code>{folder}</code>"


@dataclass(frozen=True)
class Picture:
    """A figure on disk, as SVG for papers; a notebook shows the PNG beside it, in the size that it has on paper."""

    file: Path

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        from headscope.reports.figures.drawing import PNG_DPI

        content = self.file.with_suffix(".png").read_bytes()
        pixels = int.from_bytes(content[16:20])  # where a PNG has its width
        return content, {"width": round(pixels * DOTS_PER_INCH / PNG_DPI)}


def open_folder(folder: str | Path) -> Run:
    """The run that was finished in a folder; its files are compared with their checksums."""
    folder = Path(folder).expanduser()
    results = finished_results(folder)
    if results is None:
        raise InputError(f"{folder}: no finished run there (expected {RESULTS}).")
    return Run(folder, results)


def run(experiment: str, *overrides: str, verbose: bool = False, **keys: Any) -> Run:
    """Run an experiment as `python train.py experiment=… key=value …` does; returns what it found.

    Keys are groups or values: `encoder="bert_base"` is an option of a group, `encoder="path"` a model,
    `data={"test": "dev.conllu", "limit": 100}` keys below `data`. `overrides` are written as on the command line.
    """
    given = [f"experiment={experiment}", *overrides, *(text for item in keys.items() for text in as_overrides(*item))]
    with undisturbed(), in_one_sentence(given), composed(given) as cfg:
        folder = Path(cfg.run_dir).resolve()
        check_limits(cfg)
        require_room(folder, cfg)
        with sole_run(folder), nothing_printed(verbose):
            get_method(cfg.job)(cfg)
    return open_folder(folder)


def as_overrides(key: str, value: Any) -> list[str]:
    """A key of Python as overrides of the command line."""
    if isinstance(value, Mapping):
        return [text for name, one in value.items() for text in as_overrides(f"{key}.{name}", one)]
    if isinstance(value, str | Path) and key in NAMED:
        options = {file.stem for file in (CONF / key).glob("*.yaml")}
        return [f"{key}={value}"] if str(value) in options else [f"{NAMED[key]}={written(value)}"]
    return [f"{key}={written(value)}"]


def written(value: Any) -> str:
    """A value as Hydra's grammar writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{','.join(map(written, value))}]"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'"


@contextmanager
def in_one_sentence(overrides: Sequence[str]) -> Iterator[None]:
    """A mistake is told as on the command line; what is a defect of the program stays as it is."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        status, sentence = explain(error, overrides)
        if sentence is None:
            raise
        raise (ConfigError if status == BAD_CONFIGURATION else InputError)(sentence) from None


@contextmanager
def composed(overrides: Sequence[str]) -> Iterator[Any]:
    """The configuration, with Hydra knowing of it while in scope; what the notebook had of Hydra is put back."""
    hydra, known = GlobalHydra.instance().hydra, HydraConfig.instance().cfg
    register()
    GlobalHydra.instance().clear()
    try:
        with initialize_config_module("headscope.conf", version_base="1.3"):
            cfg = compose("train", list(overrides), return_hydra_config=True)
            with open_dict(cfg):
                cfg.experiment_name = cfg.hydra.runtime.choices.experiment  # a part of run_dir, unless one is given
                cfg.run_dir = str(Path(cfg.run_dir).expanduser().resolve())
                cfg.hydra.runtime.output_dir, cfg.hydra.mode = cfg.run_dir, "RUN"
                HydraConfig.instance().set_config(cfg)
                del cfg["hydra"]
            Path(cfg.run_dir).mkdir(parents=True, exist_ok=True)
            yield cfg
    finally:
        GlobalHydra.instance().hydra, HydraConfig.instance().cfg = hydra, known


@contextmanager
def undisturbed() -> Iterator[None]:
    """What the notebook draws at random, logs and warns of goes on as if nothing had run."""
    python, numbers, environment = random.getstate(), np.random.get_state(), dict(os.environ)
    disabled, exact = logging.root.manager.disable, torch.are_deterministic_algorithms_enabled()
    try:
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="IProgress not found")  # of tqdm, which nobody here asked for bars
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
        logging.disable(disabled)
        torch.use_deterministic_algorithms(exact)
        for name in os.environ.keys() - environment.keys():  # Lightning hands its seed to workers so
            del os.environ[name]


@contextmanager
def nothing_printed(verbose: bool) -> Iterator[None]:
    """The tables stay off the page, unless they are asked for: the results have them. So does what Lightning tells."""
    if verbose:
        yield
        return
    import_module("pytorch_lightning")  # which sets the level of its logger when it is first imported
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
