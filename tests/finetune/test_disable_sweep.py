"""The sweep as a module: against one evaluation per head, resumed, over several checkpoints."""

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf
from transformers import BertForSequenceClassification

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.glue import GlueDataModule
from headscope.data_modules.readers.glue import TASKS
from headscope.errors import ConfigError
from headscope.finetune import disable_sweep
from headscope.finetune.classifier_model import load_classifier
from headscope.finetune.disable_sweep import DisableSweep
from headscope.finetune.glue_classifier import GlueClassifier
from tests.runs.conftest import composed


@pytest.fixture
def tuned(random_encoder, tmp_path):
    """A tiny classifier with a head, saved as a fine-tuned model, and the sample of its task."""

    def make(task="rte", seed=0, arch="bert", limit=12):
        encoder = random_encoder(arch)
        folder = tmp_path / f"tuned_{task}_{seed}"
        model = load_classifier(encoder.spec, TASKS[task], seed)
        torch.nn.init.normal_(model.classifier.weight if arch != "roberta" else model.classifier.out_proj.weight)
        model.save_pretrained(folder)
        encoder.tokenizer().save_pretrained(folder)
        return GlueDataModule(encoder=FrozenEncoder(str(folder)), task=task, maps=False, limit=limit, batch_tokens=256)

    return make


def findings_of(module, data):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    pl.Trainer(accelerator="cpu", **quiet).test(module, datamodule=data, verbose=False)
    return module.findings()


def score_without(data, heads):
    module = GlueClassifier(data.facts(), disable=heads)
    run = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False)
    return run.test(module, datamodule=data, verbose=False)[0]["test/main"]


@pytest.mark.parametrize("task", ["rte", "stsb"])
def test_every_change_equals_an_evaluation_with_that_head_disabled(tuned, tmp_path, task):
    data = tuned(task)
    found = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), replicates=20), data)
    baseline = score_without(data, [])
    assert found.tables["sweep"][0]["baseline"] == pytest.approx(baseline, abs=1e-4)
    changes = found.heads["change_without_head"].value
    for layer, head in [(1, 1), (2, 4), (3, 2)]:
        expected = score_without(data, [[layer, head]]) - baseline
        assert changes[layer - 1][head - 1] == pytest.approx(expected, abs=1e-3)  # of 100, from float32 logits
    assert len(found.tables["disabled"]) == 12
    p = {row["disabled"]: row["p_holm"] for row in found.tables["disabled"]}
    assert p == {f"{n // 4 + 1}-{n % 4 + 1}": found.heads["change_without_head"].p[n // 4][n % 4] for n in range(12)}


def test_every_layer(tuned, tmp_path):
    data = tuned()
    found = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), units="layers", replicates=20), data)
    baseline = score_without(data, [])
    for layer in (1, 2, 3):
        expected = score_without(data, [[layer, head] for head in range(1, 5)]) - baseline
        row = found.tables["layers"][layer - 1]
        assert (row["layer"], row["n"]) == (layer, len(data.read_splits()["test"]))
        assert row["change"] == pytest.approx(expected, abs=1e-4)
        assert row["low"] <= row["change"] <= row["high"]
    assert found.heads == {}  # a layer is no head, so heads.csv does not have it


def test_several_layers_at_once_equal_an_evaluation_with_all_their_heads_disabled(tuned, tmp_path):
    data = tuned()
    sets = [[1, 3], [2]]
    sweep = DisableSweep(data.facts(), str(tmp_path / "sweep"), units="layers", replicates=20, disable=sets)
    found = findings_of(sweep, data)
    baseline, rows = score_without(data, []), {row["disabled"]: row for row in found.tables["disabled"]}
    assert set(rows) == {"layers 1, 3", "layer 2"}
    for name, layers in zip(("layers 1, 3", "layer 2"), sets, strict=True):
        expected = score_without(data, [[layer, head] for layer in layers for head in range(1, 5)]) - baseline
        assert rows[name]["change"] == pytest.approx(expected, abs=1e-4)
    for wrong, units in (([[4]], "layers"), ([[]], "layers"), ([[1]], "heads")):
        with pytest.raises(ConfigError):
            DisableSweep(data.facts(), str(tmp_path / "sweep"), units=units, disable=wrong)


