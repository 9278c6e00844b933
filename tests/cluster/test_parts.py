"""Rows and tasks of real tables as jobs, killed half-way: nothing is redone, numbers are the same."""

import os
import signal
import time
from contextlib import suppress

import pytest

from tests.cluster import pages
from tests.commands import start, train
from tests.runs.test_ddp import TABLES, difference

pytestmark = pytest.mark.slow
SETTINGS = {
    "clark_table3": TABLES["clark_table3"],
    "kovaleva_table1": ("tasks=[rte,mrpc,sst2]", *TABLES["kovaleva_table1"][1:]),
}
ALL = ("clark_table3",)  # where jobs are killed too; else the process that waits for them, which they may outlive
PATIENCE = 300  # seconds


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory):
    """One thread for every process, and stored maps for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HEADSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """The folder of a table that was run in one process, made once."""
    made = {}

    def run(table):
        if table not in made:
            made[table] = tmp_path_factory.mktemp("serial") / table
            words = (f"experiment={table}", *SETTINGS[table], "figures=null")
            status, _, errors = train(*words, f"run_dir={made[table]}")
            assert status == 0, errors
        return made[table]

    return run


def finished(folder):
    """When each part was finished, by its folder."""
    files = [file for file in folder.rglob("results.json") if file.parent != folder]
    return {file.parent.relative_to(folder).as_posix(): file.stat().st_mtime_ns for file in files}


def require_same(one, other):
    assert finished(one).keys() == finished(other).keys() != set()
    for part in (*finished(one), "."):
        assert difference(one / part, other / part) < 1e-6, part


def killed_half_way(command, folder, whom):
    """Start a command and kill it as soon as one part is finished; its number, and what was."""
    with start(*command, own_group=True) as process:
        end = time.monotonic() + PATIENCE
        while not finished(folder):
            assert time.monotonic() < end and process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        whom(process.pid, signal.SIGKILL)
    assert not (folder / "results.json").exists()
    return process.pid, finished(folder)


def require_the_rest_alone(command, folder, before, serial):
    """The same command again does what was not done."""
    status, out, errors = train(*command, "resume=true")
    assert (status, out.splitlines()[-1:]) == (0, [str(folder / "results.json")]), errors
    after = finished(folder)
    assert {part: after[part] for part in before} == before
    assert after.keys() > before.keys()
    require_same(serial, folder)


@pytest.mark.parametrize("table", SETTINGS)
def test_what_joblib_had_finished_is_not_done_again(table, serial, tmp_path):
    page = pages.arguments(pages.command("joblib", f"experiment={table}", OUTPUTS=f"{tmp_path}/"))
    command, folder = (*page, *SETTINGS[table], "figures=null"), pages.folder(page)
    group, before = killed_half_way(command, folder, os.killpg if table in ALL else os.kill)
    require_the_rest_alone(command, folder, before, serial(table))
    with suppress(ProcessLookupError):  # workers that have nobody left to work for
        os.killpg(group, signal.SIGKILL)
