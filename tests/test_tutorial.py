"""The tutorial of docs/extending.md, followed to the letter in a copy of the project: three files, and it is everywhere."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme_commands import TUTORIAL

PROJECT = Path(__file__).parents[1]
MOST_LINES = 48
CHANGED = ("analysis", "conf", "tests")
FOLDERS = ("analysis", "conf", "data_modules", "finetune", "probes", "reports", "runs", "tools")


def tutorial_files():
    """The files that the tutorial adds, by the path in the comment of each block's first line."""
    text = (PROJECT / "docs" / "extending.md").read_text().partition(TUTORIAL)[2].partition("\n## ")[0]
    blocks = re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", text, flags=re.DOTALL)
    command = re.search(r"^python (train\.py .*?)(?:\s+#.*)?$", text, flags=re.MULTILINE)[1]
    return dict(blocks), command.split()


@pytest.fixture
def copied(tmp_path):
    """The project with folders of its own where the tutorial adds files, and a package over these folders."""
    copy, package = tmp_path / "copy", tmp_path / "site" / "headscope"
    copy.mkdir()
    package.mkdir(parents=True)
    for name in CHANGED:
        shutil.copytree(PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("train.py", "pyproject.toml"):
        shutil.copy(PROJECT / name, copy)
    for name in FOLDERS:
        (package / name).symlink_to((copy if name in CHANGED else PROJECT) / name)
    for file in (PROJECT / "headscope").glob("*.py"):
        (package / file.name).symlink_to(file)
    return copy


def run(arguments, folder):
    environment = {**os.environ, "PYTHONPATH": str(folder.parent / "site")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_the_tutorial_adds_an_analysis_that_runs_and_stands_in_the_atlas(copied):
    files, command = tutorial_files()
    assert [Path(name).parts[0] for name in files] == list(CHANGED)
    assert sum(len([line for line in text.splitlines() if line.strip()]) for text in files.values()) <= MOST_LINES
    for name, text in files.items():
        assert not (copied / name).exists()
        (copied / name).write_text(text)
    (test,) = (name for name in files if name.startswith("tests/"))
    checked = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", test], copied)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = run([*command, "data.limit=8", f"run_dir={copied / 'run'}"], copied)
    assert done.returncode == 0, done.stderr
    results = json.loads((copied / "run" / "results.json").read_text())
    with (copied / "run" / "heads.csv").open() as stream:
        values = [float(row["value"]) for row in csv.DictReader(stream) if row["quantity"] == "distance"]
    assert len(values) == 72
    assert results["metrics"]["test/distance"] == pytest.approx(sum(values) / 72)
    assert results["quantities"]["distance"]["unit"] == "tokens"
    assert ">distance (tokens)</text>" in (copied / "run" / "figures" / "heads_distance.svg").read_text()
    atlas = ("experiment=atlas", "only=[text]", "tuned.name=null", "data.limit=8", "shown={}")
    done = run(["train.py", *atlas, f"run_dir={copied / 'atlas'}"], copied)
    assert done.returncode == 0, done.stderr
    (model,) = json.loads((copied / "atlas" / "atlas.json").read_text())["models"]
    (entry,) = [quantity for quantity in model["quantities"] if quantity["name"] == "distance"]
    assert (entry["description"], entry["section"]) == ("How far the head looks, on average.", "distance")
    assert {"name": "distance", "label": "distances"} in model["sections"]
    assert [value for row in entry["value"] for value in row] == values