def test_the_mean_over_all_heads_and_how_many_gain_equal_a_loop(tuned, tmp_path):
    data = tuned("stsb")
    found = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), replicates=20), data)
    changes = [row["change"] for row in found.tables["disabled"]]
    rows = {row["row"]: row for row in found.tables["gains"]}
    assert rows["best head"]["change"] == max(changes)
    mean = rows["mean over all heads"]
    assert mean["change"] == pytest.approx(sum(changes) / 12)
    assert mean["low"] <= mean["change"] <= mean["high"]
    assert rows["heads that gain"]["disabled"] == f"{sum(change > 0 for change in changes)} of 12"
    best = found.tables["disabled"][0]
    assert rows["best head"]["p_holm"] == best["p_holm"]
    held_out = rows["best head, held out"]
    assert held_out["low"] <= held_out["change"] <= held_out["high"]
    assert set(held_out["disabled"].split(" and ")) <= {row["disabled"] for row in found.tables["disabled"]}


def test_a_stopped_sweep_redoes_no_batch(tuned, tmp_path, monkeypatch):
    data = tuned()
    whole = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), replicates=20), data)
    files = sorted((tmp_path / "sweep").glob("*.npz"))
    assert len(files) > 1
    files[0].unlink()
    calls = []
    compute = DisableSweep._compute
    monkeypatch.setattr(DisableSweep, "_compute", lambda self, batch: calls.append(1) or compute(self, batch))
    again = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), replicates=20), data)
    assert len(calls) == 1
    assert again == whole


def test_several_checkpoints_are_averaged(tuned, tmp_path):
    first, second = tuned(seed=0), tuned(seed=1)
    alone = [
        findings_of(DisableSweep(data.facts(), str(tmp_path / f"alone_{place}"), replicates=20), data)
        for place, data in enumerate((first, second))
    ]
    both = findings_of(
        DisableSweep(first.facts(), str(tmp_path / "both"), replicates=20, checkpoints=[str(second.encoder.folder)]), first
    )
    grids = [np.array(found.heads["change_without_head"].value) for found in (*alone, both)]
    np.testing.assert_allclose(grids[2], (grids[0] + grids[1]) / 2, atol=1e-9)
    assert both.tables["sweep"][0]["checkpoints"] == 2
    assert "deviation_over_checkpoints" in both.tables["disabled"][0]


def test_another_architecture_takes_the_generic_path_and_says_so(tuned, tmp_path):
    data = tuned(arch="distilbert", limit=4)
    found = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), replicates=20, importance=False), data)
    assert found.tables["sweep"][0]["path"] == "from its layer on"


def test_a_checkpoint_of_another_shape_is_refused(tuned, random_encoder, tmp_path, monkeypatch):
    data = tuned()
    from tests import conftest

    monkeypatch.setitem(conftest.TINY, "num_hidden_layers", 2)
    smaller = random_encoder("bert", name="smaller").spec
    load_classifier(smaller, TASKS["rte"], 0).save_pretrained(tmp_path / "two_layers")
    with pytest.raises(ConfigError, match="has 2 × 4 heads, expected 3 × 4"):
        DisableSweep(data.facts(), str(tmp_path / "sweep"), checkpoints=[str(tmp_path / "two_layers")])
    with pytest.raises(ConfigError, match="module.units=head"):
        DisableSweep(data.facts(), str(tmp_path / "sweep"), units="head")
    assert disable_sweep.UNITS.keys() == {"heads", "layers"}


def test_a_sweep_with_a_change_is_that_of_the_model_with_the_change_merged_in(with_change, tmp_path):
    plain, change, merged = with_change(BertForSequenceClassification)
    logits, identities = [], []
    for number, options in enumerate(({"name": plain, "change": change}, {"name": merged}, {"name": plain})):
        data = GlueDataModule(encoder=FrozenEncoder(**options), task="rte", maps=False, limit=4)
        sweep = DisableSweep(data.facts(), str(tmp_path / str(number)), replicates=20)
        findings_of(sweep, data)
        (file,) = (tmp_path / str(number)).glob("*.npz")
        logits.append(np.load(file)["outputs"])
        identities.append(sweep.identity)
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-5)
    assert np.abs(logits[0] - logits[2]).max() > 1e-3
    assert len(set(identities)) == 3
    assert FrozenEncoder(plain, change=change).checksum() in identities[0]


