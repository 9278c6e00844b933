"""Disabling in models inside and outside the attention interface, against plain loops at the output projection."""

from functools import partial

import numpy as np
import pytest
import torch
from transformers import (
    AttentionInterface,
    DebertaV2ForSequenceClassification,
    GPTNeoConfig,
    GPTNeoModel,
    LlamaForSequenceClassification,
    MPNetForSequenceClassification,
)

from headscope.data_modules.encoders.attention import IMPLEMENTATION, streamed_attention
from headscope.data_modules.encoders.families import small_config, small_model
from headscope.data_modules.encoders.head_outputs import head_places, hooked_outputs_changed_by
from headscope.data_modules.encoders.self_check import check
from headscope.errors import InputError
from headscope.finetune.ablation import gated, head_importance
from headscope.finetune.head_mask import WAYS, disabled

LENGTHS = (9, 6, 4)
OUTPUT = {
    "llama": lambda model: [layer.self_attn.o_proj for layer in model.layers],
    "mpnet": lambda model: [layer.attention.attn.o for layer in model.encoder.layer],
    "deberta-v2": lambda model: [layer.attention.output.dense for layer in model.encoder.layer],
    "t5": lambda model: [block.layer[0].SelfAttention.o for block in model.block],
    "bloom": lambda model: [block.self_attention.dense for block in model.h],
}
VALUE = {
    "llama": lambda model: [layer.self_attn.v_proj for layer in model.layers],
    "mpnet": lambda model: [layer.attention.attn.v for layer in model.encoder.layer],
    "deberta-v2": lambda model: [layer.attention.self.value_proj for layer in model.encoder.layer],
}
CAUSAL = ("llama", "bloom")


@pytest.fixture
def batch():
    ids = torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(9) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def plain_output(brought, values, head, how, causal):
    """What the output projection gets with a head of four disabled, input by input and query by query."""
    size, groups = brought.shape[-1] // 4, 4 * values.shape[-1] // brought.shape[-1]
    here, there = slice(head * size, (head + 1) * size), head * groups // 4
    changed, on = brought.clone(), 1 + int(np.random.default_rng([0, 3]).integers(2))
    for place, length in enumerate(LENGTHS):
        for query in range(length):
            seen = range(query + 1 if causal else length)
            if how == "zero":
                changed[place, query, here] = 0
            elif how == "resample":
                other = (place + on) % 3
                changed[place, query, here] = brought[other, query % LENGTHS[other], here]
            else:
                rows = brought[..., here] if how == "mean" else values[..., there * size : (there + 1) * size]
                changed[place, query, here] = sum(rows[place, key] for key in seen) / len(seen)
    return changed


def by_brute_force(model, arch, inputs, layer, head, how):
    """The output with a head of a layer disabled by patching the output projection's input with the plain loop."""
    output, seen = OUTPUT[arch](model)[layer], {}
    hooks = [
        VALUE[arch](model)[layer].register_forward_hook(lambda _, __, out: seen.update(values=out)),
        output.register_forward_pre_hook(
            lambda _, given: (plain_output(given[0], seen["values"], head, how, arch in CAUSAL),)
        ),
    ]
    try:
        return model(**inputs)[0]
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("arch", ["llama", "mpnet", "deberta-v2"])
@torch.no_grad()
def test_a_disabled_head_equals_brute_force(arch, how, batch):
    model, real = small_model(arch), batch["attention_mask"].bool()
    whole = model(**batch)[0][real]
    for layer, head in ((0, 1), (1, 2)):
        expected = by_brute_force(model, arch, batch, layer, head, how)[real]
        with disabled(model, [(layer + 1, head + 1)], how):
            found = model(**batch)[0][real]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        assert (found - whole).abs().max() > 1e-3
    torch.testing.assert_close(model(**batch)[0][real], whole, atol=0, rtol=0)


@pytest.mark.parametrize("arch", ["mpnet", "deberta-v2", "t5", "bloom"])
@torch.no_grad()
def test_the_contributions_of_all_heads_sum_to_the_output_of_attention(arch, batch):
    model, brought, projected = small_model(arch), {}, {}

    def keep(layer):
        return lambda outputs, values, allowed: brought.setdefault(layer, outputs)

    outputs = OUTPUT[arch](model)
    hooks = [
        output.register_forward_hook(lambda _, __, out, layer=layer: projected.update({layer: out}))
        for layer, output in enumerate(outputs)
    ]
    with hooked_outputs_changed_by(model, {layer: keep(layer) for layer in range(2)}):
        model(**batch)
    for hook in hooks:
        hook.remove()
    for layer, output in enumerate(outputs):
        total = torch.zeros_like(projected[layer]) + (0 if output.bias is None else output.bias)
        for head in range(4):
            total += brought[layer][:, :, head] @ output.weight[:, 8 * head : 8 * head + 8].T
        torch.testing.assert_close(total, projected[layer], atol=1e-5, rtol=1e-5)
    assert head_places(model).causal == (arch in CAUSAL)


