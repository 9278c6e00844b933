"""The recipe of fine-tuning, part by part."""

import sys

import pytest
import pytorch_lightning as pl
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForSequenceClassification

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.glue import GlueDataModule
from headscope.data_modules.readers.glue import TASKS
from headscope.errors import ConfigError, InputError
from headscope.finetune.classifier_model import load_classifier
from headscope.finetune.glue_classifier import GlueClassifier, SaveModel, load_lamb


@pytest.fixture
def rte(random_encoder):
    """The sample of a task, with a tiny encoder."""
    return GlueDataModule(encoder=random_encoder("bert"), task="rte", maps=False, limit=24, batch_size=8)


def trainer(**options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    return pl.Trainer(accelerator="cpu", use_distributed_sampler=False, **quiet, **{"enable_checkpointing": False} | options)


def test_the_learning_rate_warms_up_over_a_tenth_and_falls_to_zero(rte):
    module = GlueClassifier(rte.facts(), lr=0.01)
    rates = []

    class Watch(pl.Callback):
        def on_train_batch_start(self, trainer, *_):
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    trainer(max_epochs=10, callbacks=[Watch()]).fit(module, datamodule=rte)
    steps, warm_up = 30, 3
    expected = [0.01 * (s / warm_up if s < warm_up else (steps - s) / (steps - warm_up)) for s in range(steps)]
    assert rates == pytest.approx(expected)


def test_warm_up_can_be_a_number_of_steps(rte):
    module = GlueClassifier(rte.facts(), lr=0.01, warmup=6)
    module.trainer = run = trainer(max_epochs=4)
    run.fit(module, datamodule=rte)
    rate = run.lr_scheduler_configs[0].scheduler.lr_lambdas[0]
    assert [rate(step) for step in (0, 3, 6, 12)] == [0, 0.5, 1, 0]


def test_lamb_scales_an_update_by_the_norm_of_its_weights():
    """One step of the paper's algorithm by hand: Adam's direction and decay, times the trust ratio."""
    pytest.importorskip("pytorch_optimizer")
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = load_lamb()([{"params": [weight], "weight_decay": 0.1}], 0.01)
    weight.grad = torch.tensor([0.5, -1.0])
    optimizer.step()
    first, second = 0.1 * torch.tensor([0.5, -1.0]), 0.001 * torch.tensor([0.25, 1.0])
    update = first / (second.sqrt() + 1e-6) + 0.1 * torch.tensor([3.0, 4.0])
    expected = torch.tensor([3.0, 4.0]) - 0.01 * (5 / update.norm()) * update
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-5, atol=1e-6)


def test_lamb_without_its_package_is_a_sentence(rte, monkeypatch):
    monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
    with pytest.raises(ConfigError, match="^module.optimizer=lamb: needs the package pytorch-optimizer"):
        GlueClassifier(rte.facts(), optimizer="lamb")
    with pytest.raises(ConfigError, match="^module.optimizer=sgd: expected adamw or lamb.$"):
        GlueClassifier(rte.facts(), optimizer="sgd")


def test_weights_decay_but_biases_and_layer_norms_do_not(rte):
    module = GlueClassifier(rte.facts(), weight_decay=0.25)
    module.trainer = trainer(max_epochs=1)
    module.trainer.fit(module, datamodule=rte)
    decayed, others = module.trainer.optimizers[0].param_groups
    names = {id(parameter): name for name, parameter in module.model.named_parameters()}
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.25, 0)
    assert all(name.endswith("weight") and "LayerNorm" not in name for name in map(names.get, map(id, decayed["params"])))
    assert all(name.endswith("bias") or "LayerNorm" in name for name in map(names.get, map(id, others["params"])))
    assert len(decayed["params"]) + len(others["params"]) == len(names)


def test_dropout_is_on_while_training_and_off_in_evaluation(rte):
    module = GlueClassifier(rte.facts())
    seen = {}

    class Watch(pl.Callback):
        def on_train_batch_start(self, trainer, module, *_):
            seen["train"] = all(part.training for part in module.model.modules())

        def on_validation_batch_start(self, trainer, module, *_):
            seen["val"] = any(part.training for part in module.model.modules())

    trainer(max_epochs=1, callbacks=[Watch()]).fit(module, datamodule=rte)
    assert seen == {"train": True, "val": False}
    assert module.model.config.hidden_dropout_prob == 0.1


@pytest.mark.parametrize("arch", ["bert", "distilbert", "albert", "electra", "roberta", "modernbert", "gpt2", "deberta-v2"])
@pytest.mark.parametrize("init", ["pretrained", "normal"])
def test_dropout_can_be_set_in_every_architecture(random_encoder, arch, init):
    """Without dropout, a model in training mode says what it says in evaluation; with half of all dropped, it does not."""
    spec = EncoderSpec(random_encoder(arch).name, init=init)
    inputs = {
        "input_ids": torch.tensor([[101, 2023, 2003, 1037, 102]]),
        "attention_mask": torch.ones(1, 5, dtype=torch.long),
    }
    for dropout, same in ((0, True), (0.5, False)):
        model = load_classifier(spec, TASKS["rte"], seed=0, dropout=dropout)
        model.config.pad_token_id = 0
        with torch.no_grad():
            expected, found = model.eval()(**inputs).logits, model.train()(**inputs).logits
        assert torch.equal(found, expected) == same
        assert {part.p for part in model.modules() if isinstance(part, torch.nn.Dropout)} <= {dropout}


