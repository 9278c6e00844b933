"""Sieve scores of all heads and roles: beside the forward pass, and against a loop over inputs, heads and tokens."""

from collections.abc import Iterator
from functools import partial

import torch
from torch.testing import assert_close

from benchmarks.analyses import bare_pass
from benchmarks.samples import ready
from benchmarks.timing import Comparison, interleaved
from benchmarks.word_maps import plain_model
from headscope.analysis.roles import sieves
from headscope.analysis.roles.heads import HeadRoles
from headscope.analysis.roles.scores import bias_scores, sieve_weights
from headscope.contracts import Facts
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.treebank_tokens import TreebankTokenDataModule

SENTENCES, LOOPED = 200, 2
ROLES = {
    "local": sieves.local,
    "prev": partial(sieves.near, first=-2, last=-1),
    "next": partial(sieves.near, first=1, last=2),
    "delimiter": partial(sieves.special, tokens=["cls", "sep"]),
    "block": sieves.block,
    "syntactic": sieves.syntactic,
    "nsubj": partial(sieves.syntactic, only=["nsubj"]),
    "obj": partial(sieves.syntactic, only=["obj"]),
}


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """The maps are there already: what is timed is scoring alone, with and without the shuffled sieves."""
    encoder = FrozenEncoder(encoder_name)
    data = TreebankTokenDataModule(encoder=encoder, test="package:headscope.data_modules/samples/treebank", limit=SENTENCES)
    host_batches = list(ready(data).test_dataloader())
    with torch.inference_mode():
        batches = [data.on_after_batch_transfer(batch, 0) for batch in host_batches]
    floor = bare_pass(plain_model(encoder, "sdpa"), host_batches)
    for shuffles in (0, 19):
        times = interleaved(partial(score_all, data.facts(), batches, shuffles), floor, repeats)
        what = f"scores of {len(ROLES)} roles, {shuffles} shuffles / sdpa pass, {SENTENCES} sentences"
        yield Comparison(what, *times, 1, "at most")
    batch, names = batches[0], data.facts().relations
    assert_close(scores(batch, names)[:LOOPED], looped(batch, names), atol=1e-5, rtol=1e-5)
    ours, loop = interleaved(partial(scores, batch, names), partial(looped, batch, names), repeats)
    what = f"scores of one input / loop over its heads and tokens, {batch.mask.shape[1]} tokens"
    yield Comparison(what, ours / len(batch.mask), loop / LOOPED, 100, "times faster")


@torch.inference_mode()
def score_all(facts: Facts, batches: list[AttentionBatch], shuffles: int) -> None:
    """Every batch through the analysis."""
    analysis = HeadRoles(facts, ROLES, permutations=shuffles)
    for batch in batches:
        analysis.update(batch)


@torch.inference_mode()
def scores(batch: AttentionBatch, names: list[str]) -> torch.Tensor:
    """All inputs, heads and roles at once."""
    chosen = torch.stack([sieve(batch.gold, batch.mask, names) for sieve in ROLES.values()], 1)
    return bias_scores(batch.maps.flatten(1, 2), sieve_weights(chosen, batch.visible())[0])


@torch.inference_mode()
def looped(batch: AttentionBatch, names: list[str]) -> torch.Tensor:
    """The obvious way, of a few inputs: the sieves are given, and then every head and token has its turn."""
    chosen = torch.stack([sieve(batch.gold, batch.mask, names) for sieve in ROLES.values()], 1)[:LOOPED].numpy()
    maps = batch.maps.flatten(1, 2)[:LOOPED].numpy()
    out = torch.zeros(LOOPED, maps.shape[1], len(ROLES))
    for n in range(LOOPED):
        length = int(batch.mask[n].sum())
        for head in range(maps.shape[1]):
            for role in range(len(ROLES)):
                found = []
                for token in range(length):
                    inside = chosen[n, role, token, :length]
                    if inside.any():
                        row = maps[n, head, token, :length]
                        found.append(row[inside].mean() / row.mean())
                out[n, head, role] = float(sum(found) / len(found)) if found else 0.0
    return out
