"""Models that are damaged or impossible: each is refused in a sentence that names the file, and no code of a file runs."""

import hashlib
import json
import os
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForMaskedLM

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.checks import is_finite
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.gradient import GradientEncoder
from headscope.data_modules.encoders.models import ModelFiles
from headscope.data_modules.encoders.weight_change import add_change, change_content
from headscope.data_modules.readers.glue import TASKS
from headscope.errors import InputError
from headscope.finetune.classifier_model import load_classifier
from tests.conftest import TINY

TENSOR = "encoder.layer.1.output.dense.weight"


def damage(folder, value, name=TENSOR):
    """One number of a tensor, whatever stands before its name."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    next(tensor for key, tensor in tensors.items() if key.endswith(name))[3, 2] = value
    save_file(tensors, file, metadata={"format": "pt"})


def error_of(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_that_are_no_numbers_are_named(value, dtype, random_encoder):
    folder = random_encoder("bert").folder
    damage(folder, value)
    expected = f"{folder}/model.safetensors: the tensor {TENSOR} holds NaN or infinite values; "
    assert error_of(FrozenEncoder(str(folder), dtype=dtype).load).startswith(expected)


def test_so_are_those_of_a_classifier_and_of_a_language_model(random_encoder):
    encoder = random_encoder("bert")
    AutoModelForMaskedLM.from_config(AutoConfig.for_model("bert", **TINY)).save_pretrained(encoder.folder)
    damage(encoder.folder, float("nan"))
    for load in (
        GradientEncoder(name=encoder.name).load,
        lambda: load_classifier(EncoderSpec(encoder.name), TASKS["mrpc"], seed=0),
    ):
        assert f"model.safetensors: the tensor bert.{TENSOR} holds NaN" in error_of(load)


def test_a_tensor_that_the_file_lacks_is_not_called_damaged(random_encoder, monkeypatch):
    """Some models leave it as the memory was; that the head is not there is what its reader must know."""
    encoder = random_encoder("bert")

    def read(self, *given):
        model, missing = ModelFiles._read_as_ever(self, *given)
        model.state_dict()["cls.predictions.bias"][0] = float("nan")
        return model, missing

    monkeypatch.setattr(ModelFiles, "_read_as_ever", ModelFiles._read, raising=False)
    monkeypatch.setattr(ModelFiles, "_read", read)
    assert "has no masked-language-model head" in error_of(GradientEncoder(name=encoder.name).load)


def test_a_sum_that_overflows_is_no_alarm():
    large = torch.full((100,), 60000.0, dtype=torch.float16)
    assert is_finite(large)
    assert is_finite(torch.tensor([3.0e38, 3.0e38]))
    large[7] = float("nan")
    assert not is_finite(large)
    assert is_finite(torch.arange(3))


def test_a_change_that_is_no_number_or_has_other_bytes_is_named(random_encoder, tmp_path):
    model = random_encoder("bert").loaded()
    file = tmp_path / "change.safetensors"
    bias = "encoder.layer.0.output.dense.bias"
    save_file({bias: torch.full((32,), float("inf"), dtype=torch.float16)}, file)
    assert error_of(lambda: add_change(model, file)) == (
        f"{file}: the tensor {bias} holds NaN or infinite values; the file is damaged, so make it again."
    )
    change = {bias: torch.ones(32, dtype=torch.float16)}
    file.write_bytes(change_content(change, file))
    before = model.state_dict()[bias].clone()
    add_change(model, file)
    assert torch.equal(model.state_dict()[bias], before + 1)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert "its tensors are not those that were written" in error_of(lambda: add_change(model, file))
    with pytest.raises(InputError, match=f"{bias} holds NaN or infinite"):
        change_content({bias: torch.full((32,), float("inf"))}, file)


def test_a_checksum_beside_the_weights_is_compared(random_encoder):
    folder = random_encoder("bert").folder
    file, beside = folder / "model.safetensors", folder / "model.safetensors.sha256"
    beside.write_text(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  model.safetensors\n")
    FrozenEncoder(str(folder)).load()
    damage(folder, 0.5)
    assert error_of(FrozenEncoder(str(folder)).load).startswith(f"{file}: the sha256 is ")
    beside.write_text("nothing")
    assert error_of(FrozenEncoder(str(folder)).load).startswith(f"{beside}: expected the sha256 of model.safetensors")


def test_a_file_of_the_hub_is_compared_with_its_name(random_encoder, tmp_path):
    """The cache of the hub names a file by its sha256 and links to it."""
    folder = random_encoder("bert").folder
    file = folder / "model.safetensors"
    blob = tmp_path / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
    blob.parent.mkdir()
    file.rename(blob)
    file.symlink_to(blob)
    FrozenEncoder(str(folder)).load()
    content = bytearray(blob.read_bytes())
    content[-1] ^= 1
    blob.write_bytes(content)
    assert f"expected {blob.name}" in error_of(FrozenEncoder(str(folder)).load)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("num_attention_heads", value) for value in (0, -1, "12", None, [4], 10**9, 4.0, True)),
        *(("num_hidden_layers", value) for value in (0, -1, "3", None, 10**9)),
        *(("vocab_size", value) for value in (-5, 10**12, "many")),
        *(("hidden_size", value) for value in (0, None, 10**9)),
        ("max_position_embeddings", "512"),
    ],
)
def test_a_size_that_no_model_has_is_named(key, value, random_encoder):
    folder = random_encoder("bert").folder
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {key: value}))
    said = error_of(lambda: FrozenEncoder(str(folder)))
    assert str(folder) in said
    assert "config.json" in said
    assert key in said


def test_a_size_that_heads_cannot_share_is_named(random_encoder):
    folder = random_encoder("bert").folder
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_attention_heads": 5}))
    assert error_of(FrozenEncoder(str(folder)).load).startswith(f"{folder}: the weights cannot be read (")


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "null", "\x00", '{"model_type": 3}', '{"model_type": ["bert"]}'])
def test_a_config_of_another_kind_is_named(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    assert str(tmp_path) in error_of(lambda: FrozenEncoder(str(tmp_path)))


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"model": 3}', '{"model": {"type": "none"}}', "\x00\x01"])
def test_a_damaged_tokenizer_is_named(content, random_encoder):
    encoder = random_encoder("bert")
    (encoder.folder / "tokenizer.json").write_text(content)
    assert "tokenizer" in error_of(encoder.tokenizer)


def test_a_torch_file_that_holds_code_is_refused_and_not_run(random_encoder, tmp_path):
    class Code:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "it ran"),)

    folder = random_encoder("bert").folder
    (folder / "model.safetensors").unlink()
    for save in (torch.save, lambda value, file: file.write_bytes(pickle.dumps(value))):
        save({"weights": Code()}, folder / "pytorch_model.bin")
        said = error_of(FrozenEncoder(str(folder)).load)
        assert said.startswith(f"{folder}: the weights cannot be read (")
        assert "\n" not in said
    assert not (tmp_path / "it ran").exists()
