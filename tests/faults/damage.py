"""Damaged files: whatever reads one says so, makes it anew, or comes to the same numbers.

`python -m tests.faults.damage --count 200 --seed 0` damages every kind of file that a run reads or leaves, does what reads
it, and prints what came of it: `refused` (one sentence that names the file), `told` (a warning that does), `harmless` (the
same numbers), `recorded` (a new run on other input, with another checksum in results.json). All else is a failure: SILENT
(other numbers, and nothing said), OTHER NUMBERS (though a warning says that all is well again), TRACEBACK, UNNAMED (an error
that does not name the file), CRASH and HANG.
"""

import argparse
import csv
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.faults.inject import Fault
from tests.faults.kills import KILL
from tests.faults.scenarios import Ended, Place, checksums, differences, make_inputs, outcome, run

GOOD = ("refused", "told", "harmless", "recorded")
LONGEST_BLOCK = 512  # bytes


# Kinds of damage: content in, other content out


def truncated(content: bytes, draw: random.Random) -> bytes:
    """The first part of it."""
    return content[: draw.randrange(len(content))]


def zeroed(content: bytes, draw: random.Random) -> bytes:
    """With zeros in the place of a block."""
    size = min(len(content), draw.randint(1, LONGEST_BLOCK))
    start = draw.randrange(len(content) - size + 1)
    return content[:start] + bytes(size) + content[start + size :]


def bit_flipped(content: bytes, draw: random.Random) -> bytes:
    """With one bit changed."""
    index = draw.randrange(len(content))
    return content[:index] + bytes([content[index] ^ 1 << draw.randrange(8)]) + content[index + 1 :]


def digit_changed(content: bytes, draw: random.Random) -> bytes:
    """With another digit in the place of one."""
    indices = [index for index, byte in enumerate(content) if 48 <= byte <= 57]
    if not indices:
        return bit_flipped(content, draw)
    index = draw.choice(indices)
    other = draw.choice([digit for digit in b"0123456789" if digit != content[index]])
    return content[:index] + bytes([other]) + content[index + 1 :]


def garbage(content: bytes, draw: random.Random) -> bytes:
    """As many bytes at random."""
    return draw.randbytes(len(content))


def emptied(content: bytes, draw: random.Random) -> bytes:
    """Nothing."""
    return b""


def appended(content: bytes, draw: random.Random) -> bytes:
    """With a part of it once more at the end."""
    return content + content[draw.randrange(len(content)) :][:LONGEST_BLOCK]


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    truncated,
    zeroed,
    bit_flipped,
    digit_changed,
    garbage,
    emptied,
    appended,
)


def damage(file: Path, how: Callable[[bytes, random.Random], bytes], draw: random.Random) -> None:
    """Damage a file in its place; half of the time its date stays, as when a disk fails."""
    content, times = file.read_bytes(), file.stat()
    while (changed := how(content, draw)) == content:
        pass
    file.write_bytes(changed)
    if draw.random() < 0.5:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


# What was there before


OWN = "encoder.name={world}/encoder encoder.sha256=null"
BANK = "data.train={world}/treebank/train.conllu data.val={world}/treebank/val.conllu data.test={world}/treebank/test.conllu"
SHORT = f"{OWN} {BANK} data.limit=12 ~figures data.cache=true"
ATTENTION = f"experiment=clark_probe_attention {SHORT} trainer.max_epochs=3"
WORDS = f"experiment=clark_probe_words {SHORT} trainer.max_epochs=3"
GLUE = "data.task=rte data.dir={world}/glue data.limit=16 ~figures"
TUNE = f"experiment=kovaleva_glue {OWN} {GLUE} trainer.max_epochs=2 module.lr=1e-3"
SWEEP = f"-m {ATTENTION} data.test={{world}}/treebank/test.conllu,{{world}}/none.conllu"  # the second job fails
RELATIONS = f"experiment=clark_relations {OWN} data.test={{world}}/treebank ~figures"
ATLAS = f"experiment=atlas only=[text,relations] {OWN} data.limit=6 tuned.name=null data_of.treebank={{world}}/treebank"
DISABLE_TUNED = f"experiment=kovaleva_disable_heads encoder.name={{world}}/run/model {GLUE}"
STOP = Fault("rename run/results.json", signals=KILL)  # all checkpoints are there, and nothing but this file is missing
# The runs of a stage: command, folder, and what ends it.
STAGES: dict[str, list[tuple[str, str, Fault | None]]] = {
    "nothing": [],
    "finished": [(ATTENTION, "run", None), (f"{ATTENTION} seed=1", "other", None)],
    "stopped": [(WORDS + " vectors.path={world}/vectors.txt", "run", STOP)],
    "tuned": [(TUNE, "run", None)],
    "disabled": [(TUNE, "run", None), (DISABLE_TUNED, "other", STOP)],
    "sweep": [(SWEEP, "run", None)],
    "relations": [(RELATIONS, "run", None)],
    "atlas": [(ATLAS, "run", None)],
}


