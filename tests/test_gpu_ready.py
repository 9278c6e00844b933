"""Nothing inside a step may read a value back to the host or copy between devices: on a GPU each would stall the queue."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from headscope.analysis.clusters import HeadDistances
from headscope.analysis.coreference import CoreferenceHeads
from headscope.analysis.importance import TargetImportance
from headscope.analysis.patterns import PatternShares
from headscope.analysis.relations import RelationHeads
from headscope.analysis.surface import SurfacePatterns
from headscope.contracts import DrawnInput, Facts, PatternFacts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.batches.examples import Budget, Example, collate, encode
from headscope.data_modules.batches.finite import RequireFinite
from headscope.data_modules.patterns.labels import CLASSES
from headscope.data_modules.readers.mentions import BASELINES
from headscope.data_modules.treebank import TreebankDataModule
from headscope.probes.parser.graph_parser import GraphParser
from headscope.probes.parser.scorers import AttentionScorer, AttentionWordScorer, DistanceWordScorer, RightBranchingScorer
from headscope.probes.patterns.cnn import PatternCNN
from headscope.probes.patterns.net import PatternNet
from headscope.probes.patterns.rules import PatternRules
from headscope.probes.structural.probe import StructuralProbe

READ_BACKS = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique")
WORDS = ("The", "unbelievably", "small", "otters", "slept", ".")
GOLD = {
    "governors": [4, 3, 4, 5, 0, 5],
    "relations": [0, 0, 0, 0, 2, 1],
    "punctuation": [0, 0, 0, 0, 0, 1],
    "control": [2, 3, 4, 5, 6, 0],
}
SCORERS = (AttentionScorer, AttentionWordScorer, DistanceWordScorer, RightBranchingScorer)


class StaysOnDevice(TorchDispatchMode):
    """Raises where a value is read back, a mask selects by content, or a tensor changes its device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::").partition(".")[0]
        if name in READ_BACKS:
            raise RuntimeError(f"{name} reads a value back")
        if name == "index" and any(index is not None and index.dtype == torch.bool for index in args[1]):
            raise RuntimeError("indexing with a mask waits for its values")
        devices = {tensor.device for tensor in args if isinstance(tensor, torch.Tensor) and tensor.dim()}
        target = kwargs.get("device")
        if (
            name == "copy_"
            and len(devices) > 1
            or name == "_to_copy"
            and target is not None
            and torch.device(target) not in devices
        ):
            raise RuntimeError(f"{name} moves a tensor to another device")
        return func(*args, **kwargs)


def host_batch(encoder):
    examples = [
        Example(WORDS[start:], {name: np.array([-100, *values[start:]]) for name, values in GOLD.items()})
        for start in (0, 2)
    ]
    for example in examples:
        example.gold["governors"][1:] %= len(example.words)
    batch = collate([encode(examples, encoder.tokenizer(), 128)[place] for place in range(len(examples))])
    batch["vector_ids"] = torch.ones_like(batch["mask"], dtype=torch.long)
    return batch


def on(device, batch):
    return {name: on(device, value) if isinstance(value, dict) else value.to(device) for name, value in batch.items()}


def every_step(datamodule, device):
    batch = on(device, host_batch(datamodule.encoder))
    datamodule._vectors_on_device = torch.rand(2, 5, device=device)
    facts = replace(datamodule.facts(), vector_size=5, relations=("nsubj", "punct", "root"))
    modules = [GraphParser(scorer, facts, control=True).to(device) for scorer in SCORERS] + [
        StructuralProbe(facts).to(device)
    ]
    for module in modules:
        module.to(device)
    with StaysOnDevice():
        attention = datamodule.on_after_batch_transfer(batch, 0)
        assert isinstance(attention, AttentionBatch)
        for module in modules:
            loss = module.loss(attention)
            if loss.requires_grad:
                loss.backward()
            module.evaluation_step(attention, 0)
            datamodule.finite.count_loss(loss.detach())
            assert loss.device == attention.maps.device == attention.hidden.device
    # What is no number was counted on the way, where the maps are.
    assert datamodule.words.finite.counts.device == datamodule.finite.broken_steps.device == attention.maps.device
    assert datamodule.words.finite.inputs == len(attention.mask)
    return modules


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("arch", ["bert", "roberta", "distilbert", "electra"])
def test_a_step_never_leaves_the_device(random_encoder, minilm, arch, device):
    """On `meta` tensors have no values at all: any that is asked for, or that sits elsewhere, is an error."""
    encoder = random_encoder(arch)
    encoder.tokenizer = minilm.tokenizer
    datamodule = TreebankDataModule(encoder=encoder, hidden_layer=2, batch_tokens=8)
    encoder.load().to(device)
    assert datamodule.words.budget == Budget(8, 2**26, encoder.layers * encoder.heads)
    modules = every_step(datamodule, device)
    assert device == "meta" or modules[0].attachments.count.sum().item() == 10


