"""Pooling of token maps and hidden states against plain loops over words and pieces."""

import pytest
import torch

from headscope.data_modules.batches.words import WordPooler, columns_by_index, columns_by_product, pool_hidden

# [CLS] is ROOT (0), [SEP] and padding have no word (-1). Words are split in three, in two, or have no piece.
SPLIT = [0, 1, 1, 1, 2, 3, 3, 4, -1, -1, -1, -1]
WITHOUT_PIECES = [0, 1, 3, 3, 4, 6, -1, -1, -1, -1, -1, -1]
ONE_WORD = [0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]
NO_ROOT = [1, 1, 2, 3, 4, 4, 4, 5, 6, 6, -1, -1]
WORD_IDS = torch.tensor([SPLIT, WITHOUT_PIECES, ONE_WORD, NO_ROOT])
WORDS = 7


@pytest.fixture
def maps():
    """Four inputs, three heads: rows of twelve tokens that sum to one."""
    return torch.rand(4, 3, 12, 12, generator=torch.Generator().manual_seed(0)).softmax(-1)


def looped(maps, word_ids, words, from_word="mean"):
    batch, heads, _, _ = maps.shape
    out = torch.zeros(batch, heads, words, words, dtype=torch.float64)
    for place in range(batch):
        pieces = [[t for t, word in enumerate(word_ids[place].tolist()) if word == w] for w in range(words)]
        for head in range(heads):
            for source in range(words):
                rows = pieces[source][:1] if from_word == "first" else pieces[source]
                for target in range(words):
                    received = [sum(maps[place, head, row, key].item() for key in pieces[target]) for row in rows]
                    out[place, head, source, target] = sum(received) / len(rows) if rows else 0.0
    return out.float()


@pytest.mark.parametrize("from_word", ["mean", "first"])
def test_pooling_equals_a_plain_loop(maps, from_word):
    pooled = WordPooler(WORD_IDS, WORDS, from_word)(maps)
    torch.testing.assert_close(pooled, looped(maps, WORD_IDS, WORDS, from_word), atol=1e-6, rtol=0)


def test_columns_are_summed_alike_by_index_and_by_product(maps):
    rows = maps[:, :, :WORDS]
    expected = torch.zeros(4, 3, WORDS, WORDS)
    for place, ids in enumerate(WORD_IDS.tolist()):
        for token, word in enumerate(ids):
            if word >= 0:
                expected[place, :, :, word] += rows[place, :, :, token]
    by_index, by_product = torch.empty_like(expected), torch.empty_like(expected)
    columns_by_index(rows, WORD_IDS, by_index)
    columns_by_product(rows, WordPooler(WORD_IDS, WORDS).key_members, by_product)
    torch.testing.assert_close(by_index, expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(by_product, expected, atol=1e-6, rtol=0)


def test_split_word_by_hand():
    maps = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]])
    word_ids = torch.tensor([[0, 1, 1, -1]])
    mean = torch.tensor([[0.1, 0.5], [0.2, 0.75]])
    first = torch.tensor([[0.1, 0.5], [0.4, 0.5]])
    torch.testing.assert_close(WordPooler(word_ids, 2)(maps[None, None])[0, 0], mean)
    torch.testing.assert_close(WordPooler(word_ids, 2, "first")(maps[None, None])[0, 0], first)


@pytest.mark.parametrize("from_word", ["mean", "first"])
def test_words_without_pieces_have_zero_rows_and_columns(maps, from_word):
    pooled = WordPooler(WORD_IDS, WORDS, from_word)(maps)
    without = [[word for word in range(WORDS) if word not in ids] for ids in WORD_IDS.tolist()]
    assert without == [[5, 6], [2, 5], [2, 3, 4, 5, 6], [0]]
    for place, words in enumerate(without):
        assert pooled[place, :, words].abs().max() == 0
        assert pooled[place, :, :, words].abs().max() == 0


def test_attention_to_separators_is_left_out(maps):
    pooled = WordPooler(WORD_IDS[:1], WORDS)(maps[:1])
    to_words = maps[0, :, 0, :8].sum(-1)
    torch.testing.assert_close(pooled[0, :, 0].sum(-1), to_words, atol=1e-6, rtol=0)
    assert (to_words < 0.9).all()


@pytest.mark.parametrize("from_word", ["mean", "first"])
def test_rows_sum_to_one_when_every_special_token_has_a_slot(maps, from_word):
    word_ids = torch.tensor([[0, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8]] * 4)
    sums = WordPooler(word_ids, 9, from_word)(maps).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-6, rtol=0)


def test_write_overwrites_what_was_there(maps):
    pooler, out = WordPooler(WORD_IDS, WORDS), torch.full((4, 3, WORDS, WORDS), 7.0)
    returned = pooler.write(maps, out)
    assert returned is out
    assert torch.equal(out, pooler(maps))


@pytest.mark.parametrize("from_word", ["mean", "first"])
def test_pieces_need_not_be_neighbours(maps, from_word):
    word_ids = torch.tensor([[1, 0, 2, 1, -1, 2, 1, 0, 3, -1, 3, 1]] * 4)
    pooled = WordPooler(word_ids, 4, from_word)(maps)
    torch.testing.assert_close(pooled, looped(maps, word_ids, 4, from_word), atol=1e-6, rtol=0)


def test_hidden_states_are_averaged_over_pieces():
    states = torch.rand(4, 12, 5, generator=torch.Generator().manual_seed(1))
    pooled = pool_hidden(states, WORD_IDS, WORDS)
    for place, ids in enumerate(WORD_IDS.tolist()):
        for word in range(WORDS):
            pieces = [states[place, token] for token, its_word in enumerate(ids) if its_word == word]
            expected = sum(pieces) / len(pieces) if pieces else torch.zeros(5)
            torch.testing.assert_close(pooled[place, word], expected, atol=1e-6, rtol=0)


def test_bfloat16_maps_can_be_pooled(maps):
    """MPNet and DeBERTa hand out bfloat16 maps when they are loaded in bfloat16."""
    pooled = WordPooler(WORD_IDS, WORDS)(maps.bfloat16())
    torch.testing.assert_close(pooled.float(), looped(maps, WORD_IDS, WORDS), atol=1e-2, rtol=0)