def test_a_dropout_that_leaves_nothing_is_refused(rte):
    with pytest.raises(ConfigError, match=r"module.dropout=1: expected a number from 0 to less than 1"):
        GlueClassifier(rte.facts(), dropout=1)


@pytest.mark.parametrize("task", ["rte", "stsb"])
def test_a_model_learns_the_sample_by_heart(random_encoder, task):
    data = GlueDataModule(encoder=random_encoder("bert"), task=task, maps=False, limit=16, batch_size=8)
    data.read_examples()["val"] = data.read_examples()["test"] = data.read_examples()["train"]
    module = GlueClassifier(data.facts(), lr=2e-3)
    run = trainer(max_epochs=40)
    run.fit(module, datamodule=data)
    (scores,) = run.test(module, datamodule=data, verbose=False)
    assert scores["test/main"] > 95
    assert len(module.findings().files["predictions.csv"]) == 16


def test_a_normal_start_keeps_no_weight_and_a_pretrained_one_keeps_the_encoder(random_encoder):
    encoder = random_encoder("bert").load()
    kept = load_classifier(encoder.spec, TASKS["rte"], seed=0)
    drawn = load_classifier(EncoderSpec(encoder.name, init="normal"), TASKS["rte"], seed=0)
    source = dict(encoder.model.named_parameters())
    for name, parameter in kept.bert.named_parameters():
        torch.testing.assert_close(parameter, source[name])
    for name, parameter in drawn.bert.named_parameters():
        if name.endswith("weight") and "LayerNorm" not in name and parameter.numel() > 1000:
            assert float(parameter.std()) == pytest.approx(0.02, rel=0.1)
            assert not torch.allclose(parameter, source[name])
    again = load_classifier(encoder.spec, TASKS["rte"], seed=0)
    other = load_classifier(encoder.spec, TASKS["rte"], seed=1)
    assert torch.equal(again.classifier.weight, kept.classifier.weight)
    assert not torch.equal(other.classifier.weight, kept.classifier.weight)


def test_heads_stay_disabled_in_training_and_evaluation(rte):
    whole, without = (GlueClassifier(rte.facts(), disable=disable) for disable in ([], [[1, 1], [2, 3]]))
    scores = []
    for module in (whole, without):
        run = trainer(max_epochs=1)
        run.fit(module, datamodule=rte)
        scores.append(run.callback_metrics["train/loss"])
    assert scores[0] != scores[1]
    with pytest.raises(ConfigError, match=r"head \[9, 1\]"):
        GlueClassifier(rte.facts(), disable=[[9, 1]])


def test_the_saved_folder_is_a_plain_model_with_the_same_outputs(rte, tmp_path):
    module = GlueClassifier(rte.facts())
    run = trainer(max_epochs=1, callbacks=[SaveModel(str(tmp_path / "model"))])
    run.test(module, datamodule=rte, verbose=False)
    assert not (tmp_path / "model").exists()  # nothing was trained yet
    run.fit(module, datamodule=rte)
    run.test(module, datamodule=rte, verbose=False)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    inputs = AutoTokenizer.from_pretrained(tmp_path / "model")(
        "A bridge was built.", "There is a bridge.", return_tensors="pt"
    )
    with torch.no_grad():
        torch.testing.assert_close(model(**inputs).logits, module.model.eval()(**inputs).logits)
    assert model.config.id2label == {0: "entailment", 1: "not_entailment"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_model_without_a_trained_head_or_of_another_task_is_refused(random_encoder, tmp_path):
    spec = random_encoder("bert").spec
    with pytest.raises(InputError, match="no trained classification head"):
        load_classifier(spec, TASKS["rte"], 0, trained=True)
    load_classifier(spec, TASKS["mnli"], 0).save_pretrained(tmp_path / "three")
    with pytest.raises(InputError, match="no classifier with 2 outputs"):
        load_classifier(spec.at(str(tmp_path / "three")), TASKS["rte"], 0)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"init": "embeddings"}, ConfigError, "^encoder.init=embeddings: expected pretrained or normal.$"),
        (
            {"dtype": "bfloat16"},
            ConfigError,
            "^encoder.dtype=bfloat16: a classifier is float32; trainer.precision=",
        ),
        ({"sha256": "0" * 64}, InputError, "model.safetensors: the weights' sha256 is .* expected 0000"),
        ({"revision": "v1"}, ConfigError, "^encoder.revision=v1: only models of the hub have revisions"),
        ({"change": "/none.safetensors"}, InputError, "^encoder.change=/none.safetensors: no such file"),
    ],
)
def test_what_a_classifier_cannot_honour_is_refused(random_encoder, options, error, sentence):
    with pytest.raises(error, match=sentence):
        load_classifier(EncoderSpec(random_encoder("bert").name, **options), TASKS["rte"], 0)


def test_a_classifier_with_a_change_is_the_model_with_the_change_merged_in(with_change, inputs):
    """Loaded by itself, and through the facts of the data as a run does it."""
    plain, change, merged = with_change(BertForSequenceClassification)
    specs = [EncoderSpec(plain, change=change), EncoderSpec(merged), EncoderSpec(plain)]
    with torch.no_grad():
        alone = [load_classifier(spec, TASKS["rte"], 0, trained=True).eval()(**inputs).logits for spec in specs]
        data = [GlueDataModule(encoder=FrozenEncoder(spec.name, change=spec.change), task="rte", limit=2) for spec in specs]
        in_runs = [GlueClassifier(one.facts()).eval().model(**inputs).logits for one in data]
    for found, expected, unchanged in (alone, in_runs):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
        assert (found - unchanged).abs().max() > 1e-3
