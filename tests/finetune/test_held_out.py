"""What the best head gains on the inputs that did not choose it, against loops over halves, heads and inputs."""

import numpy as np
import pytest

from headscope.data_modules.readers.glue import TASKS
from headscope.finetune.held_out import held_out_best
from headscope.finetune.significance import p_of_changes
from headscope.finetune.weighted_scores import main_score, resampled


def accuracy(outputs, labels, weights):
    return main_score(outputs.argmax(-1), labels, weights, TASKS["rte"])


def accuracy_by_hand(outputs, labels, inputs):
    return 100 * sum(max(range(2), key=lambda c: outputs[i][c]) == labels[i] for i in inputs) / len(inputs)


@pytest.fixture
def found():
    """Two models, the whole model and four heads, 21 inputs of two classes; in half of the inputs head 3 is the best."""
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 2, 21)
    outputs = draw.normal(0, 1, (2, 5, 21, 2))
    even = np.arange(0, 21, 2)
    outputs[:, 3, even, labels[even]] = 9
    return outputs, labels


@pytest.mark.parametrize("better", [1, -1])
def test_each_half_chooses_for_the_other(found, better):
    outputs, labels = found
    halves = [range(0, 21, 2), range(1, 21, 2)]

    def change(head, inputs):
        told = [accuracy_by_hand(m[head + 1], labels, inputs) - accuracy_by_hand(m[0], labels, inputs) for m in outputs]
        return sum(told) / len(told)

    best = [max(range(4), key=lambda head: better * change(head, halves[1 - half])) for half in (0, 1)]
    expected = sum(len(half) * change(head, half) for half, head in zip(halves, best, strict=True)) / 21
    ours = held_out_best(accuracy, outputs, labels, better, replicates=30, seed=4)
    assert ours.chosen == tuple(best)
    assert ours.change == pytest.approx(expected)
    assert ours.p == pytest.approx(p_of_changes(np.array([expected]), ours.drawn[None])[0])
    for n in range(30):  # each half is drawn again by itself
        total = 0.0
        for half, (inputs, head) in enumerate(zip(halves, best, strict=True)):
            times = resampled(len(inputs), 30, [4, half])[:, n].astype(int)
            drawn = [one for one, count in zip(inputs, times, strict=True) for _ in range(count)]
            total += len(inputs) * change(head, drawn)
        assert ours.drawn[n] == pytest.approx(total / 21)


def test_a_head_that_is_best_in_one_half_by_chance_gains_nothing_held_out(found):
    outputs, labels = found
    ours = held_out_best(accuracy, outputs, labels, 1, replicates=10, seed=0)
    assert ours.chosen[1] == 2  # it was right in all of the first half
    on_all = accuracy(outputs[0], labels, np.ones((21, 1)))[:, 0]
    assert ours.change < max(on_all[1:] - on_all[0])


def test_one_input_has_no_halves(found):
    outputs, labels = found
    assert held_out_best(accuracy, outputs[:, :, :1], labels[:1], 1, replicates=5, seed=0) is None
