import pytest
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from tests.conftest import OPTIONS, TINY

IDS = torch.tensor([[101, 2023, 2003, 1037, 3231, 102], [101, 2204, 2154, 102, 0, 0], [101, 7592, 102, 0, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0]])


@pytest.fixture
def tiny_classifier():
    """A tiny random classifier of an architecture, in eval mode."""

    def make(arch, dtype=torch.float32, labels=2, **options):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            config = AutoConfig.for_model(arch, **TINY | OPTIONS.get(arch, {}) | options, num_labels=labels)
            return AutoModelForSequenceClassification.from_config(config).eval().to(dtype)

    return make


@pytest.fixture
def inputs():
    return {"input_ids": IDS.clone(), "attention_mask": MASK.clone()}
