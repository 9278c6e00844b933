"""Encoders, and a datamodule made ready without a fit, for all tests."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, BertConfig

from headscope.data_modules.base import AttentionDataModule
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.weight_change import low_rank_change
from tests.conftest import MINILM, OPTIONS, TINY


@pytest.fixture(scope="session")
def minilm() -> FrozenEncoder:
    """The packaged encoder; its weights are read once for all tests."""
    return FrozenEncoder(MINILM)


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
