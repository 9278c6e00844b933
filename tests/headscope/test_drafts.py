"""What a process that was killed leaves of a draft, and how a folder takes another's place."""

import errno
import os
import subprocess
import sys

import pytest

from headscope import drafts
from headscope.drafts import appears_whole, remove_stale_drafts, write_atomically

KILLED = """
import os, signal, sys
from pathlib import Path
from headscope.drafts import appears_whole
with appears_whole(Path(sys.argv[1])) as draft:
    draft.write_text("half")
    print(draft.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def nothing_looked_through(monkeypatch):
    monkeypatch.setattr(drafts, "_looked_through", set())


def test_the_draft_of_a_killed_process_goes_with_the_next_write_and_that_of_a_living_one_stays(tmp_path):
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a.json"], capture_output=True, text=True)
    assert names(tmp_path) == [killed.stdout.strip()]
    with appears_whole(tmp_path / "b.json") as living:
        assert names(tmp_path) == []
        living.write_text("half")
        drafts._looked_through.clear()
        write_atomically(tmp_path / "a.json", b"whole")
        assert names(tmp_path) == sorted([living.name, "a.json"])
    assert names(tmp_path) == ["a.json", "b.json"]


def test_a_draft_of_another_machine_stays_for_a_day(tmp_path):
    fresh, old = (tmp_path / f".{digit * 32}.a.json" for digit in "ab")
    for file in (fresh, old, tmp_path / ".hidden.json", tmp_path / ".git"):
        file.write_text("")
    os.utime(old, (0, 0))
    os.utime(tmp_path / ".hidden.json", (0, 0))
    remove_stale_drafts(tmp_path)
    assert names(tmp_path) == sorted([fresh.name, ".hidden.json", ".git"])


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_there_at_any_time_or_comes_back(tmp_path, monkeypatch, can_exchange):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old").touch()
    if not can_exchange:
        monkeypatch.setattr(drafts, "_exchange", lambda one, other: False)
    with appears_whole(folder, durable=True) as draft:
        draft.mkdir()
        (draft / "new").touch()
    assert (names(folder), names(tmp_path)) == (["new"], ["model"])


def test_a_folder_that_was_put_aside_by_a_process_that_was_killed_comes_back(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    owner = f"{drafts._machine()}{int(gone.stdout):08x}"
    aside = tmp_path / f".{owner}{'0' * 16}.model.before"
    aside.mkdir()
    (aside / "old").touch()
    remove_stale_drafts(tmp_path)
    assert (names(tmp_path), names(tmp_path / "model")) == (["model"], ["old"])


@pytest.mark.parametrize("failing", ["replace", "fsync"])
def test_a_full_disk_leaves_the_old_file_no_draft_and_names_the_file(tmp_path, monkeypatch, failing):
    write_atomically(tmp_path / "a.json", b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(drafts.os, failing, full)
    monkeypatch.setattr(drafts.Path, "replace", full if failing == "replace" else drafts.Path.replace)
    with pytest.raises(OSError, match="No space") as raised:
        write_atomically(tmp_path / "a.json", b"new", durable=True)
    assert raised.value.filename == str(tmp_path / "a.json")
    assert ((tmp_path / "a.json").read_bytes(), names(tmp_path)) == (b"old", ["a.json"])
