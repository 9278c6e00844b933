import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from headscope.contracts import Facts
from headscope.data_modules.batches.batch import IGNORE, AttentionBatch
from headscope.errors import ConfigError
from headscope.probes.parser.graph_parser import GraphParser, candidate_scores, governor_loss
from headscope.probes.parser.scorers import EXACT, AttentionScorer, AttentionWordScorer, RightBranchingScorer
from tests.probes.structural.test_trees import random_tree

FACTS = Facts("treebank", layers=2, heads=3, vector_size=4, relations=("nsubj", "punct", "root"))


def planted_batch(seed=0, examples=8, words=6):
    """Maps in which head 2-3 of each dependent attends to its gold head, the others at random."""
    random = np.random.default_rng(seed)
    heads = torch.from_numpy(np.stack([random_tree(words, random) for _ in range(examples)]))
    maps = torch.from_numpy(random.random((examples, 2, 3, words + 1, words + 1))).float()
    maps[:, 1, 2] = torch.nn.functional.one_hot(heads.clamp(min=0), words + 1).float()
    gold = {
        "governors": heads,
        "relations": torch.where(heads == 0, 2, 0).masked_fill(heads < 0, IGNORE),
        "punctuation": torch.zeros_like(heads).masked_fill(heads < 0, IGNORE),
        "control": heads.roll(1, 0),
    }
    vectors = torch.from_numpy(random.normal(size=(examples, words + 1, 4))).float()
    return AttentionBatch(mask=torch.ones(examples, words + 1, dtype=torch.bool), gold=gold, maps=maps, vectors=vectors)


def trained(parser, batch, steps=200):
    optimizer = torch.optim.Adam(parser.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        parser.loss(batch).backward()
        optimizer.step()
    parser.evaluation_step(planted_batch(seed=1), 0)
    return parser.scores()


def test_loss_equals_the_negative_log_share_of_the_gold_head():
    scores = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(0))
    heads = torch.tensor([[IGNORE, 2, 0, 2]])
    scored = torch.tensor([[False, True, True, False]])
    shares = [scores[0, :, word].exp() / scores[0, :, word].exp().sum() for word in (1, 2)]
    expected = -(shares[0][2].log() + shares[1][0].log()) / 2
    torch.testing.assert_close(governor_loss(scores, heads, scored), expected)


def test_a_batch_of_punctuation_only_has_no_loss():
    scores = torch.zeros(1, 2, 2, requires_grad=True)
    loss = governor_loss(scores, torch.tensor([[IGNORE, 0]]), torch.zeros(1, 2, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert scores.grad.abs().sum().item() == 0


def test_neither_the_word_itself_nor_padding_is_a_candidate():
    batch = planted_batch(examples=1)
    batch.mask[0, 5:] = False
    shares = candidate_scores(AttentionScorer(FACTS), batch).softmax(1)[0, :, 3]
    torch.testing.assert_close(shares, torch.tensor([0.25, 0.25, 0.25, 0, 0.25, 0, 0], dtype=EXACT))


def test_the_planted_head_is_found_and_its_weight_is_the_largest():
    parser = GraphParser(AttentionScorer, FACTS)
    assert trained(parser, planted_batch())["uas"].item() == 100
    weights = parser.findings().heads["weight_dependent_to_head"].value
    assert np.argmax(np.abs(weights)) == 5  # layer 2, head 3


def test_the_control_probe_learns_as_if_it_were_alone():
    batch = planted_batch()
    together = GraphParser(AttentionWordScorer, FACTS, control=True)
    trained(together, batch, steps=20)
    alone = GraphParser(AttentionWordScorer, FACTS)
    trained(alone, batch, steps=20)
    control = planted_batch()
    control.gold["governors"] = control.gold["control"]
    control_alone = GraphParser(AttentionWordScorer, FACTS)
    trained(control_alone, control, steps=20)
    torch.testing.assert_close(together.scorer.state_dict(), alone.scorer.state_dict())
    torch.testing.assert_close(together.control_scorer.state_dict(), control_alone.scorer.state_dict())


def test_selectivity_is_the_difference_to_the_control_score():
    parser = GraphParser(AttentionScorer, FACTS, control=True)
    scores = trained(parser, planted_batch(), steps=30)
    assert scores["selectivity"].item() == pytest.approx(scores["uas"].item() - scores["control"].item())
    assert scores["selectivity"].item() > 0


def test_mst_decoding_gives_trees_where_the_best_candidates_make_a_cycle():
    parser = GraphParser(AttentionScorer, FACTS, decode="mst")
    with torch.no_grad():
        parser.scorer.dependent_to_head[0, 0] = 5
    batch = planted_batch(seed=2, examples=20)
    independent = candidate_scores(parser.scorer, batch).argmax(1)
    trees = parser.predict(parser.scorer, batch)
    assert any(not is_tree(row) for row in independent.tolist())
    assert all(is_tree(row) and row[1:].count(0) == 1 for row in trees.tolist())


def is_tree(heads):
    for start in range(1, len(heads)):
        word, seen = start, set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word]
    return True


def test_unknown_decoding_is_refused():
    with pytest.raises(ConfigError, match="module.decode=best"):
        GraphParser(AttentionScorer, FACTS, decode="best")


def test_lightning_logs_the_scores_of_a_part():
    batch = planted_batch()
    batch.gold["governors"][:, 1:] = torch.tensor([2, 3, 4, 5, 6, 0])  # right-branching throughout
    parser = GraphParser(RightBranchingScorer, FACTS)
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.test(parser, DataLoader([batch], batch_size=None), verbose=False)
    assert trainer.callback_metrics["test/uas"].item() == 100
