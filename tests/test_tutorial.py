"""The README's tutorial, followed to the letter in a copy of the project."""

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
MOST_LINES = 40
CHANGED = ("analysis", "conf", "tests")


def tutorial_files():
    """The files that the tutorial adds, by the path in the comment of each block's first line."""
    text = (PROJECT / "README.md").read_text().partition(TUTORIAL)[2].partition("\n## ")[0]
    blocks = re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", text, flags=re.DOTALL)
    command = re.search(r"^python (train\.py .*?)(?:\s+#.*)?$", text, flags=re.MULTILINE)[1]
    return dict(blocks), command.split()


@pytest.fixture
def copied(tmp_path):
    """The project with folders of its own where the tutorial adds files."""
    for entry in PROJECT.iterdir():
        if entry.name in CHANGED:
            shutil.copytree(entry, tmp_path / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not entry.name.startswith("."):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def run(arguments, folder):
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_tutorial_adds_an_analysis_that_runs(copied):
    files, command = tutorial_files()
    assert {Path(name).parts[0] for name in files} == set(CHANGED)
    assert sum(len([line for line in text.splitlines() if line.strip()]) for text in files.values()) <= MOST_LINES
    for name, text in files.items():
        assert not (copied / name).exists()
        (copied / name).write_text(text)
    (test,) = (name for name in files if name.startswith("tests/"))
    # train.py is taken from the copy: as a link it would bring the original's packages first.
    (copied / "train.py").unlink()
    shutil.copy(PROJECT / "train.py", copied)
    checked = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", test], copied)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    done = run([*command, "data.limit=8", f"run_dir={copied / 'run'}"], copied)
    assert done.returncode == 0, done.stderr
    results = json.loads((copied / "run" / "results.json").read_text())
    with (copied / "run" / "heads.csv").open() as stream:
        values = [float(row["value"]) for row in csv.DictReader(stream) if row["quantity"] == "distance"]
    assert len(values) == 72
    assert results["metrics"]["test/distance"] == pytest.approx(sum(values) / 72)
