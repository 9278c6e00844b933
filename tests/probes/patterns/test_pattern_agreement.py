import pytest
import torch

from headscope.data_modules.patterns.labels import CLASSES
from headscope.probes.patterns.abstention import abstention_rows, confidence_for_risk
from headscope.probes.patterns.agreement import kappa_rows, vote_rows
from headscope.probes.patterns.table import share_rows, transfer_row


def plain_kappa(first, second):
    equal = sum(a == b for a, b in zip(first, second, strict=True)) / len(first)
    chance = sum((first.count(name) / len(first)) * (second.count(name) / len(second)) for name in {*first, *second})
    return (equal - chance) / (1 - chance)


def plain_f1(found, gold):
    scores = []
    for name in sorted({*found, *gold}):
        both = sum(a == b == name for a, b in zip(found, gold, strict=True))
        scores.append(2 * both / (found.count(name) + gold.count(name)))
    return sum(scores) / len(scores)


def test_agreement_of_three_is_that_of_plain_loops():
    draws = torch.Generator().manual_seed(0)
    base = torch.randint(5, (60,), generator=draws)
    votes = []
    for number in base.tolist():
        others = torch.randint(5, (3,), generator=draws).tolist()
        keep = (torch.rand(3, generator=draws) < 0.7).tolist()
        votes.append(tuple(CLASSES[number if kept else other] for kept, other in zip(keep, others, strict=True)))
    rows = {row["what"]: row["value"] for row in vote_rows([*votes, ("block",)], CLASSES)}
    columns = [list(column) for column in zip(*votes, strict=True)]
    assert rows["kappa of labellers 1 and 3"] == pytest.approx(plain_kappa(columns[0], columns[2]), abs=1e-5)
    pairs = ((0, 1), (0, 2), (1, 2))
    per_class = [plain_kappa(*([name == "block" for name in columns[n]] for n in pair)) for pair in pairs]
    assert rows["kappa of block"] == pytest.approx(sum(per_class) / 3, abs=1e-5)
    for row, (a, b), block in zip(kappa_rows(votes, CLASSES), pairs, per_class, strict=True):
        assert (row["labellers"], row["block"]) == (f"{a + 1} and {b + 1}", pytest.approx(block, abs=1e-5))
        assert row["all"] == pytest.approx(plain_kappa(columns[a], columns[b]), abs=1e-5)
    scores = []
    for one, a, b in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        agreed = [vote for vote in votes if vote[a] == vote[b]]
        scores.append(plain_f1([vote[one] for vote in agreed], [vote[a] for vote in agreed]))
    assert rows["macro F1 of a labeller against the other two"] == pytest.approx(sum(scores) / 3, abs=1e-5)
    assert rows["all three labels equal"] == pytest.approx(sum(len({*vote}) == 1 for vote in votes) / 60)
    assert rows["all three labels different"] == pytest.approx(sum(len({*vote}) == 3 for vote in votes) / 60)
    assert (rows["maps labelled three times"], vote_rows([], CLASSES)) == (60, [])


def test_the_confidence_for_a_risk_is_that_of_trying_all():
    draws = torch.Generator().manual_seed(1)
    sure = (torch.rand(200, generator=draws) * 50).round() / 50
    right = torch.rand(200, generator=draws) < sure
    for risk in (0.0, 0.05, 0.1, 0.3, 1.0):
        fitting = []
        for threshold in sorted({*sure.tolist()}):
            kept = [ok for one, ok in zip(sure.tolist(), right.tolist(), strict=True) if one >= threshold]
            if sum(not ok for ok in kept) / len(kept) <= risk:
                fitting.append(threshold)
        assert confidence_for_risk(sure, right, risk) == pytest.approx(min(fitting, default=1.0))
    assert confidence_for_risk(torch.tensor([0.9]), torch.tensor([False]), 0.1) == 1.0


def test_abstention_is_judged_on_the_fold_that_did_not_choose_it():
    first = (torch.tensor([0.9, 0.8, 0.4]), torch.tensor([True, True, False]))
    second = (torch.tensor([0.95, 0.7, 0.3]), torch.tensor([True, False, False]))
    (row,) = abstention_rows([first, second], [0.1])
    # At 0.95, found on the second fold, nothing of the first is kept; at 0.8, found on the first, one right map.
    assert (row["kept"], row["wrong of those"], row["n"]) == (pytest.approx(1 / 6), 0.0, 6)
    assert (row["lowest of folds"], row["highest of folds"]) == (pytest.approx(0.8), pytest.approx(0.95))
    assert row["confidence"] == pytest.approx(0.8)


def test_shares_are_those_of_the_random_part():
    rows = [
        {"found": "random", "label": "block", "predicted": "block"},
        {"found": "random", "label": "vertical", "predicted": "block"},
        {"found": "rules: block", "label": "block", "predicted": "diagonal"},
    ]
    shares = {row["class"]: row for row in share_rows(rows)}
    assert (shares["block"]["labels"], shares["block"]["network"], shares["block"]["difference"]) == (50.0, 100.0, 50.0)
    assert (shares["diagonal"]["network"], shares["vertical"]["difference"], shares["block"]["n"]) == (0.0, -50.0, 2)
    assert share_rows([{"label": "block", "predicted": "block"}]) == []


def test_a_class_that_an_encoder_does_not_show_has_no_score():
    logits = torch.eye(5)[[0, 0, 1, 4]]
    row = transfer_row((logits, torch.tensor([0, 0, 4, 4])))
    assert (row["vertical"], row["block"], row["n"]) == (1.0, None, 4)
    assert row["accuracy"] == pytest.approx(0.75)
