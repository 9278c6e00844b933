"""64 shards of the data, counted apart and added up in random order, give the numbers of one pass over all of it.

That is what processes and machines do with the sums of every analysis; docs/planning.md rests on it.
"""

import json
import random

import pytest
import torch
from hydra.utils import instantiate

from headscope.contracts import NUMBERS
from tests.record import random_models
from tests.runs.conftest import PROJECT, composed
from tests.two_processes_agree import FLOOR, distance, leaves

SHARDS, TOLERANCE = 64, 1e-9
# Which analyses look at which data; every input is a batch of its own, so that there is something for most shards.
PASSES = {
    ("surface", "clusters"): ("experiment=clark_clusters", "analyses.clusters.permutations=99", "data.limit=70"),
    ("importance",): ("experiment=clark_gradients", "encoder=minilm", "data.limit=70"),
    ("relations",): ("experiment=clark_relations", "analyses.relations.min_count=5", "analyses.relations.replicates=20"),
    ("coreference",): ("experiment=clark_coreference", "data.windows=all", "analyses.coreference.replicates=20"),
    ("frames",): ("experiment=kovaleva_frames", "analyses.frames.permutations=99", "analyses.frames.min_count=1"),
    ("drift",): ("experiment=kovaleva_drift", "data.task=rte", "data.test_on=train", "tuned.name={classifier}"),
    ("roles", "features", "patterns"): (
        "experiment=pande_sieves", "data=treebank_tokens", "analyses=[roles,features,patterns]", "data.limit=70",
        "analyses.roles.permutations=3", "analyses.roles.tau=auto", "analyses.features.replicates=20",
        "tuned.name={classifier}",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folders of two small random models."""
    with torch.random.fork_rng():
        return random_models(tmp_path_factory.mktemp("models"))


def test_every_analysis_is_merged_here():
    known = {file.stem for file in (PROJECT / "conf" / "analyses").glob("[!_]*.yaml")}
    assert known == {name for names in PASSES for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("names", PASSES, ids="-".join)
def test_shards_added_up_in_random_order_are_one_pass(names, models, ready):
    overrides = [text.format(**models) for text in PASSES[names]]
    cfg = composed(*overrides, f"encoder.name={models['masked_lm']}", "data.batch_tokens=1")
    data = ready(instantiate(cfg.data, _convert_="all"))
    analyses = instantiate(cfg.module, _convert_="all")(facts=data.facts()).analyses
    assert set(analyses) == set(names)
    batches = [data.on_after_batch_transfer(host, 0) for host in data.test_dataloader()]
    draw = random.Random(0)
    shards = [[] for _ in range(SHARDS)]
    for number in range(len(batches)):
        shards[number % SHARDS if number < SHARDS else draw.randrange(SHARDS)].append(number)
    for name, analysis in analyses.items():
        with torch.inference_mode():
            for batch in batches:
                analysis.update(batch)
            whole, states = numbers(analysis), []
            for shard in draw.sample(shards, SHARDS):
                analysis.reset()
                for number in draw.sample(shard, len(shard)):
                    analysis.update(batches[number])
                states.append(
                    dict(analysis.metric_state) | {key: rows[:] for key, rows in lists(analysis)}
                )  # reset clears them
            analysis.reset()
            for state in states:
                analysis.merge_state(state)
            merged = numbers(analysis)
        assert len(whole) > 20, name
        assert far_apart(whole, merged) == {}, name


def lists(analysis):
    return [(key, state) for key, state in analysis.metric_state.items() if isinstance(state, list)]


def numbers(analysis):
    """All that it found, by place."""
    found = analysis.compute()
    heads = {name: {column: getattr(values, column) for column in NUMBERS} for name, values in found.heads.items()}
    content = {"metrics": found.metrics, "tables": found.tables, "heads": heads, "drawings": found.drawings}
    return dict(leaves(json.loads(json.dumps(content), parse_constant=str)))  # NaN as a word, which equals itself


def far_apart(one, two):
    """Where two differ by more than TOLERANCE; what is nothing beside the largest of its column has no digits of its own."""
    scales: dict[tuple, float] = {}
    for place, value in one.items():
        if isinstance(value, float):
            scales[column(place)] = max(scales.get(column(place), 0.0), abs(value))
    assert one.keys() == two.keys()
    sizes = {place: distance(value, two[place], FLOOR * scales.get(column(place), 0.0)) for place, value in one.items()}
    return {place: size for place, size in sizes.items() if size > TOLERANCE}


def column(place):
    return tuple(step for step in place if not step.isdigit())