@dataclass(frozen=True)
class Action:
    """A command that reads what was damaged, in the folder of the run before or in a new one."""

    name: str
    words: str
    folder: str = "new"


RESUME = "resume=true"
RESUME_FINISHED = Action("resume", f"{ATTENTION} {RESUME}", "run")
RESUME_STOPPED = Action("resume", f"{WORDS} vectors.path={{world}}/vectors.txt {RESUME}", "run")
RESUME_TUNED = Action("resume", f"{TUNE} {RESUME}", "run")
COMPARE = Action("compare", "experiment=compare runs=[{world}/run,{world}/other]")
SWEEP_AGAIN = Action("sweep again", SWEEP, "run")
RESUME_ATLAS = Action("resume", f"{ATLAS} {RESUME}", "run")
BESIDE = Action("beside=", ATLAS.replace("[text,relations]", "[relations]") + " beside={world}/run")
CLUSTERS = Action(
    "relations_run=",
    f"experiment=clark_clusters {OWN} data.test={{world}}/articles data.limit=6 "
    "analyses.clusters.relations_run={world}/run",
)
DISABLE = Action("disable", DISABLE_TUNED)
RESUME_DISABLED = Action("resume", f"{DISABLE_TUNED} {RESUME}", "other")
NEW_PROBE = Action("new run", f"{WORDS} vectors.path={{world}}/vectors.txt")
NEW_STREAMED = Action("new run", f"{WORDS} vectors.path={{world}}/vectors.txt data.cache=false")
GZ = Action("new run", f"{WORDS} vectors.path={{world}}/vectors.gz")
NPZ = Action("new run", f"{WORDS} vectors.path={{world}}/vectors.npz")
FRAMES = Action("new run", f"experiment=kovaleva_frames {OWN} data.test={{world}}/frames/sample.xml ~figures")
NEW_TUNE = Action("new run", TUNE)
MINILM = "encoder.change={world}/patterns/mrpc.safetensors data.limit=4"
CHANGED = Action("new run", f"experiment=clark_surface {MINILM} data.test={{world}}/articles ~figures")
NETWORK = Action(
    "new run",
    f"experiment=kovaleva_patterns_task {OWN} {GLUE} "
    "analyses.patterns.classifier.file={world}/patterns/pattern_cnn.safetensors",
)
LABELS = Action(
    "new run",
    "experiment=pattern_fold data.labels={world}/patterns/votes.csv data.synthetic=0 trainer.max_epochs=1 ~figures",
)


@dataclass(frozen=True)
class Subject:
    """A kind of file: where it lies after a stage, and what reads it."""

    name: str
    stage: str
    pattern: str
    actions: tuple[Action, ...]
    besides: tuple[str, ...] = ()  # names that the pattern would find and that are subjects of their own


