"""Pictures of maps against loops over cells and tokens; padding, thin lines, stretched axes."""

import numpy as np
import pytest
import torch

from headscope.probes.patterns.augmentation import augmented, relabelled
from headscope.probes.patterns.resampling import CLS, SEP, column_kinds, even_widths, overlaps, resampled, sentence_pictures

SIZE = 8
LENGTHS = [13, 8, 5, 3]


@pytest.fixture
def drawn():
    """Maps of several lengths, zero beyond each; rows of padding filled as softmax fills them."""
    draw = torch.Generator().manual_seed(5)
    real = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    scores = 2 * torch.randn(len(LENGTHS), 3, max(LENGTHS), max(LENGTHS), generator=draw)
    return scores.masked_fill(~real[:, None, None], -torch.inf).softmax(-1), real


def looped(weights, size):
    """Every pair of tokens gives each cell its part: of the query's row by area, of the key's mass by share."""
    length = len(weights)
    picture = np.zeros((size, size))

    def covered(cell, token):
        return max(0.0, min((cell + 1) / size, (token + 1) / length) - max(cell / size, token / length))

    for row in range(size):
        for column in range(size):
            for query in range(length):
                for key in range(length):
                    part = covered(row, query) * size * covered(column, key) * length
                    picture[row, column] += part * weights[query, key]
    return picture


def test_pictures_equal_a_plain_loop_whatever_the_padding(drawn):
    maps, real = drawn
    pictures = resampled(maps, even_widths(real), SIZE)[:, :, 0]
    for place, length in enumerate(LENGTHS):
        for head in range(3):
            expected = looped(maps[place, head, :length, :length].double().numpy(), SIZE)
            assert pictures[place, head].numpy() == pytest.approx(expected, abs=1e-5)
    spoilt = maps.masked_fill(~(real[:, None, :, None] & real[:, None, None]), 7.0)
    torch.testing.assert_close(resampled(spoilt, even_widths(real), SIZE)[:, :, 0], pictures)
    torch.testing.assert_close(pictures.sum(-1), torch.ones(len(LENGTHS), 3, SIZE))


def test_a_map_of_the_picture_s_size_stays_as_it_is(drawn):
    maps, real = drawn
    pictures = resampled(maps[1:2, :, :8, :8], even_widths(real[1:2, :8]), SIZE)
    torch.testing.assert_close(pictures[:, :, 0], maps[1:2, :, :8, :8], atol=1e-5, rtol=0)


@pytest.mark.parametrize("length", [8, 29, 128])
def test_thin_lines_keep_all_their_weight(length):
    """A diagonal and a single column of a long input are as strong as those of a short one."""
    maps = torch.zeros(1, 2, length, length)
    maps[0, 0] = torch.eye(length)
    maps[0, 1, :, length // 2] = 1
    pictures = resampled(maps, torch.ones(1, length), SIZE)[0, :, 0]
    band = sum(pictures[0].diagonal(offset).sum() for offset in (-1, 0, 1))
    assert band == pytest.approx(SIZE, abs=1e-3)
    columns = pictures[1].sum(0)
    assert columns.sort().values[-3:].sum() == pytest.approx(SIZE, abs=1e-3)


def test_columns_of_special_tokens_have_a_picture_of_their_own(drawn):
    maps, real = drawn
    classes = torch.zeros(4, 13, dtype=torch.long)
    classes[:, 0], classes[0, 6], classes[0, 12] = CLS, SEP, SEP
    both = resampled(maps, even_widths(real), SIZE, column_kinds(classes))
    torch.testing.assert_close(both.sum(2), resampled(maps, even_widths(real), SIZE)[:, :, 0])
    only = maps.clone()
    only[..., 1:6] = only[..., 7:12] = 0
    torch.testing.assert_close(both[0, :, 1], resampled(only, even_widths(real), SIZE)[0, :, 0])


def test_sentences_of_a_pair_are_blocks_and_a_single_one_is_none():
    pair = torch.tensor([[CLS, 0, 0, SEP, 0, 0, 0, SEP], [CLS, 0, 0, 0, 0, 0, 0, SEP]])
    picture = sentence_pictures(pair, torch.ones(2, 8), 8)[:, 0]
    first, second = torch.zeros(8), torch.zeros(8)
    first[1:3], second[4:7] = 1, 1
    torch.testing.assert_close(picture[0], first.outer(first) + second.outer(second), atol=1e-5, rtol=0)
    assert not picture[1].any()


def test_wider_tokens_cover_more_cells_and_those_of_no_width_none():
    covered = overlaps(torch.tensor([[2.0, 0.0, 1.0, 1.0]]), 4)[0] * 4
    expected = torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    torch.testing.assert_close(covered, expected)


def test_augmentation_keeps_rows_special_tokens_and_what_is_strong(drawn):
    maps, real = drawn
    classes = torch.zeros(4, 13, dtype=torch.long)
    classes[:, 0], classes[0, 12] = CLS, SEP
    torch.manual_seed(0)
    changed, widths = augmented(maps, real, classes, noise=0.3, strength=0.2, stretch=0.3, drop=0.9)
    kept = widths > 0
    assert kept[:, 0].all()
    assert kept[0, 12]
    assert not kept[~real].any()
    assert kept.sum() < real.sum()
    torch.testing.assert_close(changed.sum(-1), torch.ones(4, 3, 13))
    assert not changed.masked_select(~kept[:, None, None].expand_as(changed)).any()
    torch.manual_seed(0)
    torch.testing.assert_close(augmented(maps, real, classes, 0.3, 0.2, 0.3, 0.9), (changed, widths))
    same, even = augmented(maps, real, classes, noise=0.0, strength=0.0, stretch=0.0, drop=0.0)
    torch.testing.assert_close(same, maps, atol=1e-6, rtol=0)
    torch.testing.assert_close(even, real.float())


def test_columns_taken_from_or_given_to_a_diagonal_make_another_class():
    tokens = torch.tensor([[CLS, 0, 0, 0, 0, SEP]] * 5)
    both = 0.5 * torch.eye(6) + 0.5 * torch.eye(6)[0]
    maps = torch.stack([both, torch.eye(6), both, both, both])[:, None]
    votes = 0.7 * torch.eye(5)[[2, 1, 0, 3, 4]] + 0.3 * torch.eye(5)[[0, 4, 1, 2, 3]]
    torch.manual_seed(0)
    changed, new = relabelled(maps, tokens, votes, share=1.0)
    swapped = 0.7 * torch.eye(5)[[1, 2, 0, 3, 4]] + 0.3 * torch.eye(5)[[0, 4, 1, 2, 3]]
    torch.testing.assert_close(new, swapped)
    torch.testing.assert_close(changed.sum(-1), torch.ones(5, 1, 6))
    ordinary = slice(1, 5)
    to_special = changed[:, 0, ordinary][:, :, [0, 5]].sum(-1).mean(1)
    assert to_special[0] < 0.1 < to_special[1]
    assert 0.2 <= to_special[1] <= 0.6
    torch.testing.assert_close(changed[2:], maps[2:])
    kept, same = relabelled(maps, tokens, votes, share=0.0)
    torch.testing.assert_close(kept, maps)
    torch.testing.assert_close(same, votes)
