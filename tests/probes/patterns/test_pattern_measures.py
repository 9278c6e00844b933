"""What is seen of a map token by token, against plain loops over its cells."""

import itertools
import math

import numpy as np
import pytest
import torch

from headscope.data_modules.labelled_maps import MapExample, collate_maps
from headscope.data_modules.patterns.synthetic import synthetic_maps
from headscope.probes.patterns.augmentation import without_gaps
from headscope.probes.patterns.axes import Axes, sheared
from headscope.probes.patterns.contrasts import contrasts
from headscope.probes.patterns.measures import MEASURES, row_measures, shades
from headscope.probes.patterns.resampling import CLS, PUNCTUATION, SEP

REACH = 16


@pytest.fixture(scope="module")
def batch():
    """Maps of several lengths and classes, padded."""
    items = [MapExample(one.weights, one.token_class, 0) for one in synthetic_maps(15, 4) if len(one.weights) < 50]
    return items, collate_maps(list(enumerate(items)))


def measured(batch):
    axes = Axes(batch["token_class"], batch["mask"])
    shade, scale = shades(batch["maps"][:, None], batch["mask"])
    return row_measures(shade, scale, sheared(shade * axes.rows[:, None, None], REACH), axes)[:, 0]


def test_a_shade_is_the_root_of_a_weight_over_that_of_the_brightest_cells(batch):
    items, padded = batch
    shade, scale = shades(padded["maps"][:, None], padded["mask"])
    for number, item in enumerate(items):
        roots, length = np.sqrt(item.weights), len(item.weights)
        assert float(scale[number, 0]) == pytest.approx(np.quantile(roots, 0.998), rel=1e-4)
        expected = np.clip(roots / np.quantile(roots, 0.998), 0, 1)
        np.testing.assert_allclose(shade[number, 0, :length, :length].numpy(), expected, atol=1e-4)
        assert not shade[number, 0, length:].any()


def test_a_sheared_map_has_the_diagonal_in_its_middle():
    values = torch.arange(50.0).reshape(1, 2, 5, 5)
    found = sheared(values, 3)
    for head in range(2):
        for query in range(5):
            for offset in range(-3, 3):
                key = query + offset
                expected = float(values[0, head, query, key]) if 0 <= key < 5 else 0.0
                assert float(found[0, head, query, 3 + offset]) == expected


def plain_measures(weights, kinds):
    """The same numbers, cell by cell."""
    n = len(weights)
    scale = np.quantile(np.sqrt(weights), 0.998)
    shade = [[min(1.0, math.sqrt(cell) / scale) for cell in row] for row in weights.tolist()]
    special, stops = [kind in (CLS, SEP) for kind in kinds], [kind == PUNCTUATION for kind in kinds]
    rows = [q for q in range(n) if not special[q]]
    words = [k for k in rows if not stops[k]]
    above = lambda value: 1 / (1 + math.exp(-value / 0.05))  # noqa: E731

    def mean(values):
        return sum(values) / max(1, len(rows))

    def band(q, offset):
        return shade[q][q + offset] if 0 <= q + offset < n and not special[q + offset] else 0.0

    def brightest(q, columns, beyond):
        return max((shade[q][k] for k in columns if abs(q - k) > beyond), default=0.0)

    near = [max(band(q, offset) for offset in (-1, 0, 1)) for q in rows]
    beside = [sum(band(q, offset) for offset in range(-6, 7) if abs(offset) > 2) / 8 for q in rows]
    at_special = [brightest(q, [k for k in range(n) if special[k]], -1) for q in rows]
    at_stops = [brightest(q, [k for k in range(n) if stops[k]], 1) for q in rows]
    far = [brightest(q, words, 2) for q in rows]
    vertical = [max(pair) for pair in zip(at_special, at_stops, strict=True)]
    values = []
    for one in (near, vertical, at_special, far, beside):
        values += [mean(one), *(mean([above(value - level) for value in one]) for level in (0.25, 0.4, 0.6))]
    pairs = ((vertical, far), (at_special, far), (near, far), (near, vertical), (near, beside), (vertical, beside))
    for one, other in pairs:
        values += [mean([above(a - f * b) for a, b in zip(one, other, strict=True)]) for f in (1.0, 0.7)]
    values += [mean([band(q, offset) for q in rows]) for offset in range(-6, 7)]
    values += [mean([scale**2 * sum(band(q, o) ** 2 for o in range(-r, r + 1)) for q in rows]) for r in (1, 2, 5)]
    column = [mean([shade[q][k] for q in rows]) for k in range(n)]
    of_special = sorted((column[k] if special[k] else 0.0 for k in range(n)), reverse=True)
    of_words = sorted((column[k] if k in words else 0.0 for k in range(n)), reverse=True)
    of_stops = max(column[k] if stops[k] else 0.0 for k in range(n))
    values += [of_special[0], of_special[1], of_stops, of_words[0], of_words[1]]
    values += [max(of_special[0], of_stops) - of_words[0]]
    values += plain_sentences(shade, kinds, rows, above)
    cells = [cell for row in shade for cell in row]
    values += [scale, sum(cells) / n**2, sum(cell > 0.25 for cell in cells) / n**2, math.log(n) / 5]
    return [*values, *plain_contrasts(shade, kinds, rows, above)]