SUBJECTS = (
    Subject("results.json", "finished", "run/results.json", (RESUME_FINISHED, COMPARE)),
    Subject("config.json", "finished", "run/config.json", (RESUME_FINISHED, COMPARE)),
    Subject("heads.csv", "finished", "run/heads.csv", (RESUME_FINISHED, COMPARE)),
    Subject("config.json, stopped", "stopped", "run/config.json", (RESUME_STOPPED,)),
    Subject("last checkpoint", "stopped", "run/checkpoints/last.ckpt", (RESUME_STOPPED,)),
    Subject("best checkpoint", "stopped", "run/checkpoints/best.ckpt", (RESUME_STOPPED,)),
    Subject("other checkpoints", "stopped", "run/checkpoints/*", (RESUME_STOPPED,), ("last.ckpt", "best.ckpt")),
    Subject("stored maps", "stopped", "cache/**/*.npy", (RESUME_STOPPED, NEW_PROBE)),
    Subject("notes of stored maps", "stopped", "cache/**/0*.json", (RESUME_STOPPED, NEW_PROBE)),
    Subject("rest of the cache", "stopped", "cache/**/[!0]*.*", (RESUME_STOPPED, NEW_PROBE)),
    Subject("log, stopped", "stopped", "run/logs/metrics.csv", (RESUME_STOPPED,)),
    Subject("weights", "stopped", "encoder/model.safetensors", (RESUME_STOPPED, NEW_STREAMED)),
    Subject("tokenizer.json", "stopped", "encoder/tokenizer.json", (RESUME_STOPPED, NEW_STREAMED)),
    Subject("tokenizer_config.json", "stopped", "encoder/tokenizer_config.json", (RESUME_STOPPED, NEW_STREAMED)),
    Subject("config.json of a model", "stopped", "encoder/config.json", (RESUME_STOPPED, NEW_STREAMED)),
    Subject("CoNLL-U", "stopped", "treebank/*.conllu", (RESUME_STOPPED, NEW_STREAMED)),
    Subject("CoNLL-U, finished", "finished", "treebank/*.conllu", (RESUME_FINISHED,)),
    Subject("vectors, text", "stopped", "vectors.txt", (RESUME_STOPPED, NEW_STREAMED)),
    Subject("vectors, gz", "nothing", "vectors.gz", (GZ,)),
    Subject("vectors, npz", "nothing", "vectors.npz", (NPZ,)),
    Subject("FrameNet XML", "nothing", "frames/sample.xml", (FRAMES,)),
    Subject("GLUE TSV", "tuned", "glue/RTE/*.tsv", (RESUME_TUNED, NEW_TUNE)),
    Subject("predictions.csv", "tuned", "run/predictions.csv", (RESUME_TUNED,)),
    Subject("fine-tuned weights", "tuned", "run/model/model.safetensors", (DISABLE, RESUME_TUNED)),
    Subject("fine-tuned config.json", "tuned", "run/model/config.json", (DISABLE, RESUME_TUNED)),
    Subject("fine-tuned tokenizer.json", "tuned", "run/model/tokenizer.json", (DISABLE, RESUME_TUNED)),
    Subject("parts of disabling", "disabled", "other/**/*.npz", (RESUME_DISABLED,)),
    Subject("weight change", "nothing", "patterns/mrpc.safetensors", (CHANGED,)),
    Subject("pattern network", "nothing", "patterns/pattern_cnn.safetensors", (NETWORK,)),
    Subject("votes", "nothing", "patterns/votes.csv", (LABELS,)),
    Subject("labelled maps", "nothing", "patterns/maps.safetensors", (LABELS,)),
    Subject("jobs.json", "sweep", "run/jobs.json", (SWEEP_AGAIN,)),
    Subject("failed.json", "sweep", "run/*/failed.json", (SWEEP_AGAIN,)),
    Subject("results.json of a job", "sweep", "run/*/results.json", (SWEEP_AGAIN,)),
    Subject("config.json of a job", "sweep", "run/*/config.json", (SWEEP_AGAIN,)),
    Subject("results.json of a sweep", "sweep", "run/results.json", (SWEEP_AGAIN,)),
    Subject("results.json of relations", "relations", "run/results.json", (CLUSTERS,)),
    Subject("heads.csv of relations", "relations", "run/heads.csv", (CLUSTERS,)),
    Subject("atlas.json", "atlas", "run/atlas.json", (BESIDE, RESUME_ATLAS)),
    Subject("results.json of a part", "atlas", "run/*/results.json", (RESUME_ATLAS,)),
    Subject("heads.csv of a part", "atlas", "run/*/heads.csv", (RESUME_ATLAS,)),
    Subject("config.json of a part", "atlas", "run/*/config.json", (RESUME_ATLAS,)),
)


# What happens


@dataclass(frozen=True)
class Trial:
    """One damage to one file, and what reads it; the draw decides where the damage is."""

    subject: Subject
    how: Callable[[bytes, random.Random], bytes]
    action: Action
    seed: int


