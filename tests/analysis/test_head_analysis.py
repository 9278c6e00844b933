from dataclasses import replace
from functools import partial

import pytest
import pytorch_lightning as pl
import torch

from headscope.analysis.base import HeadAnalysis
from headscope.analysis.clusters import HeadDistances
from headscope.analysis.importance import TargetImportance
from headscope.analysis.relations import RelationHeads
from headscope.analysis.surface import SurfacePatterns
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import SegmentDataModule
from headscope.data_modules.treebank import TreebankDataModule
from headscope.errors import ConfigError


def trainer():
    return pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)


def test_one_pass_feeds_all_analyses_as_if_each_were_alone(minilm):
    data = SegmentDataModule(encoder=minilm, limit=5, batch_tokens=256)
    analyses = {"surface": SurfacePatterns, "clusters": HeadDistances}
    passes = []
    original = minilm.forward
    minilm.forward = lambda *args, **kwargs: passes.append(1) or original(*args, **kwargs)
    try:
        together = HeadAnalysis(analyses, data.facts())
        trainer().test(together, datamodule=data, verbose=False)
        counted = len(passes)
        found = {}
        for name, analysis in analyses.items():
            alone = HeadAnalysis({name: analysis}, data.facts())
            trainer().test(alone, datamodule=data, verbose=False)
            found |= alone.findings().heads
    finally:
        del minilm.forward
    assert counted == 3  # two segments of 128 tokens at once
    assert together.findings().heads == found
    assert "checks" in together.findings().tables


def test_counts_do_not_depend_on_the_precision_of_the_trainer(minilm):
    """Under bfloat16 a count above 256 would be rounded; the sums are taken outside of it."""
    data = TreebankDataModule(encoder=minilm, test="package:headscope.data_modules/samples/treebank", limit=40)
    module = HeadAnalysis({"relations": partial(RelationHeads, min_count=1, replicates=2)}, data.facts())
    seen = []
    module.analyses["relations"].update = lambda batch: seen.append(torch.is_autocast_enabled("cpu"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        module.test_step(AttentionBatch(torch.ones(1, 1, dtype=torch.bool), {}), 0)
    assert seen == [False]


def test_maps_of_another_sort_are_refused(minilm):
    facts = SegmentDataModule(encoder=minilm, limit=1).facts()
    with pytest.raises(ConfigError, match="^analyses=importance needs maps of gradients, found attention"):
        HeadAnalysis({"importance": TargetImportance}, facts)
    with pytest.raises(ConfigError, match="^analyses=seen needs maps of attention, found no maps"):
        HeadAnalysis({"seen": SurfacePatterns}, replace(facts, maps=None))


def test_an_analysis_of_other_data_is_refused(minilm):
    facts = SegmentDataModule(encoder=minilm, limit=1).facts()
    with pytest.raises(ConfigError, match="^analyses=relations needs data=treebank"):
        HeadAnalysis({"relations": RelationHeads}, facts)
    with pytest.raises(ConfigError, match="name at least one"):
        HeadAnalysis({}, facts)
    assert HeadAnalysis({"surface": partial(SurfacePatterns, released=True)}, facts).analyses["surface"].smoothing