def plain_sentences(shade, kinds, rows, above):
    ends = [k for k, kind in enumerate(kinds) if kind == SEP]
    second = {q for q in rows if ends and q > ends[0]}
    values = []
    for seen, most in ((lambda cell: cell, 999), (lambda cell: above(cell - 0.25), 999), (lambda cell: cell, 12)):
        inside = [(q, k) for q in rows for k in rows if (q in second) == (k in second) and 2 < abs(q - k) <= most]
        limit = 2 if most == 12 else -1
        across = [(q, k) for q in rows for k in rows if (q in second) != (k in second) and limit < abs(q - k) <= most]
        means = [sum(seen(shade[q][k]) for q, k in cells) / max(1, len(cells)) for cells in (inside, across)]
        values += [*means, means[0] - means[1]] if second else [0.0] * 3
    return [*values, values[0] / max(1e-9, values[0] + values[1]), float(bool(second))]


def plain_contrasts(shade, kinds, rows, above):
    """How lines, sentences and columns stand out, cell by cell."""
    cell = lambda q, k: shade[q][k] if k in rows else 0.0  # noqa: E731
    mean = lambda values: sum(values) / max(1, len(values))  # noqa: E731
    lines = []
    for offset in range(-2, 3):
        line = [cell(q, q + offset) for q in rows]
        sides = [
            [
                mean([cell(q, q + offset + side * away) for away in (2, 3, 4) if q + offset + side * away in rows])
                for q in rows
            ]
            for side in (-1, 1)
        ]
        brighter = [one - max(a, b) for one, a, b in zip(line, *sides, strict=True)]
        dimmer = [one - min(a, b) for one, a, b in zip(line, *sides, strict=True)]
        per_row = [[above(value - level) for value in line] for level in (0.15, 0.25, 0.4, 0.6)] + [line, brighter, dimmer]
        per_row += [[above(value - level) for value in brighter] for level in (0.05, 0.15, 0.3)]
        lines.append([mean(one) for one in [*per_row, [above(value - 0.15) for value in dimmer]]])
    values = [max(of_offsets) for of_offsets in zip(*lines, strict=True)]
    profile = [mean([shade[q][q + offset] for q in rows if q + offset in rows]) for offset in range(-4, 5)]
    step = max(abs(b - a) for a, b in itertools.pairwise(profile))
    bend = max(2 * b - a - c for a, b, c in zip(profile, profile[1:], profile[2:], strict=False))
    values += [step, bend, step / max(0.02, *profile[2:7]), bend / max(0.02, *profile[2:7])]
    values += plain_boundary(shade, kinds, rows)
    column = [mean([shade[q][k] for q in rows]) for k in range(len(kinds))]
    words = [column[k] for k in rows if kinds[k] != PUNCTUATION]
    marked = max(column[k] for k in range(len(kinds)) if kinds[k] in (CLS, SEP, PUNCTUATION))
    deviation = float(np.std(words)) if words else 0.0
    each = [max(column[k] if kinds[k] == kind else 0.0 for k in range(len(kinds))) for kind in (CLS, SEP)]
    beside = [marked - mean(words) - deviation, (marked - mean(words)) / (deviation + 0.03) / 5]
    return [*values, marked, mean(words), deviation, *beside, *each]


