import pytest

from headscope.analysis.statistics import holm, mcnemar


def test_mcnemar_by_hand():
    # 1 of 6 differing words: 2 * (1 + 6) / 2**6
    assert mcnemar(1, 5) == pytest.approx(2 * 7 / 64)
    assert mcnemar(5, 1) == mcnemar(1, 5)
    assert mcnemar(3, 3) == 1
    assert mcnemar(0, 0) == 1


def test_holm_by_hand():
    # In order 0.01, 0.02, 0.03, 0.5 times 4, 3, 2, 1; never less than the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []
