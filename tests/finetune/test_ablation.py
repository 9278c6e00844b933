"""The fast sweep against one full masked pass for each head and layer."""

import pytest
import torch

from headscope.data_modules.readers.glue import TASKS
from headscope.finetune.ablation import head_importance, is_fast, without_each_head, without_each_layer
from headscope.finetune.head_mask import WAYS, disabled
from headscope.finetune.sweep_scores import task_losses

FAST = ("bert", "roberta", "xlm-roberta", "electra")
GENERIC = ("distilbert", "albert")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("arch", FAST + GENERIC)
@torch.no_grad()
def test_every_head_and_layer_equals_a_full_pass(tiny_classifier, inputs, arch, how):
    model = tiny_classifier(arch)
    heads, layers = without_each_head(model, inputs, how), without_each_layer(model, inputs, how)
    assert heads.shape == (3, 4, 3, 2)
    for layer in range(1, 4):
        for head in range(1, 5):
            with disabled(model, [(layer, head)], how):
                torch.testing.assert_close(heads[layer - 1, head - 1], model(**inputs).logits, atol=1e-5, rtol=0)
        with disabled(model, [(layer, head) for head in range(1, 5)], how):
            torch.testing.assert_close(layers[layer - 1], model(**inputs).logits, atol=1e-5, rtol=0)
    assert is_fast(model) == (arch in FAST)


@torch.no_grad()
def test_a_real_encoder_of_144_heads(shared, inputs):
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(shared / "models" / "e5-small", dtype=torch.float32).eval()
    for how in WAYS:
        found = without_each_head(model, inputs, how)
        for layer, head in [(1, 1), (6, 7), (11, 12), (12, 3)]:
            with disabled(model, [(layer, head)], how):
                torch.testing.assert_close(found[layer - 1, head - 1], model(**inputs).logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("task", ["mrpc", "stsb"])
def test_importance_equals_a_finite_difference_of_the_gate(tiny_classifier, inputs, task):
    """The loss with a head turned down to 1 - e, by scaling its rows of the value projection."""
    model = tiny_classifier("bert", labels=TASKS[task].outputs)
    labels = torch.tensor([0, 1, 1]) if task == "mrpc" else torch.tensor([0.5, 3.0, 4.25])
    found = head_importance(model, inputs, lambda logits: task_losses(logits, labels, TASKS[task]))

    @torch.no_grad()
    def losses():
        logits = model.double()(**inputs).logits
        if task == "mrpc":
            return torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        return (logits.squeeze(1) - labels) ** 2

    for layer, head in [(0, 0), (1, 3), (2, 2)]:
        value = model.bert.encoder.layer[layer].attention.self.value
        rows = slice(8 * head, 8 * head + 8)
        sides = []
        for gate in (1 + 1e-3, 1 - 1e-3):
            weight, bias = value.weight.data.clone(), value.bias.data.clone()
            value.weight.data[rows] *= gate
            value.bias.data[rows] *= gate
            sides.append(losses())
            value.weight.data, value.bias.data = weight.to(value.weight.dtype), bias.to(value.bias.dtype)
        expected = ((sides[0] - sides[1]) / 2e-3).abs()
        torch.testing.assert_close(found[:, layer, head].double(), expected.double(), atol=2e-4, rtol=2e-2)
    assert model.config._attn_implementation != "headscope"
