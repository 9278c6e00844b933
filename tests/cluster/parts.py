"""Parts of tables and of an atlas as jobs: how they are run here, what is finished, who is killed."""

import os
import signal
import time
from contextlib import contextmanager, suppress

from tests.cluster.held import MACHINES, OVERRIDE
from tests.commands import start
from tests.runs.test_ddp import TABLES, difference, largest, rows_of

SETTINGS = {
    "clark_table3": (*TABLES["clark_table3"], "figures=null"),
    "kovaleva_table1": (*TABLES["kovaleva_table1"], "figures=null"),
    "kovaleva_patterns": ("tasks=[rte,mrpc,sst2]", "data.limit=5", "figures=null"),
    # Fine-tuning comes before what reads its model.
    "atlas": (
        "only=[fine_tuning,frames,ablation]",
        "data.limit=6",
        "trainer.max_epochs=1",
        "sentences=[Birds sing.]",
        f"every_part=['~figures','{OVERRIDE}']",
        "figures=null",
    ),
}
PATIENCE = 300  # seconds


def finished(folder):
    """When each part was finished, by its folder."""
    files = [file for file in folder.rglob("results.json") if file.parent != folder]
    return {file.parent.relative_to(folder).as_posix(): file.stat().st_mtime_ns for file in files}


def machines(folder):
    """Where each part ran, and where again, by its folder."""
    return {file.parent.name: file.read_text().split() for file in folder.glob(f"*/{MACHINES}")}


def require_same(one, other):
    """All parts have the same numbers, and so has the whole, unless it says how long its parts took.

    They may have run with another number of threads, so not to the last digit. What was logged is not compared: a process
    that is killed between a checkpoint and the line about the loss of its epoch leaves that line out.
    """
    assert finished(one).keys() == finished(other).keys() != set()
    timed = any((one / name).is_file() for name in ("atlas.json", "jobs.json"))
    for part in (*finished(one), *(() if timed else (".",))):
        assert difference(one / part, other / part, ("heads.csv", "predictions.csv")) < 1e-6, part
    if (one / "atlas.json").is_file():
        assert largest(*(rows_of(folder / "heads.csv") for folder in (one, other))) < 1e-6


@contextmanager
def killed(command, folder, whom, parts=1):
    """Start a command and kill it once so many parts are finished: what was; no process is left of it after the block."""
    process = start(*command, own_group=True)
    try:
        wait_for(lambda: len(finished(folder)) >= parts, process)
        whom(process.pid, signal.SIGKILL)
        process.wait()
        assert not (folder / "results.json").exists()
        yield process.pid, finished(folder)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with process:  # its pipes are closed and it is waited for
            pass


def wait_for(true, process=None):
    """Wait until it is so, while a process runs."""
    end = time.monotonic() + PATIENCE
    while not true():
        if process and process.poll() is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # who could still write
            raise AssertionError(process.stderr.read())
        assert time.monotonic() < end
        time.sleep(0.02)
