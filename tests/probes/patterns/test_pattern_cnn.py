"""The network: its layers, its independence of padding and batch, its training on synthetic maps, its file."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from headscope.contracts import Facts, PatternFacts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.labelled_maps import MapExample, PatternDataModule, collate_maps
from headscope.data_modules.patterns.labels import CLASSES, Label, MapName, write_labels
from headscope.data_modules.patterns.synthetic import synthetic_maps
from headscope.errors import ConfigError, InputError
from headscope.files import local_path
from headscope.probes.patterns.cnn import PatternCNN, class_weights, load_pattern_cnn, soft_cross_entropy
from headscope.probes.patterns.files import PACKAGED, save_pattern_cnn
from headscope.probes.patterns.net import PatternNet, Standard
from headscope.probes.patterns.rules import PatternRules

TESTED = tuple({"example": index} for index in range(40))
FACTS = Facts("patterns", patterns=PatternFacts(CLASSES, (30, 10, 20, 5, 35), "abc", (), TESTED))
SMALL = (4, 4, 8, 8, 8, 8, 8, 8)
QUIET = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}


def synthetic(count=10, seed=0):
    items = [MapExample(one.weights, one.token_class, CLASSES.index(one.label)) for one in synthetic_maps(count, seed)]
    batch = collate_maps(list(enumerate(items)))
    gold = {name: batch[name] for name in ("token_class", "label", "votes")}
    return AttentionBatch(batch["mask"], gold, batch["index"], maps=batch["maps"][:, None, None])


def trained_norms(net):
    """A network whose normalisations have seen something."""
    torch.manual_seed(0)
    for norm in net.norms:
        norm.running_mean.normal_(0, 0.2)
        norm.running_var.uniform_(0.5, 2)
        nn.init.normal_(norm.weight, 1, 0.2)
    net.temperature.fill_(1.7)
    return net.eval()


@pytest.mark.parametrize("axes", [True, False])
def test_eight_convolutions_each_followed_by_a_relu(axes):
    net = PatternNet(axes=axes)
    convolutions = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    assert len(convolutions) == 8
    seen = []
    for norm in net.norms:
        norm.register_forward_hook(lambda module, given, out: seen.append(out))
    batch = synthetic(2)
    with torch.no_grad():
        net.eval()(batch.maps.flatten(1, 2), batch.mask, batch.gold["token_class"])
    assert len(seen) == 8
    # What the next layer gets is never below zero, though normalised values are; ReLU is in place after the first.
    assert (seen[0] < 0).any()
    assert all((values >= 0).all() for values in seen[1:])


@pytest.mark.parametrize("axes", [True, False])
def test_a_map_is_classified_alike_alone_and_among_longer_ones(axes):
    net, batch = trained_norms(PatternNet(channels=SMALL, axes=axes)), synthetic()
    together = net(batch.maps.flatten(1, 2), batch.mask, batch.gold["token_class"])
    for place, length in enumerate(batch.mask.sum(1).tolist()):
        maps = batch.maps[place, 0, :, :length, :length][None]
        alone = net(maps, batch.mask[place : place + 1, :length], batch.gold["token_class"][place : place + 1, :length])
        torch.testing.assert_close(alone[0], together[place], atol=1e-4, rtol=1e-4)


def test_all_maps_of_an_input_at_once_are_as_one_at_a_time():
    net, batch = trained_norms(PatternNet(channels=SMALL)), synthetic(1)
    length = batch.maps.shape[-1]
    maps = torch.rand(1, 5, length, length).softmax(-1)
    together = net(maps, batch.mask, batch.gold["token_class"])
    for head in range(5):
        alone = net(maps[:, head : head + 1], batch.mask, batch.gold["token_class"])
        torch.testing.assert_close(alone[0, 0], together[0, head], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("length", [0, 9])
def test_a_process_without_inputs_says_nothing(length):
    nothing = torch.zeros(0, length, dtype=torch.bool)
    for net in (PatternNet(channels=SMALL).eval(), PatternNet(channels=SMALL, axes=False).eval()):
        assert net(torch.zeros(0, 4, length, length), nothing, nothing.int()).shape == (0, 4, 5)
        assert net.probabilities(torch.zeros(0, 4, length, length), nothing, nothing.int()).shape == (0, 4, 5)


def test_without_axes_special_tokens_make_no_difference():
    batch = synthetic(4)
    for axes in (True, False):
        net = trained_norms(PatternNet(channels=SMALL, axes=axes))
        maps, real = batch.maps.flatten(1, 2), batch.mask
        one = net(maps, real, batch.gold["token_class"])
        other = net(maps, real, torch.zeros_like(batch.gold["token_class"]))
        assert torch.equal(one, other) != axes


def test_a_saved_network_gives_the_same_probabilities(tmp_path):
    net, batch, file = trained_norms(PatternNet(channels=SMALL)), synthetic(), tmp_path / "model" / "net.safetensors"
    save_pattern_cnn(net, file, {"labels_sha256": "abc", "cross_validated_f1": 0.5})
    loaded = load_pattern_cnn(file)
    given = batch.maps.flatten(1, 2), batch.mask, batch.gold["token_class"]
    torch.testing.assert_close(loaded.probabilities(*given), net.probabilities(*given), atol=1e-5, rtol=0)
    expected = (net(*given) / 1.7).softmax(-1)
    torch.testing.assert_close(net.probabilities(*given), expected)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())
    with safe_open(file, "pt") as opened:
        about = {name: json.loads(value) for name, value in opened.metadata().items()}
    assert about["classes"] == list(CLASSES)
    assert (about["labels_sha256"], about["cross_validated_f1"], about["size"]) == ("abc", 0.5, 32)


def test_files_that_hold_no_network(tmp_path):
    (tmp_path / "text.safetensors").write_text("nothing")
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    for name in ("text", "other"):
        with pytest.raises(InputError, match=f"{name}.safetensors: expected a network of experiment=pattern_cnn, found"):
            load_pattern_cnn(tmp_path / f"{name}.safetensors")
    for version in ("", " 2", " 3"):
        about = {"format": f'"headscope pattern network{version}"'}
        save_file({"a": torch.zeros(2)}, tmp_path / "old.safetensors", about)
        with pytest.raises(InputError, match="is a network of an earlier version; experiment=pattern_cnn trains a new one."):
            load_pattern_cnn(tmp_path / "old.safetensors")
    with pytest.raises(InputError, match="no such file; experiment=pattern_cnn trains a network"):
        load_pattern_cnn(tmp_path / "none.safetensors")


def test_rare_classes_weigh_more_and_maps_weigh_one_on_average():
    counts = [30, 10, 20, 0, 40]
    weights = class_weights(counts, 0.5)
    assert float(weights[1] / weights[4]) == pytest.approx(2)
    assert float((weights * torch.tensor(counts)).sum()) == pytest.approx(100)
    assert class_weights(counts, 0.0).tolist() == pytest.approx([1] * 5)


def test_the_loss_is_the_weighted_mean_of_a_plain_loop():
    module, batch = (
        PatternCNN(FACTS, channels=SMALL, balance=0.5, smoothing=0.0, relabel=0.0, augmentation=dict.fromkeys(CHANGES, 0.0)),
        synthetic(),
    )
    module.eval()
    with torch.no_grad():
        opinions = module.net.opinions(batch.flat_maps(), batch.mask, batch.gold["token_class"]).log_softmax(-1)[:, :, 0]
        loss = float(module.loss(batch))
    weights, labels = module.class_weights.numpy(), batch.gold["label"].flatten().tolist()
    assert len(opinions) == 2
    expected = 0.0
    for logs in opinions.numpy():
        expected -= sum(weights[label] * logs[place, label] for place, label in enumerate(labels)) / weights[labels].sum()
    assert loss == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_the_convolutions_weigh_their_share_and_measures_the_rest(share, tmp_path):
    batch = synthetic(3)
    given = batch.flat_maps(), batch.mask, batch.gold["token_class"]
    net = trained_norms(PatternNet(channels=SMALL, share=share))
    measured, convolved = net.opinions(*given)
    assert not torch.allclose(measured, convolved)
    torch.testing.assert_close(net(*given), share * convolved + (1 - share) * measured)
    save_pattern_cnn(net, tmp_path / "net.safetensors", {})
    torch.testing.assert_close(load_pattern_cnn(tmp_path / "net.safetensors")(*given), net(*given), atol=1e-5, rtol=1e-5)
    alone = PatternNet(channels=()).eval()
    alone.measured.load_state_dict(net.measured.state_dict())
    torch.testing.assert_close(alone(*given), measured)
    torch.testing.assert_close(alone.without_norms()(*given), measured)
    with pytest.raises(ConfigError, match=r"^module.channels=\[\]: measures alone need module.axes=true.$"):
        PatternNet(channels=(), axes=False)


def test_measures_are_on_the_scale_of_all_that_were_learnt_from_whatever_the_batches():
    values = torch.rand(17, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 0.0])
    standard = Standard(3)
    torch.testing.assert_close(standard.eval()(values), values)  # nothing was learnt from yet
    standard.train()
    for some in values.split([1, 9, 7]):  # also a batch of one
        standard(some)
    numbers = values.double().numpy()
    expected = (numbers - numbers.mean(0)) / np.maximum(numbers.std(0), 1e-3)
    np.testing.assert_allclose(standard.eval()(values).numpy(), expected, atol=1e-4)


def test_soft_labels_share_the_loss_among_their_classes():
    random = torch.Generator().manual_seed(0)
    logits, votes = torch.randn(6, 5, generator=random), torch.rand(6, 5, generator=random).softmax(1)
    weights = torch.rand(5, generator=random)
    total = weight = 0.0
    for row, shares in zip(logits.tolist(), votes.tolist(), strict=True):
        logs = [value - math.log(sum(math.exp(other) for other in row)) for value in row]
        own = sum(share * float(weights[n]) for n, share in enumerate(shares))
        total -= own * sum((0.9 * share + 0.1 / 5) * log for share, log in zip(shares, logs, strict=True))
        weight += own
    assert float(soft_cross_entropy(logits, votes, weights, 0.1)) == pytest.approx(total / weight, rel=1e-5)


CHANGES = ("noise", "strength", "stretch", "drop")


def test_other_data_is_refused():
    with pytest.raises(
        ConfigError, match="^module: a classifier of patterns needs data=patterns, found data of kind glue.$"
    ):
        PatternCNN(replace(FACTS, kind="glue"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory, minilm):
    """A table of real maps, labelled by what a head mostly does; only its shape matters here."""
    folder = tmp_path_factory.mktemp("labels")
    names = [MapName("minilm", minilm.checksum(), "sst2", "val", n, 1 + n % 2, 1 + n % 12) for n in range(24)]
    write_labels(folder / "labels.csv", [Label(one, CLASSES[n % 5]) for n, one in enumerate(names)])
    return str(folder / "labels.csv")


def trained(module, data, epochs):
    pl.seed_everything(0, verbose=False)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=epochs, num_sanity_val_steps=0, use_distributed_sampler=False, **QUIET
    )
    trainer.fit(module, datamodule=data)
    metrics = dict(trainer.callback_metrics)
    trainer.test(module, datamodule=data, verbose=False)
    return metrics | trainer.callback_metrics


def test_training_on_synthetic_maps_tells_them_apart(labelled, minilm):
    """Validation is of other synthetic maps; what is tested is real, and its tables are all there."""
    data = PatternDataModule(labelled, {"minilm": minilm}, fold=0, real=False, synthetic=200)
    pl.seed_everything(0, verbose=False)
    module = PatternCNN(data.facts(), channels=SMALL, lr=0.01)
    metrics = trained(module, data, epochs=15)
    assert metrics["val/f1"] > 0.6
    assert float(module.net.temperature) != 1
    tables = module.findings().tables
    assert sum(row["maps"] for row in tables["classes"]) == len(data.read_folds().test) == len(tables["predictions"])
    assert tables["predictions"][0]["encoder"] == "minilm"
    assert {f"logit:{name}" for name in CLASSES} < tables["predictions"][0].keys()


def test_rules_learn_their_thresholds_from_what_is_learnt_from(labelled, minilm):
    data = PatternDataModule(labelled, {"minilm": minilm}, fold=0, validation=False, real=False, synthetic=60)
    module = PatternRules(data.facts())
    trainer = pl.Trainer(accelerator="cpu", **QUIET)
    trainer.test(module, datamodule=data, verbose=False)
    rows = {row["measure"]: row["threshold"] for row in module.findings().tables["thresholds"]}
    assert 0.1 < rows["special"] < 0.6
    batch = synthetic(100, seed=7)
    found = module.logits(batch).argmax(1)
    assert float((found == batch.gold["label"].flatten()).float().mean()) > 0.7
    assert np.isfinite(list(rows.values())).all()


def test_a_network_whose_weights_were_changed_is_refused(tmp_path):
    file = tmp_path / "net.safetensors"
    content = bytearray(local_path(PACKAGED).read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match=f"^{file}: its weights are not those that were written"):
        load_pattern_cnn(file)
