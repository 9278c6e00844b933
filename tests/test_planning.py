"""The plan of docs/planning.md: its arithmetic against what torch counts in a model, its tables against the program."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel

from benchmarks.plan import DEVICES, SHAPES, Device, Shape, as_markdown, forward_rows, machine_rows
from tests.runs.conftest import PROJECT


def test_the_flops_of_a_forward_pass_are_those_that_torch_counts():
    shape, tokens = Shape("tiny", 3, 4, 32, 48), 7
    sizes = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
    config = BertConfig(**sizes, vocab_size=50, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        found = model(torch.arange(tokens)[None], output_attentions=True)
    assert counter.get_total_flops() == shape.flops(tokens)
    assert shape.map_bytes(tokens) == sum(maps.numel() * maps.element_size() for maps in found.attentions)


def test_the_slower_of_arithmetic_and_memory_decides():
    shape = SHAPES[1]
    slow_memory, slow_arithmetic = Device("", 1e15, 1e9, share=0.5), Device("", 1e9, 1e15, share=0.5)
    assert slow_memory.seconds(shape, 32) == (pytest.approx(shape.moved(32) / 5e8), "memory")
    assert slow_arithmetic.seconds(shape, 32) == (pytest.approx(shape.flops(32) / 5e8), "arithmetic")
    assert DEVICES[0].seconds(shape, 64)[0] > 2 * DEVICES[0].seconds(shape, 32)[0]  # pairs of tokens grow faster


def test_the_tables_of_the_page_are_those_of_the_program():
    page = (PROJECT / "docs" / "planning.md").read_text(encoding="utf-8")
    for rows in (forward_rows(), machine_rows()):
        assert as_markdown(rows) in page
