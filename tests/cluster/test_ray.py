"""A Ray cluster of two nodes on this machine; one of them is killed while it works."""

import json
import time
from threading import Thread

import pytest

from headscope.reports.results import finished_results
from headscope.runs.cli import run_job
from headscope.runs.ray_launcher import folder_of, packed, unpack
from headscope.runs.sweeps.launch import in_folder
from headscope.runs.sweeps.report import JobsFailed
from tests.cluster import held_job, pages
from tests.cluster.conftest import SMALL
from tests.cluster.test_parts import SETTINGS, finished, require_same
from tests.commands import Command, train
from tests.runs.cheap_job import DIES, FAILS
from tests.runs.conftest import sweep

SHORT = ("data.limit=12", "trainer.max_epochs=1", "~figures")
PATIENCE = 300  # seconds
run = run_job.__wrapped__  # without Hydra's door


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
    """Six runs, of which the second node holds one when it is killed; then six suggestions of Optuna, on two nodes again."""
    (tmp_path / "sweep").mkdir()
    killer = kill_second(cluster, tmp_path / "sweep")
    both_ways(cluster, tmp_path, "seed=0,1,2", killed=True)
    killer.join()
    ran = machines(tmp_path / "sweep")
    assert sorted(len(one) for one in ran) == [1, 1, 1, 1, 1, 2]  # what the dead node held ran again, and nothing else
    again = next(one for one in ran if len(one) == 2)
    assert again[0] == cluster.second.node_id != again[1]
    assert all(finished_results(folder) for folder in (tmp_path / "sweep").glob("[0-9]"))
    cluster.add_node(num_cpus=1, **SMALL)
    cluster.wait_for_nodes()
    both_ways(cluster, tmp_path, "search=optuna")


def both_ways(cluster, folder, part, killed=False):
    """A command of the page on the cluster and without it: six jobs, the same figures."""
    words = pages.arguments(pages.command("ray", part, SHARED=folder, ADDRESS=f"address={cluster.address}"))[1:]
    sweep(*words, *SHORT, task=held_job.main if killed else run)
    alone = [word for word in words if not word.startswith(("hydra", "run_dir="))]
    sweep(*alone, *SHORT, f"run_dir={folder / 'alone' / part}", task=run)
    found, there = figures(folder / "alone" / part), figures(pages.folder(words))
    assert (len(found), {status for _, status, _ in found}, there) == (6, {"done"}, found)


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


@pytest.mark.slow
def test_an_atlas_loses_a_node_and_finds_what_one_process_finds(cluster, tmp_path, monkeypatch):
    """Both nodes work when the first part is finished and the second node is killed."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    page = pages.arguments(pages.command("ray", "experiment=atlas", SHARED=tmp_path, ADDRESS=f"address={cluster.address}"))
    more, folder = (*SETTINGS["atlas"], "figures=null"), pages.folder(page)
    running = Command("train.py", *page, *more)
    end = time.monotonic() + 2 * PATIENCE
    while not finished(folder) and running.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    cluster.remove_node(cluster.second, allow_graceful=False)
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    status, _, errors = train("experiment=atlas", *more, f"run_dir={tmp_path / 'one'}")
    assert status == 0, errors
    require_same(tmp_path / "one", folder)


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
