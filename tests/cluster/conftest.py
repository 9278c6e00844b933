"""What tests of many jobs share: a Ray cluster of two nodes on this machine, and the serial runs that all compare with."""

import shutil
from contextlib import contextmanager
from threading import Event, Thread

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from headscope.data_modules.encoders.frozen import FrozenEncoder
from tests.cluster.held import HELD
from tests.cluster.parts import SETTINGS, finished, machines
from tests.commands import train
from tests.conftest import MINILM, TINY

SMALL = {"num_cpus": 1, "object_store_memory": 80_000_000}


class TwoNodes:
    """A core for each node; `second` is the one that can be killed."""

    def __init__(self):
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **SMALL})
        self.address, self.second = self.cluster.address, None

    def complete(self):
        """Start the second node, where there is none."""
        if self.second is None:
            self.second = self.cluster.add_node(**SMALL)
            self.cluster.wait_for_nodes()

    def kill_second(self):
        """As a machine that is switched off."""
        node, self.second = self.second, None
        self.cluster.remove_node(node, allow_graceful=False)

    @contextmanager
    def losing_second(self, folder, parts):
        """What the second node runs in a folder is held in the block; once so many parts are finished the node is killed."""
        node, over = self.second.node_id, Event()
        folder.mkdir(exist_ok=True)
        (folder / HELD).write_text(node)

        def watch():
            while not ([node] in machines(folder).values() and len(finished(folder)) >= parts):
                if over.wait(0.05):
                    return
            self.kill_second()  # whose workers outlive it for a second, and stay held

        thread = Thread(target=watch)
        thread.start()
        try:
            yield node
        finally:
            over.set()
            thread.join()


@pytest.fixture(scope="module", autouse=True)
def surroundings(tmp_path_factory):
    """One thread for every process, as several run at once; and stored maps for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HEADSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def nodes(surroundings):
    """The cluster of a module."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # as every other process of these tests
        made = TwoNodes()
        try:
            yield made
        finally:
            ray.shutdown()
            made.cluster.shutdown()


@pytest.fixture
def cluster(nodes):
    """The same, with both nodes."""
    nodes.complete()
    return nodes


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An override that names a tiny encoder, drawn at random, since parts fine-tune it."""
    folder = tmp_path_factory.mktemp("encoder")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertForMaskedLM(BertConfig(**TINY | {"num_hidden_layers": 4})).save_pretrained(folder)  # a row of a table wants four
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FrozenEncoder(MINILM).folder / file, folder)
    return f"encoder.name={folder}"


@pytest.fixture(scope="module")
def serial(surroundings, encoder, tmp_path_factory):
    """The folder of a table that was run in one process, made once."""
    made = {}

    def run(table):
        if table not in made:
            made[table] = tmp_path_factory.mktemp("serial") / table
            status, _, errors = train(f"experiment={table}", *SETTINGS[table], encoder, f"run_dir={made[table]}")
            assert status == 0, errors
        return made[table]

    return run
