"""A pass that begins at a layer against a whole one, in families inside and outside the attention interface."""

import pytest
import torch

from headscope.data_modules.encoders.families import small_model
from headscope.data_modules.encoders.head_outputs import streams
from headscope.finetune.ablation import path_of, without_each_head, without_each_layer
from headscope.finetune.head_mask import disabled
from headscope.finetune.replay import layer_outputs, layers_in_order, replayed

STACKS = (
    "llama",
    "gemma2",
    "gpt_oss",
    "gpt2",
    "bloom",
    "qwen3_moe",
    "mpnet",
    "deberta-v2",
    "distilbert",
    "modernbert",
    "t5",
    "bart",
)


@pytest.fixture
def batch():
    ids = torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(9) < torch.tensor([9, 6, 4])[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


@pytest.mark.parametrize("arch", STACKS)
@torch.no_grad()
def test_a_pass_from_a_layer_on_equals_a_whole_pass(arch, batch):
    model, real = small_model(arch), batch["attention_mask"].bool()
    layers = layers_in_order(model)
    assert layers and len(layers) == 2
    before, given = model(**batch)[0][real], layer_outputs(model, layers, batch)
    inside = []
    hooks = [
        part.register_forward_hook(lambda *_: inside.append(1)) for part in layers[0].modules() if part is not layers[0]
    ]
    with disabled(model, [(2, 3)], "zero"):
        whole = model(**batch)[0][real]
    assert inside
    inside.clear()
    for _ in range(2):  # nothing of the first pass is left in what the second is given
        with disabled(model, [(2, 3)], "zero", replayed=1), replayed(layers[:1], given[:1]):
            torch.testing.assert_close(model(**batch)[0][real], whole, atol=1e-5, rtol=0)
    assert not inside
    for hook in hooks:
        hook.remove()
    assert (whole - before).abs().max() > 1e-3
    torch.testing.assert_close(model(**batch)[0][real], before, atol=0, rtol=0)


def test_layers_that_are_shared_are_not_replayed():
    model = small_model("albert")
    assert layers_in_order(model) is None
    assert path_of(model) == "one full pass each"


@torch.no_grad()
def test_a_sweep_runs_each_layer_as_often_as_heads_at_or_below_it_ask(tiny_classifier, inputs):
    model = tiny_classifier("distilbert")
    layers, ran = layers_in_order(model), []
    assert streams(model)  # which is seen once, by passes that are not to be counted
    for number, layer in enumerate(layers):
        layer.attention.register_forward_hook(lambda *_, number=number: ran.append(number))
    without_each_head(model, inputs, "uniform")
    assert [ran.count(number) for number in range(3)] == [1 + 4, 1 + 8, 1 + 12]
    ran.clear()
    without_each_layer(model, inputs, "uniform")
    assert [ran.count(number) for number in range(3)] == [1 + 1, 1 + 2, 1 + 3]
    assert path_of(model) == "from its layer on"