@torch.no_grad()
def test_the_contributions_of_all_heads_of_a_streamed_model_sum_to_the_output_of_attention(batch):
    """The output with each head alone kept, minus the output of none, adds up to the whole."""
    model, projected = small_model("llama"), []
    output = OUTPUT["llama"](model)[0]
    for kept in ({1, 2, 3, 4}, {1}, {2}, {3}, {4}):
        with disabled(model, [(1, head) for head in {1, 2, 3, 4} - kept], "zero"):
            hook = output.register_forward_hook(lambda _, __, out: projected.append(out))
            model(**batch)
            hook.remove()
    torch.testing.assert_close(sum(projected[1:]), projected[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scope", ["disabled", "gated"])
def test_attention_that_would_compute_something_else_is_not_replaced(scope, batch, monkeypatch):
    """Of a model that nobody checked when it was loaded, as no classifier is; its way of attending comes back."""
    without = partial(streamed_attention, softcap=None)
    monkeypatch.setitem(
        AttentionInterface._global_mapping, IMPLEMENTATION, lambda *given, softcap=None, **others: without(*given, **others)
    )
    model = small_model("gemma2").train()
    scopes = {"disabled": lambda: disabled(model, [(1, 1)], "zero"), "gated": lambda: gated(model, torch.ones(2, 3, 4))}
    with pytest.raises(InputError, match=r"^gemma2: its output changes by 0\.\d+ where .*, so no head can be disabled\.$"):
        scopes[scope]().__enter__()
    assert (model.training, model.config._attn_implementation) == (True, "eager")


@pytest.mark.parametrize("arch", ["granite_swa", "mobilebert"])
@torch.no_grad()
def test_heads_of_a_model_with_its_own_maps_are_disabled_where_its_output_is_right(arch, batch):
    """Zero against the head's part of the input of the output projection set to zero, whatever the model does after."""
    model, real = small_model(arch), batch["attention_mask"].bool()
    assert check(model, 2, 4).kind == "own maps"
    outputs = {
        "granite_swa": lambda: model.layers[1].self_attn.o_proj,
        "mobilebert": lambda: model.encoder.layer[1].attention.output.dense,
    }

    def cut(_, given):
        size = given[0].shape[-1] // 4
        return (
            torch.cat([given[0][..., : 2 * size], 0 * given[0][..., 2 * size : 3 * size], given[0][..., 3 * size :]], -1),
        )

    hook = outputs[arch]().register_forward_pre_hook(cut)
    expected = model(**batch)[0][real]
    hook.remove()
    with disabled(model, [(2, 3)], "zero"):
        found = model(**batch)[0][real]
    assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("arch", ["llama", "mpnet", "deberta-v2"])
def test_the_importance_of_each_head_equals_a_finite_difference(arch, batch):
    """In Llama two heads share keys and values, and each has its own part of what the output projection gets."""
    kinds = {"llama": LlamaForSequenceClassification, "mpnet": MPNetForSequenceClassification}
    base = small_model(arch)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = kinds.get(arch, DebertaV2ForSequenceClassification)(base.config).eval().double().requires_grad_(False)

    def losses(layer, head, gate):
        def turned(_, given):
            parts = given[0].unflatten(-1, (4, -1)).clone()
            parts[:, :, head] *= gate
            return (parts.flatten(2),)

        hook = OUTPUT[arch](model.base_model)[layer].register_forward_pre_hook(turned)
        found = model(**batch).logits.square().sum(1)
        hook.remove()
        return found

    importance = head_importance(model, batch, lambda logits: logits.square().sum(1))
    for layer in range(2):
        for head in range(4):
            expected = (losses(layer, head, 1.005) - losses(layer, head, 0.995)).abs() / 0.01
            torch.testing.assert_close(
                importance[:, layer, head].double(), expected, atol=1e-4 * float(importance.max()), rtol=1e-3
            )
    assert importance.min() > 0


@torch.no_grad()
def test_what_cannot_be_disabled_is_refused_by_name(batch):
    with pytest.raises(InputError, match="xlnet: the projections of layer 1 are not like those of other models"):
        disabled(small_model("xlnet"), [(1, 1)]).__enter__()
    with pytest.raises(InputError, match="gpt_neo: its queries look at a part of the tokens only, so how=uniform"):
        disabled(small_model("gpt_neo"), [(1, 1)]).__enter__()
    near = GPTNeoModel(small_config(GPTNeoConfig, attention_types=[[["global", "local"], 1]], window_size=9)).eval()
    longer = {name: torch.cat([tensor, tensor], 1) for name, tensor in batch.items()}
    for how in ("uniform", "zero"):
        with disabled(near, [(2, 1)], how):
            near(**batch)  # all within the window
    with (
        pytest.raises(InputError, match="gpt_neo: its queries look at a part .* so how=mean"),
        disabled(near, [(2, 1)], "mean"),
    ):
        near(**longer)
    with disabled(near, [(2, 1)], "resample"):
        near(**longer)
    twice = small_model("diffllama")
    with pytest.raises(InputError, match="diffllama: 4 attentions ran, expected 2"), disabled(twice, [(1, 1)]):
        twice(**batch)
    with pytest.raises(
        InputError, match=r"deepseek_v32: DeepseekV32Attention: gives its attention indices=.*, so no head can"
    ):
        disabled(small_model("deepseek_v32"), [(1, 1)]).__enter__()
    alone = {name: tensor[:1] for name, tensor in batch.items()}
    model = small_model("llama")
    with (
        pytest.raises(InputError, match="how=resample: takes what a head brings from another input"),
        disabled(model, [(1, 1)], "resample"),
    ):
        model(**alone)
