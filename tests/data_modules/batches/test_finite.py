"""What is no finite number is counted against a plain loop, and ends a run in a sentence that names the head."""

import math

import pytest
import torch
from safetensors.torch import load_file, save_file

from headscope.data_modules.batches.finite import FiniteCheck
from headscope.data_modules.treebank import TreebankDataModule
from headscope.errors import InputError
from tests.data_modules.test_attention_data_module import TEST

BROKEN = [(0, 1, 2, 1, 3, math.nan), (0, 1, 2, 2, 0, math.inf), (2, 1, 2, 0, 0, -math.inf), (1, 0, 0, 4, 4, math.nan)]


@pytest.fixture
def maps():
    """Three inputs of 5, 2 and 3 words, two layers of three heads; the last broken cell is in a padded row."""
    maps = torch.rand(3, 2, 3, 5, 5)
    for *cell, value in BROKEN:
        maps[tuple(cell)] = value
    return maps, torch.arange(5) < torch.tensor([[5], [2], [3]])


def by_plain_loop(maps, real):
    counts = torch.zeros(maps.shape[1:3], dtype=torch.long)
    for one, words in zip(maps, real.sum(1).tolist(), strict=True):
        for layer in range(maps.shape[1]):
            for head in range(maps.shape[2]):
                counts[layer, head] += any(not math.isfinite(cell) for cell in one[layer, head, :words].flatten().tolist())
    return counts


def test_inputs_are_counted_as_by_a_plain_loop(maps):
    check = FiniteCheck("model", 2, 3)
    with torch.inference_mode():
        check.count({"maps": maps[0]}, maps[1])
    check.count({"maps": maps[0].half()}, maps[1])
    assert check.counts[:-1].tolist() == (2 * by_plain_loop(*maps)).flatten().tolist() == [0, 0, 0, 0, 0, 4]


def test_the_sentence_names_the_first_head_and_counting_starts_anew(maps):
    check = FiniteCheck("model", 2, 3)
    maps[0][1, 1, 0, 0, 0] = math.nan
    check.count({"maps": maps[0]}, maps[1])
    expected = "^model: the maps of head 2-1 and of 1 other heads hold NaN or infinite values in 2 of 3 inputs, so"
    with pytest.raises(InputError, match=expected):
        check.require_none(torch.device("cpu"))
    check.require_none(torch.device("cpu"))


def test_hidden_states_are_counted_by_input():
    check = FiniteCheck("model", 2, 3, hidden_layer=1)
    states = torch.rand(3, 4, 8)
    states[0, 3, 2] = states[1, 0, 0] = math.nan
    check.count({"hidden": states}, torch.arange(4) < torch.tensor([[3], [4], [4]]))
    with pytest.raises(InputError, match="^model: the hidden states of layer 1 hold NaN or infinite values in 1 of 3"):
        check.require_none(torch.device("cpu"))


@pytest.mark.parametrize("arch", ["bert", "gpt2", "llama", "modernbert", "deberta-v2"])
def test_padding_and_causal_rows_give_no_alarm(arch, random_encoder, ready):
    data = ready(TreebankDataModule(encoder=random_encoder(arch), test=str(TEST), limit=8, hidden_layer=1))
    for batch in data.test_dataloader():
        data.on_after_batch_transfer(batch, 0)
    assert data.words.finite.inputs == 8
    data.words.finite.require_none(torch.device("cpu"))


@pytest.fixture
def overflowing(random_encoder):
    """An encoder of finite weights whose head 2-3 computes what is no number, and so all of layer 3."""
    encoder = random_encoder("bert", name="overflowing")
    file = encoder.folder / "model.safetensors"
    tensors = load_file(file)
    for part in ("query", "key"):
        tensors[f"encoder.layer.1.attention.self.{part}.weight"][16:24] *= 1e30
    save_file(tensors, file, metadata={"format": "pt"})
    return encoder


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("units", ["words", "tokens"])
def test_the_head_where_it_starts_is_named(units, precision, overflowing, ready, monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    monkeypatch.setattr(TreebankDataModule, "units", units)
    data = ready(TreebankDataModule(encoder=overflowing, test=str(TEST), limit=4), precision=precision)
    if units == "tokens":
        for item in data.read_splits()["test"].items:
            object.__setattr__(item, "size", len(item.input_ids))
    for batch in data.test_dataloader():
        data.on_after_batch_transfer(batch, 0)
    with pytest.raises(InputError, match=r"overflowing: the maps of head 2-3 and of 4 other heads .* in 4 of 4 inputs"):
        data.words.finite.require_none(torch.device("cpu"))


def test_a_shard_with_nan_is_not_kept(overflowing, ready, tmp_path):
    cache = tmp_path / "cache"
    data = TreebankDataModule(encoder=overflowing, test=str(TEST), limit=4, cache=True, cache_dir=str(cache))
    with pytest.raises(InputError, match="overflowing: the maps of head 2-3"):
        ready(data)
    assert [file for file in cache.rglob("*") if file.is_file()] == []


def test_what_float16_does_not_hold_is_not_stored(random_encoder, ready, tmp_path):
    """Layer norm with a gain of 1e6: hidden states far over 65,504, which are fine in float32."""
    encoder = random_encoder("bert", name="large")
    tensors = load_file(encoder.folder / "model.safetensors")
    tensors["encoder.layer.0.output.LayerNorm.weight"] *= 1e6
    save_file(tensors, encoder.folder / "model.safetensors", metadata={"format": "pt"})
    options = {"test": str(TEST), "limit": 4, "maps": False, "hidden_layer": 1, "cache_dir": str(tmp_path / "cache")}
    streamed = ready(TreebankDataModule(encoder=encoder, **options))
    for batch in streamed.test_dataloader():
        streamed.on_after_batch_transfer(batch, 0)
    streamed.words.finite.require_none(torch.device("cpu"))
    with pytest.raises(InputError, match=r"the hidden states of layer 1 hold NaN or infinite .* 4 of 4 .*data.cache=f"):
        ready(TreebankDataModule(encoder=encoder, cache=True, **options))
