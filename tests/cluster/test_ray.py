"""A Ray cluster of two nodes on this machine; one of them is killed while it works."""

import json
import time
from threading import Thread

import pytest

from headscope.reports.results import finished_results
from headscope.runs.ray_launcher import folder_of, packed, unpack
from headscope.runs.sweeps.launch import in_folder
from headscope.runs.sweeps.report import JobsFailed
from tests.cluster import held_job
from tests.runs.cheap_job import DIES, FAILS
from tests.runs.conftest import sweep

GRID = ("seed=0,1,2", "module.lr=0.1,0.01", "~figures")
SEARCH = ("search=optuna", "module.lr=tag(log,interval(0.001,0.1))", "search.trials=6", "~figures")
PATIENCE = 120  # seconds
SMALL = {"object_store_memory": 80_000_000, "include_dashboard": False}


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes of one core each, and the address."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})
    cluster.second = cluster.add_node(num_cpus=1, object_store_memory=SMALL["object_store_memory"])
    cluster.wait_for_nodes()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def on(cluster, *more):
    return ("hydra/launcher=ray", f"hydra.launcher.address={cluster.address}", *more)


def rows(folder):
    return json.loads((folder / "results.json").read_text())["tables"]["jobs"]


def figures(folder):
    return [(row["overrides"], row["status"], row["val/uas"]) for row in rows(folder)]


def machines(folder):
    return [file.read_text().split() for file in sorted(folder.glob("*/machines"))]


def kill_second(cluster, folder):
    """Kill the second node while it holds a job and the first has finished two."""

    def watch():
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            there = [one for one in machines(folder) if one[-1:] == [cluster.second.node_id]]
            if there and len(list(folder.glob("*/results.json"))) >= 2:
                break
            time.sleep(0.05)
        cluster.remove_node(cluster.second, allow_graceful=False)
        (folder / held_job.HELD).unlink()

    (folder / held_job.HELD).write_text(cluster.second.node_id)
    thread = Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.slow
def test_a_sweep_and_a_search_lose_a_node_and_no_job(cluster, tmp_path):
    """Six jobs, of which the second node holds one when it is killed; then six suggestions of Optuna on what is left."""
    for name in ("one", "two", "searched", "serial_search"):
        (tmp_path / name).mkdir()
    killer = kill_second(cluster, tmp_path / "two")
    sweep(*GRID, *on(cluster), f"run_dir={tmp_path / 'two'}", task=held_job.main)
    killer.join()
    sweep(*GRID, f"run_dir={tmp_path / 'one'}")
    assert figures(tmp_path / "two") == figures(tmp_path / "one")
    assert len(figures(tmp_path / "two")) == 6
    ran = machines(tmp_path / "two")
    assert sorted(len(one) for one in ran) == [1, 1, 1, 1, 1, 2]  # what the dead node held ran again, and nothing else
    again = next(one for one in ran if len(one) == 2)
    assert again[0] == cluster.second.node_id != again[1]
    assert all(finished_results(folder) for folder in (tmp_path / "two").glob("[0-9]"))
    sweep(*SEARCH, *on(cluster), f"run_dir={tmp_path / 'searched'}")
    sweep(*SEARCH, f"run_dir={tmp_path / 'serial_search'}")
    assert figures(tmp_path / "searched") == figures(tmp_path / "serial_search")


@pytest.mark.slow
def test_jobs_fail_and_die_alone_and_come_back_without_a_shared_disk(cluster, tmp_path):
    """A process that dies at each try is recorded; the same command again runs what is missing and nothing else."""
    jobs = (f"seed=0,{FAILS},{DIES},1", "~figures", f"run_dir={tmp_path}")
    elsewhere = on(cluster, "hydra.launcher.shared_folder=false", "hydra.launcher.max_retries=1")
    with pytest.raises(JobsFailed, match="2 of 4 jobs did not finish"):
        sweep(*jobs, *elsewhere)
    assert [row["status"] for row in rows(tmp_path)] == ["done", "failed", "failed", "done"]
    assert rows(tmp_path)[1]["error"] == "words.txt: no such file."
    assert rows(tmp_path)[2]["error"].startswith("its process died")
    assert (tmp_path / "0" / "calls").read_text() == "1\n"  # once, with the threads that Ray gives
    before = (tmp_path / "0" / "results.json").stat().st_mtime_ns
    with pytest.raises(JobsFailed, match="2 of 4 jobs did not finish"):
        sweep(*jobs, *elsewhere)
    assert (tmp_path / "0" / "results.json").stat().st_mtime_ns == before


def test_the_folder_of_a_job_is_what_its_overrides_say(tmp_path):
    for name in ("plain", "it's a \\'folder", "with, commas={}"):
        assert folder_of(["seed=1", *in_folder(tmp_path / name, "tuned/text")]) == (tmp_path / name, "tuned/text")


def test_a_folder_is_packed_without_its_lock_and_with_its_results_last(tmp_path):
    (tmp_path / "here" / "job" / "logs").mkdir(parents=True)
    for name in ("results.json", ".lock", "zz.txt", "logs/metrics.csv"):
        (tmp_path / "here" / "job" / name).write_text(name)
    (tmp_path / "here" / "model").write_text("weights")
    content = packed(tmp_path / "here", ["job", "model", "gone"])
    unpack(content, tmp_path / "there")
    left = {file.relative_to(tmp_path / "there").as_posix() for file in (tmp_path / "there").rglob("*") if file.is_file()}
    assert left == {"job/results.json", "job/zz.txt", "job/logs/metrics.csv", "model"}
    assert content.index(b"job/results.json") > content.index(b"job/zz.txt")
