"""The rows, tasks and parts of real tables and of an atlas as jobs: the numbers of one process, and nothing is redone."""

import os
import signal
import time

import pytest

from tests.cluster import pages
from tests.commands import start, train
from tests.runs.test_ddp import TABLES, difference

pytestmark = pytest.mark.slow
RAY = ("hydra/launcher=ray", "hydra.launcher.init={num_cpus:2,object_store_memory:80000000,include_dashboard:false}")
SETTINGS = {
    "clark_table3": TABLES["clark_table3"],
    "kovaleva_table1": TABLES["kovaleva_table1"],
    "kovaleva_patterns": ("tasks=[rte,mrpc]", "data.limit=5"),
    # Fine-tuning comes before what reads its model.
    "atlas": ("only=[fine_tuning,frames,ablation]", "data.limit=6", "trainer.max_epochs=1", "sentences=[Birds sing.]"),
}
PATIENCE = 300  # seconds


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory):
    """One thread for every process, and stored maps for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HEADSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def command(table, folder, *more):
    return (f"experiment={table}", *SETTINGS[table], "figures=null", f"run_dir={folder}", *more)


def by_joblib(table):
    """The launcher of the page's command for a table."""
    return [word for word in pages.command("joblib", f"experiment={table}") if word.startswith("hydra")]


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    """The folder of a table that was run in one process, made once."""
    made = {}

    def run(table):
        if table not in made:
            made[table] = tmp_path_factory.mktemp("serial") / table
            status, _, errors = train(*command(table, made[table]))
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


@pytest.mark.parametrize("launcher", ["joblib", "ray"])
@pytest.mark.parametrize("table", SETTINGS)
def test_parts_as_jobs_find_what_one_process_finds(table, launcher, serial, tmp_path):
    if launcher == "ray":
        pytest.importorskip("ray")
    jobs = command(table, tmp_path / "jobs", *(RAY if launcher == "ray" else by_joblib(table)))
    status, out, errors = train(*jobs)
    assert status == 0, errors
    assert out.splitlines()[-1] == str(tmp_path / "jobs" / "results.json")
    require_same(serial(table), tmp_path / "jobs")
    before = finished(tmp_path / "jobs")
    status, _, errors = train(*jobs, "resume=true")
    assert (status, finished(tmp_path / "jobs")) == (0, before), errors


@pytest.mark.parametrize("whom", ["parent", "all"])
@pytest.mark.parametrize("table", SETTINGS)
def test_what_was_finished_when_a_table_was_killed_is_not_done_again(table, whom, serial, tmp_path):
    """By SIGKILL: the process that waits for the jobs, which may outlive it, or all processes."""
    jobs = command(table, tmp_path / "jobs", *by_joblib(table))
    with start(*jobs, own_group=True) as process:
        end = time.monotonic() + PATIENCE
        while not finished(tmp_path / "jobs"):
            assert time.monotonic() < end and process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        (os.kill if whom == "parent" else os.killpg)(process.pid, signal.SIGKILL)
    assert not (tmp_path / "jobs" / "results.json").exists()
    before = finished(tmp_path / "jobs")
    status, _, errors = train(*jobs, "resume=true")
    assert status == 0, errors
    after = finished(tmp_path / "jobs")
    assert {part: after[part] for part in before} == before
    require_same(serial(table), tmp_path / "jobs")
