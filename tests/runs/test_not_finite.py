"""What is no finite number ends a run in a sentence, whatever the experiment; no result is written."""

import pytest
from safetensors.torch import load_file, save_file

from tests.runs.conftest import train

BROKEN_HEAD = "the maps of head 2-3 and of 4 other heads hold NaN or infinite values in "
PROBE = ("trainer.max_epochs=1", "data.limit=8")
TWO_PROCESSES = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu")
RUNS = {
    "relations": ("experiment=clark_relations", "data.limit=8", "analyses.relations.min_count=1"),
    "relations in two processes": ("experiment=clark_relations", "data.limit=8", *TWO_PROCESSES),
    "coreference": ("experiment=clark_coreference", "data.limit=3"),
    "probe": ("experiment=clark_probe_attention", *PROBE),
    "probe on stored maps": ("experiment=clark_probe_attention", *PROBE, "data.cache=true"),
    "sieves": ("experiment=pande_sieves", "data.limit=4"),
}


@pytest.fixture
def overflowing(random_encoder):
    """Finite weights with which head 2-3 computes what is no number, and so all of layer 3."""
    folder = random_encoder("bert").folder
    tensors = load_file(folder / "model.safetensors")
    for part in ("query", "key"):
        tensors[f"encoder.layer.1.attention.self.{part}.weight"][16:24] *= 1e30
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def refused(folder, *overrides):
    """What a run that must fail says."""
    status, _, errors = train(*overrides, f"run_dir={folder}")
    assert (status, "Traceback" in errors) == (1, False), errors
    assert not (folder / "results.json").exists()
    assert not (folder / "heads.csv").exists()
    assert not list(folder.rglob("*.ckpt"))
    return errors


@pytest.mark.parametrize("name", RUNS)
def test_the_head_is_named_and_nothing_is_written(name, overflowing, tmp_path):
    said = refused(tmp_path / "run", *RUNS[name], f"encoder.name={overflowing}", f"data.cache_dir={tmp_path / 'cache'}")
    assert said.count(f"{overflowing}: {BROKEN_HEAD}") == 1


def test_hidden_states_are_named_where_a_probe_reads_them(overflowing, tmp_path):
    options = ("experiment=structural_probe", *PROBE, "data.hidden_layer=2", "trainer.num_sanity_val_steps=0")
    said = refused(tmp_path / "run", *options, f"encoder.name={overflowing}")
    assert "the hidden states of layer 2 hold NaN or infinite values in " in said


def test_weights_that_are_no_numbers_are_named_before_anything_runs(random_encoder, tmp_path):
    folder = random_encoder("bert").folder
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.output.dense.bias"][0] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    said = refused(tmp_path / "run", *RUNS["relations"], f"encoder.name={folder}")
    assert f"{folder}/model.safetensors: the tensor encoder.layer.1.output.dense.bias holds NaN or infinite values" in said


@pytest.mark.parametrize(
    "options",
    [
        ("experiment=kovaleva_glue", "data.task=rte", "data.limit=8", "data.batch_size=2", "trainer.max_epochs=1"),
        ("experiment=clark_probe_words", "data.limit=16", "data.batch_size=1", "trainer.max_epochs=1"),
        ("experiment=pattern_fold", "trainer.max_epochs=1", "data.synthetic=100", "data.real=false"),
    ],
    ids=["fine-tuning", "probe", "pattern network"],
)
def test_a_loss_that_is_no_number_is_told(options, random_encoder, tmp_path):
    encoder = () if "experiment=pattern_fold" in options else (f"encoder.name={random_encoder('bert').folder}",)
    status, _, errors = train(*options, *encoder, "module.lr=3e37", f"run_dir={tmp_path / 'run'}")
    assert (status, "Traceback" in errors) == (1, False), errors
    assert ": the loss is NaN or infinite in " in errors
    assert "try a lower module.lr=" in errors
    assert not (tmp_path / "run" / "results.json").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("experiment=kovaleva_glue", "module.how=bogus"), "module.how=bogus: expected uniform, zero, mean or resample."),
        (("experiment=kovaleva_glue", "module.lr=0"), "module.lr=0: expected a number above 0."),
        (("experiment=kovaleva_glue", "module.lr=inf"), "module.lr=inf: expected a number above 0."),
        (("experiment=kovaleva_glue", "module.weight_decay=-1"), "module.weight_decay=-1: expected a number from 0."),
        (("experiment=kovaleva_disable_layers", "module.importance=true"), "module.importance=True: gradients tell the"),
    ],
)
def test_an_option_of_fine_tuning_is_checked_on_every_path(options, sentence, random_encoder, tmp_path):
    data = ("data.task=rte", "data.limit=8", f"encoder.name={random_encoder('bert').folder}")
    status, _, errors = train(*options, *data, f"run_dir={tmp_path / 'run'}")
    assert (status, "Traceback" in errors) == (2, False), errors
    assert sentence in errors
