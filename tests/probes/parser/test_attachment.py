import torch

from headscope.probes.parser.attachment import AttachmentScore, attachment_scores, relation_table

RELATIONS = ["nsubj", "punct", "root"]
# ROOT and padding have no gold head; the second sentence is padded.
HEADS = torch.tensor([[-100, 2, 0, 2], [-100, 0, 1, -100]])
KINDS = torch.tensor([[-100, 0, 2, 1], [-100, 2, 0, -100]])
PREDICTED = torch.tensor([[3, 2, 3, 1], [0, 0, 0, 0]])


def test_scores_by_hand():
    metric = AttachmentScore(RELATIONS)
    metric.update(PREDICTED, HEADS, KINDS)
    scores = attachment_scores(*metric.compute(), RELATIONS)
    assert scores["uas"].item() == 50  # right: a nsubj and a root; wrong: a nsubj and a root; punctuation is left out
    assert scores["uas_without_root"].item() == 50
    assert relation_table(*metric.compute(), RELATIONS) == [
        {"relation": "nsubj", "recall": 50.0, "count": 2},
        {"relation": "root", "recall": 50.0, "count": 2},
    ]


def test_subtypes_of_punctuation_are_left_out_and_other_subtypes_kept():
    correct, count = torch.tensor([1.0, 5.0]), torch.tensor([4.0, 5.0])
    assert attachment_scores(correct, count, ["nsubj:pass", "punct:x"])["uas"].item() == 25


def test_counts_in_pieces_equal_a_plain_loop():
    generator = torch.Generator().manual_seed(0)
    heads = torch.randint(-1, 6, (40, 7), generator=generator)
    heads[heads < 0] = -100
    kinds, predicted = (torch.randint(0, high, (40, 7), generator=generator) for high in (3, 6))
    metric = AttachmentScore(RELATIONS)
    for start in range(0, 40, 7):
        metric.update(*(part[start : start + 7] for part in (predicted, heads, kinds)))
    correct, count = [0] * 3, [0] * 3
    for guess, head, kind in zip(
        predicted.flatten().tolist(), heads.flatten().tolist(), kinds.flatten().tolist(), strict=True
    ):
        if head >= 0:
            count[kind] += 1
            correct[kind] += guess == head
    assert metric.compute()[0].tolist() == correct
    assert metric.compute()[1].tolist() == count


def test_two_processes_add_up_to_one():
    parts = [AttachmentScore(RELATIONS) for _ in range(2)]
    for part, rows in zip(parts, (slice(0, 1), slice(1, 2)), strict=True):
        part.update(PREDICTED[rows], HEADS[rows], KINDS[rows])
    whole = AttachmentScore(RELATIONS)
    whole.update(PREDICTED, HEADS, KINDS)
    for state, reduce in whole._reductions.items():
        merged = reduce(torch.stack([getattr(part, state) for part in parts]))
        assert merged.tolist() == getattr(whole, state).tolist()


def test_a_treebank_of_one_relation_keeps_its_axis():
    metric = AttachmentScore(["dep"])
    metric.update(torch.tensor([[0, 1]]), torch.tensor([[0, 2]]), torch.tensor([[0, 0]]))
    correct, count = metric.compute()
    assert relation_table(correct, count, ["dep"]) == [{"relation": "dep", "recall": 50.0, "count": 2}]