class World:
    """One folder that is put back before every trial: notes in it name its files."""

    def __init__(self, base: Path) -> None:
        self.base, self.folder = base, base / "world"

    @cache  # noqa: B019 - as long as the tests
    def stage(self, name: str) -> Path:
        """A copy of the world after the runs of a stage."""
        if name == "nothing":
            make_inputs(self.folder)
        else:
            self.put_back("nothing")
        for words, folder, fault in STAGES[name]:
            expected = -KILL[0] if fault else 1 if name == "sweep" else 0
            ended = self.run(words, folder, fault)
            if ended.status != expected:
                raise RuntimeError(f"{name}: expected status {expected}, found {ended.status}\n{ended.err}")
        shutil.copytree(self.folder, self.base / "stages" / name)
        return self.base / "stages" / name

    def put_back(self, stage: str) -> None:
        """The world as a stage left it."""
        kept = self.stage(stage)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(kept, self.folder)

    def run(self, words: str, folder: str, fault: Fault | None = None) -> Ended:
        """A command in the world."""
        temp = self.base / "temp"
        temp.mkdir(exist_ok=True)
        place = Place(self.folder / folder, self.folder / "cache", temp)
        return run(words.format(world=self.folder).split(), place, fault)

    @cache  # noqa: B019
    def baseline(self, stage: str, action: Action) -> tuple[Ended, dict[str, Any], dict[str, str]]:
        """The action where nothing is damaged: how it ended, what it found, which checksums it told."""
        self.put_back(stage)
        ended = self.run(action.words, action.folder)
        if ended.status != (1 if stage == "sweep" else 0):
            raise RuntimeError(f"{action.name} after {stage} failed without damage:\n{ended.err}")
        return ended, outcome(self.folder / action.folder), checksums(self.folder / action.folder)

    def files(self, subject: Subject) -> list[Path]:
        """The files of a subject after its stage, as they lie in the world."""
        kept = self.stage(subject.stage)
        found = [file for file in sorted(kept.glob(subject.pattern)) if file.is_file() and file.stat().st_size]
        return [self.folder / file.relative_to(kept) for file in found if file.name not in subject.besides]


def judge(trial: Trial, world: World) -> tuple[str, str, Path]:
    """Damage a file, let it be read; what came of it, what was said, and which file it was."""
    before = world.baseline(trial.subject.stage, trial.action)
    draw = random.Random(trial.seed)
    file = draw.choice(world.files(trial.subject))
    world.put_back(trial.subject.stage)
    damage(file, trial.how, draw)
    ended = world.run(trial.action.words, trial.action.folder)
    usual = before[0].err.splitlines()
    said = [line for line in ended.err.splitlines() if line.strip() and line not in usual]
    verdict = classify(ended, said, file, world.folder / trial.action.folder, before)
    return verdict, said[-1][:220] if said else "", file


def classify(
    ended: Ended, said: list[str], file: Path, folder: Path, before: tuple[Ended, dict[str, Any], dict[str, str]]
) -> str:
    """One of the words of this module's docstring."""
    if ended.status is None:
        return "HANG"
    if ended.status < 0:
        return "CRASH"
    if "Traceback (most recent" in ended.err:
        return "TRACEBACK"
    names = any(file.name in line or str(file.parent) in line for line in said)
    if ended.status != before[0].status:
        return "refused" if names and ended.status in (1, 2) else "UNNAMED"
    try:
        same = not list(differences(before[1], outcome(folder)))
    except (ValueError, AttributeError, OSError, csv.Error):  # what lies in its folder is still damaged
        same = False
    if same:
        return "told" if names else "harmless"
    if folder.name != "new":
        return "OTHER NUMBERS" if names else "SILENT"
    return "told" if names else "recorded" if checksums(folder) != before[2] else "SILENT"


def draw_trials(count: int, seed: int, world: World, subjects: tuple[Subject, ...] = SUBJECTS) -> Iterator[Trial]:
    """Every subject in turn, with its actions and all kinds of damage in turn, in an order that the seed decides."""
    draw = random.Random(seed)
    orders = {subject: draw.sample(DAMAGES, len(DAMAGES)) for subject in subjects}
    seeds = [draw.getrandbits(32) for _ in range(count)]
    turns = ((turn, subject) for turn in range(count) for subject in subjects if world.files(subject))
    for (turn, subject), own_seed in zip(turns, seeds, strict=False):
        how, action = orders[subject][turn % len(DAMAGES)], subject.actions[turn % len(subject.actions)]
        yield Trial(subject, how, action, own_seed)


def main() -> int:
    """Print a table of trials and of their verdicts; the status is 1 where one is a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--subject", help="these only", nargs="*", choices=[one.name for one in SUBJECTS])
    options = parser.parse_args()
    chosen = tuple(one for one in SUBJECTS if not options.subject or one.name in options.subject)
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="damage-") as base:
        world = World(Path(base))
        print("file | damage | read by | verdict | said")
        for trial in draw_trials(options.count, options.seed, world, chosen):
            verdict, said, file = judge(trial, world)
            verdicts[verdict] += 1
            name = trial.subject.name if "*" not in trial.subject.pattern else f"{trial.subject.name} ({file.name})"
            print(" | ".join((name, trial.how.__name__, trial.action.name, verdict, said)), flush=True)
    print(json.dumps(dict(verdicts)))
    return int(any(verdict not in GOOD for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
