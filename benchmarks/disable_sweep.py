"""Disabling every head in turn: against one full pass per head, at the same padding and padded to 128 tokens.

The floor of a model that takes a pass from each head's layer on is half the layers, and the one that is disabled.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedModel,
)

from benchmarks.samples import ready
from benchmarks.timing import Comparison, interleaved
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.glue import GlueDataModule
from headscope.finetune.ablation import without_each_head
from headscope.finetune.head_mask import disabled

EXAMPLES, PADDED = 4, 128
SHAPE = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 1536}


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """A classifier of 12 layers of 12 heads with random weights, since speed does not depend on them."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SHAPE)).eval()
    data = ready(GlueDataModule(encoder=FrozenEncoder(encoder_name), task="mrpc", limit=EXAMPLES, maps=False))
    inputs = data.on_after_batch_transfer(next(iter(data.test_dataloader())), 0).inputs
    fast = without_inference(lambda: without_each_head(model, inputs, "uniform"))
    same = without_inference(lambda: one_pass_each(model, inputs))
    longer = without_inference(lambda: one_pass_each(model, padded(inputs)))
    assert_close(fast(), same(), atol=1e-5, rtol=0)
    what = f"all 144 heads of {EXAMPLES} MRPC pairs, fast / one full pass per head"
    yield Comparison(f"{what}, same padding", *interleaved(fast, same, repeats), 2.3, "times faster")
    yield Comparison(f"{what}, padded to {PADDED}", *interleaved(fast, longer, repeats), 5, "times faster")
    causal = LlamaForSequenceClassification(LlamaConfig(**SHAPE, pad_token_id=0)).eval()
    ids = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    above = without_inference(lambda: without_each_head(causal, ids, "uniform"))
    whole = without_inference(lambda: one_pass_each(causal, ids))
    assert_close(above(), whole(), atol=1e-5, rtol=0)
    what = f"all 144 heads of a causal model, {EXAMPLES} MRPC pairs, from the head's layer on / one full pass per head"
    yield Comparison(what, *interleaved(above, whole, repeats), 1.5, "times faster")


def without_inference(work: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The work without a graph for gradients."""
    return torch.inference_mode()(work)


def one_pass_each(model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
    """The obvious way."""
    rows = []
    for layer in range(1, SHAPE["num_hidden_layers"] + 1):
        for head in range(1, SHAPE["num_attention_heads"] + 1):
            with disabled(model, [(layer, head)]):
                rows.append(model(**inputs).logits)
    return torch.stack(rows).unflatten(0, (SHAPE["num_hidden_layers"], -1))


def padded(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same inputs at a fixed length."""
    missing = PADDED - inputs["input_ids"].shape[1]
    return {name: torch.nn.functional.pad(tensor, (0, missing)) for name, tensor in inputs.items()}
