"""Disabled heads against a plain reimplementation of attention."""

import math

import pytest
import pytorch_lightning as pl
import torch

from headscope.data_modules.encoders.attention import weights_go_to
from headscope.errors import ConfigError
from headscope.finetune.head_mask import DisableHeads, disabled, heads_of_layers

ARCHITECTURES = ("bert", "roberta", "distilbert", "electra", "albert", "xlm-roberta")


def plain_rows(weights, how, length):
    """What one head of one input attends to when disabled, cell by cell."""
    size = len(weights)
    if how == "zero":
        return [[0.0] * size for _ in range(size)]
    if how == "uniform":
        return [[1 / length if key < length else 0.0 for key in range(size)] for _ in range(size)]
    mean = [sum(weights[query][key] for query in range(length)) / length for key in range(size)]
    return [mean for _ in range(size)]


def plain_bert(model, inputs, heads, how):
    """BERT's classifier, written out head by head and input by input."""
    bert, config = model.bert, model.config
    size = config.hidden_size // config.num_attention_heads
    all_logits = []
    for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True):
        length = int(mask.sum())
        hidden = bert.embeddings(input_ids=ids[None])[0]
        for number, layer in enumerate(bert.encoder.layer, start=1):
            parts = {name: getattr(layer.attention.self, name)(hidden) for name in ("query", "key", "value")}
            contexts = []
            for head in range(config.num_attention_heads):
                query, key, value = (part[:, head * size : (head + 1) * size] for part in parts.values())
                scores = query @ key.T / math.sqrt(size)
                scores[:, length:] = -torch.inf
                weights = scores.softmax(-1)
                if (number, head + 1) in heads:
                    weights = torch.tensor(plain_rows(weights.tolist(), how, length), dtype=weights.dtype)
                contexts.append(weights @ value)
            output = layer.attention.output
            attended = output.LayerNorm(output.dense(torch.cat(contexts, 1)) + hidden)
            hidden = layer.output.LayerNorm(layer.output.dense(layer.intermediate(attended)) + attended)
        all_logits.append(model.classifier(bert.pooler(hidden[None])[0]))
    return torch.stack(all_logits)


@pytest.mark.parametrize("how", ["uniform", "zero", "mean"])
@pytest.mark.parametrize("heads", [[(1, 2)], [(3, 4)], [(1, 1), (2, 3), (2, 4)], [(2, head) for head in range(1, 5)]])
@torch.no_grad()
def test_disabled_heads_equal_a_plain_reimplementation(tiny_classifier, inputs, heads, how):
    model = tiny_classifier("bert")
    with disabled(model, heads, how):
        found = model(**inputs).logits
    torch.testing.assert_close(found, plain_bert(model, inputs, heads, how), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model(**inputs).logits, plain_bert(model, inputs, [], how), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@torch.no_grad()
def test_every_architecture_gets_uniform_rows_over_its_real_tokens(tiny_classifier, inputs, arch):
    model, seen = tiny_classifier(arch), []
    with disabled(model, [(2, 3)], "uniform"), weights_go_to(seen.append):
        model(**inputs)
    assert len(seen) == 3
    for place, length in enumerate((6, 4, 3)):
        expected = torch.zeros(6)
        expected[:length] = 1 / length
        torch.testing.assert_close(seen[1][place, 2], expected.expand(6, 6))
        assert not torch.allclose(seen[1][place, 1, 0], expected)
        assert not torch.allclose(seen[0][place, 2, 0], expected)


@torch.no_grad()
def test_the_encoder_alone_has_its_heads_disabled_too(tiny_classifier, inputs):
    model, seen = tiny_classifier("bert"), []
    with disabled(model, [(2, 3)]), weights_go_to(seen.append):
        model.bert(**inputs)
    torch.testing.assert_close(seen[1][0, 2], torch.full((6, 6), 1 / 6))


@torch.no_grad()
def test_a_batch_of_one_equals_its_place_in_a_padded_batch(tiny_classifier, inputs):
    model = tiny_classifier("bert")
    with disabled(model, [(1, 1), (3, 2)]):
        together = model(**inputs).logits[1]
        alone = model(**{name: tensor[1:2, :4] for name, tensor in inputs.items()}).logits[0]
    torch.testing.assert_close(alone, together, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_nested_scopes_add_up_and_come_off_one_by_one(tiny_classifier, inputs):
    model = tiny_classifier("bert")

    def with_heads(*heads):
        with disabled(model, heads):
            return model(**inputs).logits

    whole = model(**inputs).logits
    with disabled(model, [(1, 1)]):
        with disabled(model, [(2, 2)]):
            torch.testing.assert_close(model(**inputs).logits, plain_bert(model, inputs, [(1, 1), (2, 2)], "uniform"))
        torch.testing.assert_close(model(**inputs).logits, plain_bert(model, inputs, [(1, 1)], "uniform"))
    torch.testing.assert_close(model(**inputs).logits, whole)
    assert not torch.allclose(with_heads((1, 1)), whole, atol=1e-6)


@torch.no_grad()
def test_it_comes_off_after_an_exception_and_touches_no_other_model(tiny_classifier, inputs):
    model, other = tiny_classifier("bert"), tiny_classifier("bert", num_hidden_layers=2)
    before, whole, others = model.config._attn_implementation, model(**inputs).logits, other(**inputs).logits
    with pytest.raises(RuntimeError, match="on purpose"), disabled(model, [(1, 1)]):
        raise RuntimeError("on purpose")
    with disabled(model, [(1, 1)]):
        torch.testing.assert_close(other(**inputs).logits, others)
        with pytest.raises(ValueError, match="input_ids"):
            model()
        torch.testing.assert_close(other(**inputs).logits, others)
    assert model.config._attn_implementation == before
    assert not model.bert._forward_hooks and not model.bert._forward_pre_hooks
    torch.testing.assert_close(model(**inputs).logits, whole)


@pytest.mark.parametrize("head", [(0, 1), (4, 1), (1, 0), (1, 5), (1,)])
def test_a_head_that_is_not_there_is_refused(tiny_classifier, head):
    with pytest.raises(ConfigError, match=r"expected \[layer, head\] from \[1, 1\] to \[3, 4\]"):
        disabled(tiny_classifier("bert"), [head]).__enter__()


def test_layers_and_ways_are_checked(tiny_classifier):
    assert heads_of_layers([2], 3, 2) == [(2, 1), (2, 2)]
    with pytest.raises(ConfigError, match="layer 4: expected 1 to 3"):
        heads_of_layers([4], 3, 2)
    with pytest.raises(ConfigError, match="how=half: expected uniform, zero, mean or resample"):
        disabled(tiny_classifier("bert"), [(1, 1)], "half").__enter__()


@torch.no_grad()
def test_the_callback_keeps_heads_disabled_until_teardown(tiny_classifier, inputs):
    module, trainer = pl.LightningModule(), pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    module.model = tiny_classifier("bert")
    callback = DisableHeads([[1, 1]])
    whole = module.model(**inputs).logits
    callback.setup(trainer, module, "test")
    torch.testing.assert_close(module.model(**inputs).logits, plain_bert(module.model, inputs, [(1, 1)], "uniform"))
    callback.teardown(trainer, module, "test")
    torch.testing.assert_close(module.model(**inputs).logits, whole)
    callback.setup(trainer, module, "test")
    callback.on_exception(trainer, module, RuntimeError())
    torch.testing.assert_close(module.model(**inputs).logits, whole)