def plain_boundary(shade, kinds, rows):
    """Inside and across the sentences of a pair at each distance up to 16 tokens before and 15 behind."""
    ends = [k for k, kind in enumerate(kinds) if kind == SEP]
    second = {q for q in rows if q > ends[0]}
    if not second:
        return [0.0] * 4
    compared = []
    for offsets in (range(-16, 16), range(-16, 0), range(16)):
        total, own, other = 0, 0.0, 0.0
        for offset in offsets:
            cells = [(q, q + offset) for q in rows if q + offset in rows]
            inside = [shade[q][k] for q, k in cells if (q in second) == (k in second) and abs(offset) > 2]
            across = [shade[q][k] for q, k in cells if (q in second) != (k in second)]
            weight = min(len(inside), len(across))
            if weight:
                total += weight
                own, other = own + weight * np.mean(inside), other + weight * np.mean(across)
        own, other = own / max(1, total), other / max(1, total)
        compared.append([own - other, own / max(0.02, own + other)])
    both, before, behind = compared
    return [*both, *(before if before[0] > behind[0] else behind)]


def test_a_line_on_a_busy_background_stands_out_at_its_offset_and_scattered_cells_do_not():
    """As many bright cells near the diagonal, once at one offset and once at any of five: only the first is a line."""
    length, kinds = 40, torch.zeros(1, 40, dtype=torch.long)
    line, scattered = (torch.full((1, 1, length, length), 0.2) for _ in range(2))
    for row in range(2, length - 2):
        line[0, 0, row, row + 1] = 1.0
        scattered[0, 0, row, row + row % 5 - 2] = 1.0
    axes = Axes(kinds, torch.ones(1, length, dtype=torch.bool))
    found = [contrasts(one, sheared(one, REACH), axes) for one in (line, scattered)]
    shade, brighter, step = ([float(one[index]) for one in found] for index in (4, 5, 11))
    assert shade == pytest.approx([(36 + 3 * 0.2) / 40, (8 + 32 * 0.2) / 40], abs=0.02)
    assert brighter[0] == pytest.approx(36 * 0.8 / 40, abs=0.02)
    assert brighter[1] < 0.2
    assert step[0] == pytest.approx(36 * 0.8 / 39, abs=0.02)
    assert step[1] < 0.2


def test_measures_equal_plain_loops_on_padded_batches(batch):
    items, padded = batch
    found = measured(padded)
    assert found.shape == (len(items), MEASURES)
    for number, item in enumerate(items):
        expected = plain_measures(item.weights.astype(np.float64), item.token_class.tolist())
        np.testing.assert_allclose(found[number].numpy(), expected, atol=2e-3, err_msg=str(number))


def test_tokens_that_are_left_out_are_moved_behind_all_others():
    maps = torch.rand(2, 1, 4, 4)
    kinds, widths = torch.tensor([[1, 0, 3, 2]] * 2), torch.tensor([[1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    moved, kinds_moved, widths_moved = without_gaps(maps, kinds, widths)
    kept = [0, 2, 3]
    torch.testing.assert_close(moved[0, 0, :3, :3], maps[0, 0][kept][:, kept])
    assert (kinds_moved[0].tolist(), widths_moved[0].tolist()) == ([1, 3, 2, 0], [1.0, 2.0, 1.0, 0.0])
    torch.testing.assert_close(moved[1], maps[1])
