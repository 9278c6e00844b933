"""A Ray cluster of two nodes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

SMALL = {"object_store_memory": 80_000_000}


@contextmanager
def two_nodes() -> Iterator[Any]:
    """The cluster, with a core for each node; `second` is the one that can be killed."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # as every other process of these tests
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, **SMALL})
        cluster.second = cluster.add_node(num_cpus=1, **SMALL)
        cluster.wait_for_nodes()
        try:
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.fixture
def cluster() -> Iterator[Any]:
    """One for a test that kills a node."""
    with two_nodes() as made:
        yield made
