"""One run over two hosts, which are network namespaces of this machine; one of them is cut off while it trains."""

import json
import os
import subprocess
import time

import pytest

from tests.cluster import hosts as made
from tests.cluster import pages
from tests.commands import run as run_program
from tests.runs.conftest import PROJECT
from tests.runs.test_ddp import ROUNDING_OF_TRAINING, difference, largest

pytestmark = pytest.mark.slow
SHORT = ("data.limit=24", "~figures", "callbacks.early_stopping=null")
PATIENCE = 300  # seconds
AT_MOST = 120  # seconds until who is left ends


@pytest.fixture
def hosts():
    try:
        with made.two_hosts() as both:
            yield both
    except made.CannotStart as error:
        pytest.skip(f"no network namespaces here: {error}")


def started(hosts, folder, experiment, *more):
    """The command of the page on both hosts; what each says goes into a file."""
    running, words = [], pages.command("torchrun", experiment, SHARED=folder, HOST0=hosts[0].address)
    for number, host in enumerate(hosts):
        own = [f"--node-rank={number}" if word == "--node-rank=0" else word for word in words]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": host.interface}
        with (folder / f"host{number}.txt").open("w") as said:
            command = host.command(*own, *more)
            running.append(subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=said, stderr=said))
    return running


def said(folder, number):
    return (folder / f"host{number}.txt").read_text()


def serial(folder, *arguments):
    done = run_program("train.py", *arguments, f"run_dir={folder}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("experiment", "arguments", "rounding"),
    [
        ("clark_relations", ("data.limit=40", "~figures"), 1e-6),
        ("clark_probe_words", (*SHORT, "trainer.max_epochs=2"), ROUNDING_OF_TRAINING),
    ],
)
def test_two_hosts_find_what_one_process_finds(hosts, tmp_path, experiment, arguments, rounding):
    running = started(hosts, tmp_path, experiment, *arguments)
    try:
        assert [process.wait(PATIENCE) for process in running] == [0, 0], said(tmp_path, 0) + said(tmp_path, 1)
    finally:
        for process in running:
            process.kill()
    serial(tmp_path / "one", f"experiment={experiment}", *arguments)
    assert difference(tmp_path / "one", tmp_path / "run") < rounding


def test_who_is_left_ends_with_a_sentence_and_one_host_goes_on_to_the_same_numbers(hosts, tmp_path):
    more = (*SHORT, "trainer.max_epochs=8")
    running = started(hosts, tmp_path, "clark_probe_words", *more)
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    try:
        end = time.monotonic() + PATIENCE
        while not checkpoint.is_file():
            assert time.monotonic() < end and all(process.poll() is None for process in running), said(tmp_path, 0)
            time.sleep(0.05)
        hosts[1].cut_off()
        cut = time.monotonic()
        for number, process in enumerate(running):
            assert process.wait(max(1, AT_MOST - (time.monotonic() - cut))) != 0, said(tmp_path, number)
    finally:
        for process in running:
            process.kill()
    for number, other in enumerate((1, 0)):
        assert f"process {other} of the run could not be heard of for 60 s" in said(tmp_path, number)
    assert not (tmp_path / "run" / "results.json").exists()
    serial(tmp_path / "run", "experiment=clark_probe_words", *more, "resume=true")
    serial(tmp_path / "one", "experiment=clark_probe_words", *more)
    found = [json.loads((tmp_path / side / "results.json").read_text())["metrics"] for side in ("one", "run")]
    assert largest(*found) < ROUNDING_OF_TRAINING
