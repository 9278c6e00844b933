"""Gradient maps against finite differences: each cell of attention is moved a little, and the loss looked at."""

import shutil

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.encoders.attention import weights_go_to
from headscope.data_modules.encoders.gradient import GradientEncoder
from headscope.data_modules.segments import SegmentDataModule
from headscope.errors import ConfigError, InputError
from tests.conftest import MINILM, TINY

IDS = torch.tensor([[101, 2023, 103, 1037, 103, 102], [101, 103, 2204, 102, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
LABELS = torch.full_like(IDS, IGNORE)
LABELS[0, 2], LABELS[0, 4], LABELS[1, 1] = 2003, 3231, 2307
STEP = 1e-5


@pytest.fixture
def saved(tmp_path, minilm):
    """Saves a tiny random model with a head, and MiniLM's tokenizer beside it."""

    def save(kind, **options):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            kind(BertConfig(**TINY | options)).save_pretrained(tmp_path)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(minilm.folder / file, tmp_path)
        return str(tmp_path)

    return save


def gradient_maps(encoder, **inputs):
    maps = []
    encoder(IDS, MASK, maps.append, **inputs)
    return torch.stack(maps, 1)


def moved_loss(encoder, loss, layer, cell, step):
    """The loss of one input when one cell of one layer's attention is larger by a step."""
    seen = 0

    def move(weights):
        nonlocal seen
        if seen == layer:
            weights[cell] += step
        seen += 1

    with torch.no_grad(), weights_go_to(move):
        return loss(encoder.model(input_ids=IDS, attention_mask=MASK).logits)[cell[0]]


def masked_losses(logits):
    """The mean negative log-likelihood of each input's masked tokens, token by token."""
    logs = logits.log_softmax(-1)
    return [
        -torch.stack([logs[n, t, LABELS[n, t]] for t in range(IDS.shape[1]) if LABELS[n, t] != IGNORE]).mean()
        for n in (0, 1)
    ]


def own_class_losses(logits):
    return [-row.log_softmax(-1).max() for row in logits]


@pytest.mark.parametrize(
    ("kind", "objective", "inputs", "loss"),
    [
        (BertForMaskedLM, "masked_lm", {"labels": LABELS}, masked_losses),
        (BertForSequenceClassification, "classification", {}, own_class_losses),
    ],
)
def test_every_gradient_equals_a_finite_difference(saved, kind, objective, inputs, loss):
    encoder = GradientEncoder(objective=objective, name=saved(kind)).load()
    encoder.model.double()
    # Attention is computed in float32 whatever the model's precision; here it has to be exact.
    maps = gradient_maps(exact(encoder), **inputs)
    draw = torch.Generator().manual_seed(0)
    for _ in range(60):
        layer, head, query, key = (int(torch.randint(n, (1,), generator=draw)) for n in (3, 4, 6, 6))
        for n, length in enumerate((6, 4)):
            if query >= length:
                continue
            cell = (n, head, query, key)
            up, down = (moved_loss(encoder, loss, layer, cell, step) for step in (STEP, -STEP))
            expected = abs(float(up - down)) / (2 * STEP)
            assert float(maps[n, layer, head, query, key]) == pytest.approx(expected, rel=1e-4, abs=1e-8)
    assert float(maps.abs().max()) > 1e-3


def exact(encoder):
    """The encoder with its attention in float64."""
    from headscope.data_modules.encoders import attention

    def softmax_in_double(module, query, key, value, mask, scaling=None, **_):
        weights = ((query * scaling) @ key.transpose(-1, -2) + mask).softmax(-1)
        if sink := attention._sink.get():
            sink(weights)
        return (weights @ value).transpose(1, 2).contiguous(), None

    attention.AttentionInterface.register("exact", softmax_in_double)
    attention.AttentionMaskInterface.register("exact", attention.eager_mask)
    encoder.model.set_attn_implementation("exact")
    return encoder


def test_an_input_s_gradients_do_not_depend_on_its_batch(saved):
    encoder = GradientEncoder(name=saved(BertForMaskedLM))
    together = gradient_maps(encoder, labels=LABELS)
    alone = []
    encoder(IDS[1:, :4], MASK[1:, :4], alone.append, labels=LABELS[1:, :4])
    torch.testing.assert_close(torch.stack(alone, 1)[0], together[1, :, :, :4, :4], atol=1e-7, rtol=1e-4)


def test_gradients_reach_the_batch_also_in_inference_mode(saved, ready):
    data = ready(SegmentDataModule(encoder=GradientEncoder(name=saved(BertForMaskedLM)), limit=3, mask_share=0.2))
    with torch.inference_mode():
        (batch,) = (data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader())
    assert batch.maps.shape == (3, 3, 4, 128, 128)
    assert (batch.maps >= 0).all()
    assert batch.maps.flatten(1).sum(1).min() > 0


def test_an_encoder_without_a_head_is_told_the_way_out(saved):
    with pytest.raises(InputError, match="no masked-language-model head; name an encoder that has one"):
        GradientEncoder(name=MINILM).load()
    with pytest.raises(InputError, match="no trained classification head of two or more classes; name"):
        GradientEncoder(name=MINILM, objective="classification").load()
    with pytest.raises(ConfigError, match="encoder.objective=next"):
        GradientEncoder(name=MINILM, objective="next")
    with pytest.raises(ConfigError, match="only pretrained"):
        GradientEncoder(name=MINILM, init="normal")


@pytest.mark.parametrize(
    ("kind", "objective", "inputs"),
    [
        (BertForMaskedLM, "masked_lm", {"labels": LABELS}),
        (BertForSequenceClassification, "classification", {}),
    ],
)
def test_gradients_with_a_change_are_those_of_the_model_with_the_change_merged_in(with_change, kind, objective, inputs):
    plain, change, merged = with_change(kind)
    options = [{"name": plain, "change": change}, {"name": merged}, {"name": plain}]
    found, expected, unchanged = (gradient_maps(GradientEncoder(objective=objective, **one), **inputs) for one in options)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert (found - unchanged).abs().max() > 1e-3


def test_weights_that_are_not_the_expected_ones_are_refused(saved):
    with pytest.raises(InputError, match="the weights' sha256 is .* expected 0000"):
        GradientEncoder(name=saved(BertForMaskedLM), sha256="0" * 64).load()