def test_further_checkpoints_are_read_without_the_change_of_the_first(with_change, tmp_path):
    plain, change, _ = with_change(BertForSequenceClassification)
    data = GlueDataModule(encoder=FrozenEncoder(plain, change=change), task="rte", maps=False, limit=2)
    sweep = DisableSweep(data.facts(), str(tmp_path / "sweep"), checkpoints=[plain, plain])
    weights = [model.bert.encoder.layer[0].attention.self.query.weight for model in sweep.models]
    assert len(weights) == 2
    assert not torch.equal(*weights)


def swept(units, changes, low, high, tmp_path, data):
    """A sweep that has found these changes."""
    sweep = DisableSweep(data.facts(), str(tmp_path / "sweep"), units=units, importance=False)
    given = {"scores": 70 + np.array(changes), "changes": np.array(changes), "low": np.array(low), "high": np.array(high)}
    sweep.found = {"baseline": 70.0, "deviation": None, "importance": None, "examples": 9, "mean": [0.5, 0.0, 1.0], **given}
    sweep.found |= {"p": [0.5] * len(changes), "held_out": None}
    return sweep.findings()


def test_only_heads_whose_interval_excludes_zero_are_best_or_worst(tuned, tmp_path):
    changes = [2.0, 0.0, -1.0, 0.5, -3.0, *[0.1] * 7]
    low = [0.5, 0.0, -2.0, -0.1, -4.0, *[0.0] * 7]
    high = [3.0, 0.0, 0.0, 0.9, -0.2, *[0.2] * 7]
    data = tuned()
    found = swept("heads", changes, low, high, tmp_path, data)
    assert [(row["disabled"], row["n"]) for row in found.tables["best_and_worst"]] == [("1-1", 9), ("2-1", 9)]
    assert len(found.tables["disabled"]) == 12
    assert found.tables["sweep"][0]["n"] == 9
    assert found.notes["best_and_worst"] == [
        "2 of 12 heads differ from the baseline beyond their 95 % interval (0.6 would by chance)"
    ]
    gains = {row["row"]: row for row in found.tables["gains"]}
    assert gains["heads that gain"]["disabled"] == "9 of 12"
    assert gains["heads that gain beyond their interval"]["disabled"] == "1 of 12"
    assert (gains["best head"]["disabled"], gains["best head"]["change"]) == ("1-1", 2.0)
    none = swept("heads", [1.0] * 12, [-1.0] * 12, [0.0] * 12, tmp_path, data)
    assert none.tables["best_and_worst"] == []
    assert none.notes["best_and_worst"] == ["no head differs from the baseline beyond its 95 % interval"]


@pytest.mark.parametrize(
    ("units", "task", "expected"),
    [("heads", "mrpc", {"best head": 1.2}), ("heads", "stsb", {"best head": 0.1}), ("heads", "rte", {"best head": None}),
     ("layers", "rte", {"layer 1": 3.2}), ("layers", "mrpc", {"layer 1": None})],
)  # fmt: skip
def test_what_is_published_of_gains_is_beside_a_row_that_is_there(units, task, expected, tuned, tmp_path):
    cfg = composed(f"experiment=kovaleva_disable_{units}", f"data.task={task}")
    assert OmegaConf.to_container(cfg.published.tables, resolve=True) == {"gains": expected}
    changes = [0.0] * (12 if units == "heads" else 3)
    found = swept(units, changes, changes, changes, tmp_path, tuned())
    assert set(expected) <= {row["row"] for row in found.tables["gains"]}
    assert next(iter(found.tables["gains"][0])) == "row"  # by which a published figure is found


def test_all_layers_are_told_and_how_many_differ(tuned, tmp_path):
    found = swept("layers", [1.0, -2.0, 0.0], [-1.0, -3.0, 0.0], [2.0, -1.0, 0.0], tmp_path, tuned())
    assert [row["disabled"] for row in found.tables["best_and_worst"]] == ["layer 2"]
    assert [row["change"] for row in found.tables["layers"]] == [1.0, -2.0, 0.0]
    assert found.notes["layers"] == [
        "1 of 3 layers differ from the baseline beyond their 95 % interval (0.2 would by chance)"
    ]
