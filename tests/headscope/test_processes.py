import contextlib
import os
import pty
import re
import subprocess
import time

import pytest
from rich.progress import Task

from headscope.processes import Rate, TimeLeft, announced, progress
from tests.commands import Command

SLOW = """
import sys, time
from headscope import processes as module
module.PATIENCE = 0.1
def slowly(items):
    for item in items:
        time.sleep(0.15)
        yield item
{body}
print("done", file=sys.stderr)
"""
HIDDEN_CURSOR, CURSOR = "\x1b[?25l", "\x1b[?25h"


def on_a_terminal(*command, **environment):
    """What a command writes to standard error where that is a terminal, and its exit status."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    process = Command(*command, stderr=theirs, stdout=subprocess.DEVNULL, env=env)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # how a terminal says that the other end is closed
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    return seen.decode(), process.wait(timeout=60)


def task(completed, total, seconds):
    now = time.monotonic()
    found = Task(0, "", total, completed, _get_time=lambda: now)
    found.start_time = now - seconds
    return found


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("for item in module.progress(range(6), 'storing'): time.sleep(0.15)", ["storing", "/6", "items/s", " left"]),
        ("for item in module.progress(range(6), 'storing', each=1000): time.sleep(0.15)", ["storing", "/6000", "items/s"]),
        ("for item in module.progress(slowly(range(6)), 'reading'): pass", ["reading", "/?", "items/s"]),
        (
            "for item in module.announced(range(3), 'rows'): time.sleep(0.2)",
            ["rows, 1 of 3: 0", "rows, 3 of 3: 2", "2/3", "items/s", " left"],
        ),
    ],
)
def test_a_terminal_shows_rate_and_time_left(body, shown):
    seen, status = on_a_terminal("-c", SLOW.format(body=body))
    assert status == 0, seen
    for text in shown:
        assert text in seen, seen
    assert seen.count(HIDDEN_CURSOR) == seen.count(CURSOR)


def test_a_bar_is_one_line_where_it_is_narrow():
    body = "for item in module.announced(range(3), 'kovaleva_patterns', 'mrpc, patterns {}'.format): time.sleep(0.1)"
    seen, status = on_a_terminal("-c", SLOW.format(body=body), COLUMNS="64")
    lines = [line for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).splitlines() if line.strip()]
    assert status == 0 and len(lines) == 4  # three items and the word at the end
    assert all(re.search(r"of 3: mrpc, patterns \d .* \d/3 +(\d:\d\d:\d\d left)?\s*$", line) for line in lines[:3]), lines


def test_a_short_loop_shows_no_bar_and_other_processes_say_nothing():
    body = "for item in module.progress(range(3), 'short'): pass"
    assert on_a_terminal("-c", SLOW.format(body=body))[0].strip() == "done"
    body = "for item in module.progress(range(3), 'second'): time.sleep(0.15)"
    assert on_a_terminal("-c", SLOW.format(body=body), RANK="1")[0].strip() == "done"


def test_of_loops_within_loops_one_bar_is_shown_at_a_time():
    body = (
        "for file in module.progress(range(3), 'files'):\n"
        "    for line in module.progress(range(4), 'lines'): time.sleep(0.15)\n"
        "    time.sleep(0.15)"
    )
    seen, _ = on_a_terminal("-c", SLOW.format(body=body))
    assert "lines" in seen
    shown = False
    for part in re.findall(r"\x1b\[\?25[lh]", seen):
        assert (part == HIDDEN_CURSOR) != shown
        shown = not shown


def test_an_error_within_a_loop_is_read_and_the_terminal_is_left_in_order():
    body = (
        "from headscope.errors import InputError\n"
        "from runs.cli import clear_errors\n"
        "with clear_errors():\n"
        "    for item in module.progress(range(9), 'storing'):\n"
        "        time.sleep(0.15)\n"
        "        if item == 5: raise InputError('a.txt: is bad.')"
    )
    seen, status = on_a_terminal("-c", SLOW.format(body=body))
    assert status == 1
    assert "a.txt: is bad." in seen
    assert HIDDEN_CURSOR in seen
    assert seen.rindex(CURSOR) > seen.rindex(HIDDEN_CURSOR)


def test_where_nobody_watches_the_items_come_as_they_are_and_nothing_is_printed(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    items = [1, 2, 3]
    assert progress(items, "quiet") is items
    assert capsys.readouterr() == ("", "")


def test_parts_are_named_also_where_there_is_no_terminal(capsys, monkeypatch):
    assert list(announced(["a", "b"], "atlas", str.upper)) == ["a", "b"]
    assert capsys.readouterr() == ("", "atlas, 1 of 2: A\natlas, 2 of 2: B\n")
    monkeypatch.setenv("RANK", "1")
    assert list(announced(["a", "b"], "atlas")) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


def test_rate_and_time_left_are_those_of_the_whole_where_items_are_slow():
    assert str(Rate().render(task(20, 50, 100))) == "0.2 items/s"
    assert str(TimeLeft().render(task(20, 50, 100))) == "0:02:30 left"
    assert str(Rate().render(task(3000, None, 1.5))) == "2,000 items/s"
    assert str(TimeLeft().render(task(3000, None, 1.5))) == ""
    assert str(Rate().render(task(0, 50, 100))) == ""


def test_a_run_shows_lightning_s_bar_with_rate_and_time_on_a_terminal(tmp_path):
    run = ("train.py", "experiment=clark_probe_attention", "trainer.max_epochs=1", "data.limit=20", f"run_dir={tmp_path}")
    seen, status = on_a_terminal(*run)
    assert status == 0, seen
    assert re.search(r"clark_probe_attention: .*minilm.* \(6 × 12 heads\) on .*20 test", seen)
    assert seen.index("6 × 12 heads") < seen.index("epoch 1 of 1")
    assert "train/loss" in seen and "val/uas" in seen
    assert "it/s" in seen
    assert (tmp_path / "results.json").is_file()