ANALYSES = {
    "segments": [SurfacePatterns, partial(SurfacePatterns, released=True), HeadDistances, TargetImportance],
    "treebank": [RelationHeads, partial(RelationHeads, possessive="strict"), partial(RelationHeads, candidates="all")],
    "documents": [CoreferenceHeads],
    "glue": [partial(PatternShares, classifier=PatternNet(norm=False))],
}
ANALYSED_GOLD = {
    "token_class": [[1, 0, 3, 0, 2], [1, 0, 2, -100, -100]],
    "governors": [[-100, 2, 0, 2, 3], [-100, 0, 1, -100, -100]],
    "relations": [[-100, 0, 2, 1, 0], [-100, 2, 0, -100, -100]],
    "asked": [[-100, 1, 2, 4, 4], [-100, 1, 2, -100, -100]],
    "pieces": [[-100, 1, 2, 1, 1], [-100, 1, 1, -100, -100]],
    "upos": [[-100, 0, 2, 1, 4], [-100, 3, 0, -100, -100]],
    "document": [[0], [1]],
    "mention_heads": [[1, 2, 4], [1, 2, -100]],
    "groups": [[0, 1, 0], [0, 0, -100]],
    "kinds": [[2, 1, 0], [1, 0, -100]],
    "antecedents": [[0, 0, 1], [0, 1, -100]],
} | dict.fromkeys(BASELINES, [[0, 0, 1], [0, 1, -100]])


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("kind", ANALYSES)
def test_an_analysis_never_leaves_the_device(kind, device):
    drawn = (DrawnInput(7, ("a", "b", "c", "d"), (2, 0, 2, 3), (0, 2, 1, 0)),)
    relations = ("det", "nmod:poss", "root")
    facts = Facts(kind, layers=2, heads=3, maps="attention", relations=relations, drawn=drawn)
    gold = {name: torch.tensor(rows).to(device) for name, rows in ANALYSED_GOLD.items()}
    mask, maps = torch.arange(5) < torch.tensor([[5], [3]]), torch.rand(2, 2, 3, 5, 5).softmax(-1)
    batch = AttentionBatch(mask.to(device), gold, torch.tensor([7, 8]).to(device), maps=maps.to(device))
    for build in ANALYSES[kind]:
        facts = replace(facts, separators=kind == "treebank" and build is not RelationHeads)
        analysis = build(replace(facts, maps="gradients") if build is TargetImportance else facts).to(device)
        with StaysOnDevice():
            analysis.update(batch)
        assert all(getattr(analysis, state).device.type == device for state in analysis._reductions)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_step_of_the_pattern_classifiers_never_leaves_the_device(device):
    """Learning, with its augmentation, and evaluation."""
    facts = Facts("patterns", patterns=PatternFacts(CLASSES, (1,) * 5, "", (), ()))
    mask, maps = torch.arange(9) < torch.tensor([[9], [5]]), torch.rand(2, 1, 1, 9, 9).softmax(-1)
    gold = {"token_class": torch.tensor([[1, 0, 0, 2, 0, 0, 0, 3, 2], [1, 0, 0, 0, 2] + [-100] * 4])}
    gold |= {"label": torch.tensor([[3], [0]]), "votes": torch.eye(5)[[3, 0]]}
    gold = {name: values.to(device) for name, values in gold.items()}
    batch = AttentionBatch(mask.to(device), gold, torch.tensor([0, 1]).to(device), maps=maps.to(device))
    network, rules = PatternCNN(facts).to(device), PatternRules(facts).to(device)
    with StaysOnDevice():
        network.loss(batch).backward()
        rules.learn(batch)
        for module in (network, rules):
            module.evaluation_step(batch, 0)
    assert network.predictions.logits[0].device.type == device


def test_losses_that_are_no_numbers_are_counted_on_the_device():
    check = RequireFinite()
    with StaysOnDevice():
        for loss in (1.0, float("nan"), float("inf")):
            check.count_loss(torch.full((), loss))
    assert (check.steps, check.broken_steps.item()) == (3, 2)


@pytest.mark.parametrize(
    "leak", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: x.to("meta"), lambda x: bool(x.any())]
)
def test_the_guard_sees_every_kind_of_leak(leak):
    values = torch.ones(3)
    with pytest.raises(RuntimeError), StaysOnDevice():
        leak(values)
