"""A Ray cluster of two nodes on this machine; one of them is killed while it works."""

import json

import pytest

from headscope.reports.results import finished_results
from headscope.runs.cli import run_job
from headscope.runs.ray_launcher import folder_of, packed, unpack
from headscope.runs.sweeps.launch import in_folder
from headscope.runs.sweeps.report import JobsFailed
from tests.cluster import pages
from tests.cluster.held import OVERRIDE
from tests.cluster.parts import machines, require_same
from tests.runs.cheap_job import DIES, FAILS
from tests.runs.conftest import sweep

SHORT = ("data.limit=12", "trainer.max_epochs=1", "~figures", OVERRIDE)
run = run_job.__wrapped__  # without Hydra's door


def on(cluster, *more):
    return ("hydra/launcher=ray", f"hydra.launcher.address={cluster.address}", *more)


def rows(folder):
    return json.loads((folder / "results.json").read_text())["tables"]["jobs"]


def figures(folder):
    return [(row["overrides"], row["status"], row["val/uas"]) for row in rows(folder)]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["seed=0,1,2", "search=optuna"])
def test_a_sweep_and_a_search_lose_a_node_and_no_job(part, cluster, tmp_path):
    """Six runs, of which the second node holds one when it is killed."""
    words = pages.arguments(pages.command("ray", part, SHARED=tmp_path, ADDRESS=f"address={cluster.address}"))[1:]
    there, here = pages.folder(words), tmp_path / "alone"
    with cluster.losing_second(there, parts=1) as lost:
        sweep(*words, *SHORT, task=run)
    ran = sorted(machines(there).values(), key=len)
    assert [len(one) for one in ran] == [1, 1, 1, 1, 1, 2]  # what the dead node held ran again, and nothing else
    assert ran[-1][0] == lost != ran[-1][1]
    assert all(finished_results(folder) for folder in there.glob("[0-9]"))
    sweep(*[word for word in words if not word.startswith(("hydra", "run_dir="))], *SHORT, f"run_dir={here}", task=run)
    found = figures(here)
    assert (len(found), {status for _, status, _ in found}, figures(there)) == (6, {"done"}, found)
    require_same(here, there)


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
