"""Head importance by gradients (Michel et al. 2019): how the loss would change were a head turned down a little."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.data_modules.encoders.attention import IMPLEMENTATION, weights_changed_by
from headscope.data_modules.readers.glue_tasks import Task


def head_importance(
    model: PreTrainedModel, inputs: Mapping[str, Tensor], labels: Shaped[Tensor, "batch"], task: Task
) -> Float[Tensor, "batch layer head"]:
    """|d loss / d gate| of each input, where a gate multiplies what a head brings and is 1."""
    layers, heads = model.config.num_hidden_layers, model.config.num_attention_heads
    before = model.config._attn_implementation
    # Copies, since tensors made in inference mode cannot take part in a backward pass.
    with torch.inference_mode(False), torch.enable_grad():
        inputs, labels = {name: tensor.clone() for name, tensor in inputs.items()}, labels.clone()
        gates = torch.ones(layers, len(labels), heads, device=labels.device, requires_grad=True)
        open_gates = iter(gates)
        model.set_attn_implementation(IMPLEMENTATION)
        try:
            with weights_changed_by(lambda weights, _: weights * next(open_gates)[:, :, None, None]):
                logits = model(**inputs).logits
        finally:
            model.set_attn_implementation(before)
        if task.labels:
            loss = nn.functional.cross_entropy(logits, labels, reduction="sum")
        else:
            loss = nn.functional.mse_loss(logits.squeeze(1), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, gates)
    return gradient.abs().transpose(0, 1)
