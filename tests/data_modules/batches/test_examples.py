"""Alignment of pieces to words, by hand and word by word, and padded batches by hand."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.batches.examples import (
    BucketSampler,
    Budget,
    BudgetSampler,
    Encoded,
    Example,
    Split,
    align,
    budget_batches,
    collate,
    collate_idle,
    collate_part,
    encode,
    pad,
    pad_blocks,
)
from headscope.data_modules.batches.map_store import MapStore
from headscope.data_modules.batches.word_vectors import VectorTable
from headscope.data_modules.encoders.frozen import FrozenEncoder

CLS, SEP, PAD = 101, 102, 0
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SENTENCES = [
    ("The", "unbelievably", "small", "otters", "slept", "."),
    ("I", "\u2764\ufe0f", "\ufe0f", "you", "\u200d", "\U0001f469\u200d\U0001f52c", "!", "\x07", "ok"),
    ("\u200d", "first", "and", "last", "\x00"),
    ("New York", "[SEP]", "[CLS]", "e.g.", "don't", "n't", "caf\u00e9", "\u4f60\u597d", "..."),
    ("\x07", "\u200d"),
]
LENGTHS = np.random.default_rng(0).integers(3, 60, size=203)


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return minilm.tokenizer()


@pytest.fixture
def byte_level(tmp_path):
    """A RoBERTa tokenizer, trained on a line, whose own setting adds no space before the first word."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=ROBERTA_SPECIALS, initial_alphabet=alphabet)
    made.train_from_iterator(["a cat sleeps , the cat sleeps"] * 5, trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    made.save(str(tmp_path / "tokenizer.json"))
    specials = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    settings = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": False} | specials
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
    return FrozenEncoder(str(tmp_path)).tokenizer()


def encoded(words, tokenizer, **options):
    return encode([Example(words, {})], tokenizer, 128, **options)


def word_by_word(words, tokenizer):
    """Ids and word ids of pieces that each word has when it is tokenised by itself."""
    pieces = [tokenizer.encode(word, add_special_tokens=False) for word in words]
    ids = [CLS, *(piece for word in pieces for piece in word), SEP]
    word_ids = [0, *(place for place, word in enumerate(pieces, start=1) for _ in word), -1]
    return ids, word_ids, sum(not word for word in pieces)


@pytest.mark.parametrize("words", SENTENCES, ids=lambda words: ascii(words[0]))
def test_alignment_equals_tokenising_each_word_by_itself(words, tokenizer):
    ids, word_ids, dropped = word_by_word(words, tokenizer)
    split = encoded(words, tokenizer)
    assert split.items[0].input_ids.tolist() == ids
    assert split.items[0].word_ids.tolist() == word_ids
    assert split.dropped_words == dropped


def test_words_that_the_tokenizer_drops_shift_nobody(tokenizer):
    split = encoded(("a", "\u200d", "b", "\ufe0f", "\x07", "cats"), tokenizer)
    assert tokenizer.convert_ids_to_tokens(split.items[0].input_ids.tolist()) == ["[CLS]", "a", "b", "cats", "[SEP]"]
    assert split.items[0].word_ids.tolist() == [0, 1, 3, 6, -1]
    assert split.items[0].size == 7
    assert split.dropped_words == 3


def test_too_long_examples_are_skipped_and_counted(tokenizer):
    """`a` is one piece, so n of them are n + 2 tokens."""
    examples = [Example(("a",) * words, {}) for words in (7, 8, 9, 200, 3)]
    split = encode(examples, tokenizer, 10)
    assert [len(item.example.words) for item in split.items] == [7, 8, 3]
    assert split.lengths.tolist() == [9, 10, 5]
    assert (len(split), split.skipped) == (3, 2)


def test_skipped_examples_shift_nobody(tokenizer):
    examples = [Example(words, {}) for words in [("a",) * 50, *SENTENCES, ("b",) * 50, ("cats",)]]
    split = encode(examples, tokenizer, 40)
    assert [item.example.words for item in split.items] == [*SENTENCES, ("cats",)]
    for item in split.items:
        assert item.input_ids.tolist() == word_by_word(item.example.words, tokenizer)[0]


def test_byte_level_pieces_begin_with_a_space_in_every_word(byte_level):
    item = encoded(("cat", "sleeps", ",", "\u200d", "a"), byte_level).items[0]
    tokens = byte_level.convert_ids_to_tokens(item.input_ids.tolist())
    of_word = [[token for token, word in zip(tokens, item.word_ids, strict=True) if word == w] for w in range(-1, 6)]
    assert of_word[0] == ["</s>"]
    assert of_word[1] == ["<s>"]
    assert ["".join(word) for word in of_word[2:]] == ["Ġcat", "Ġsleeps", "Ġ,", "ĠâĢį", "Ġa"]


def test_align_by_hand():
    words = [None, 0, 0, 2, None, None]
    assert align(np.array([9, 1, 2, 3, 8, 9]), words, 9).tolist() == [0, 1, 1, 3, -1, -1]
    assert align(np.array([9, 1, 2, 3, 8, 9]), words, 8).tolist() == [-1, 1, 1, 3, 0, -1]
    assert align(np.array([9, 1, 9, 3, 8, 9]), words, None).tolist() == [-1, 1, 1, 3, -1, -1]
    assert align(np.array([5, 9, 9]), [0, 1, 2], 9).tolist() == [1, 2, 3]


def test_vector_ids_follow_the_words_behind_a_zero_for_root(tokenizer):
    table = VectorTable({"cats": 1, "sleep": 2}, torch.zeros(3, 4))
    item = encoded(("Sleep", "unheard-of", "cats"), tokenizer, vectors=table).items[0]
    assert item.vector_ids.tolist() == [0, 2, 0, 1]
    assert encoded(("cats",), tokenizer).items[0].vector_ids is None


@pytest.fixture
def two_items():
    """Two and one words, with gold and vectors, as they would come from `encode`."""
    first = Example(("a", "bc"), {"governors": np.array([-100, 2, 0]), "control": np.array([-100, 0, 1])})
    second = Example(("d",), {"governors": np.array([-100, 0]), "control": np.array([-100, 0])})
    return [
        Encoded(first, np.array([101, 7, 8, 9, 102]), np.array([0, 1, 2, 2, -1]), 3, np.array([0, 3, 0])),
        Encoded(second, np.array([101, 6, 102]), np.array([0, 1, -1]), 2, np.array([0, 4])),
    ]


def test_collate_by_hand(two_items):
    batch = collate([(7, two_items[0], {}), (2, two_items[1], {})])
    gold = batch.pop("gold")
    assert {name: value.tolist() for name, value in batch.items()} == {
        "input_ids": [[101, 7, 8, 9, 102], [101, 6, 102, PAD, PAD]],
        "attention_mask": [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]],
        "word_ids": [[0, 1, 2, 2, -1], [0, 1, -1, -1, -1]],
        "mask": [[True, True, True], [True, True, False]],
        "vector_ids": [[0, 3, 0], [0, 4, 0]],
        "index": [7, 2],
    }
    assert {name: value.tolist() for name, value in gold.items()} == {
        "governors": [[-100, 2, 0], [-100, 0, -100]],
        "control": [[-100, 0, 1], [-100, 0, -100]],
    }


def gold_rows(count):
    """Inputs of different lengths whose gold is their number from 1, as a word's head or a score."""
    items = []
    for number in range(1, count + 1):
        gold = {"governors": np.full(number, number, dtype=np.int16), "label": np.array([number / 2], dtype=np.float32)}
        items.append(Encoded(Example((), gold), np.arange(number), np.arange(number), number))
    return [(place, item, {}) for place, item in enumerate(items)]


@pytest.mark.parametrize(("count", "processes"), [(5, 1), (5, 2), (5, 3), (4, 4), (8, 3)])
def test_parts_of_a_batch_hold_each_input_once(count, processes):
    parts = [collate_part(gold_rows(count), rank, processes) for rank in range(processes)]
    assert sorted(place for part in parts for place in part["index"].tolist()) == list(range(count))
    assert {part["whole"] for part in parts} == {count}
    assert all(part["gold"]["governors"].max(1).values.tolist() == (part["index"] + 1).tolist() for part in parts)


def test_a_process_without_an_input_gets_one_without_gold():
    rows = gold_rows(2)
    part = collate_part(rows, rank=2, processes=4)
    assert (part["index"].tolist(), part["input_ids"].tolist(), part["whole"]) == ([0], [[0]], 2)
    assert part["gold"]["governors"].tolist() == [[-100]]
    assert part["gold"]["label"].tolist() == [[-100.0]]
    assert rows[0][1].example.gold["governors"].tolist() == [1]  # the input itself keeps its gold


def test_nor_does_it_get_the_words_behind_masked_tokens():
    inputs = {"token_type_ids": np.array([0, 0, 1]), "labels": np.array([-100, 7, -100])}
    rows = [(0, Encoded(Example((), {}), np.arange(3), np.arange(3), 3, model_inputs=inputs), {})]
    part = collate_part(rows, rank=1, processes=2)
    assert (part["labels"].tolist(), part["token_type_ids"].tolist()) == ([[-100, -100, -100]], [[0, 0, 1]])
    assert collate_part(rows, rank=0, processes=2)["labels"].tolist() == [[-100, 7, -100]]


def test_split_hands_out_stored_arrays_with_their_items(two_items, tmp_path):
    store = MapStore(tmp_path, [(1, 1, 3, 3), (1, 1, 2, 2)])
    maps = [np.arange(9, dtype=np.float16).reshape(1, 1, 3, 3), np.full((1, 1, 2, 2), 7, dtype=np.float16)]
    store.write(0, enumerate(maps))
    split = Split(two_items, stores={"maps": store})
    assert split[0][1] is two_items[0]
    batch = collate([split[1], split[0]])
    assert batch["maps"].tolist() == [[[[[7, 7, 0], [7, 7, 0], [0, 0, 0]]]], [[[[0, 1, 2], [3, 4, 5], [6, 7, 8]]]]]
    assert batch["input_ids"].tolist() == [[101, 6, 102, 0, 0], [101, 7, 8, 9, 102]]


def test_pad_by_hand():
    assert pad([np.array([1, 2]), np.array([3]), np.array([], dtype=int)], -1).tolist() == [[1, 2], [3, -1], [-1, -1]]
    blocks = pad_blocks([np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])])
    assert blocks.tolist() == [[[1, 2], [0, 0]], [[3, 0], [4, 0]]]


def epoch_of(epoch, lengths=LENGTHS, batch_size=16, seed=7):
    sampler = BucketSampler(lengths, batch_size, seed)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(sampler) == len(batches)
    return batches


def flat(batches):
    return [place for batch in batches for place in batch]


@pytest.mark.parametrize(("length", "expected"), [(10, 10), (20, 4), (50, 1), (100, 1), (101, 1), (1000, 1)])
def test_examples_of_a_length_by_hand(length, expected):
    """100 tokens; 3 maps of 5000 cells: 1666 cells a map, so 16 of length 10, 4 of 20, none of 50."""
    assert Budget(tokens=100, cells=5000, maps=3).examples(length) == expected


def test_either_part_of_the_budget_can_bind():
    assert Budget(tokens=40, cells=10**9, maps=3).examples(10) == 4
    assert Budget(tokens=10**9, cells=1200, maps=3).examples(10) == 4


@pytest.mark.parametrize("budget", [Budget(200, 10**9, 72), Budget(10**9, 72 * 4000, 72), Budget(300, 72 * 5000, 72)])
def test_budget_is_kept_and_used(budget):
    batches = budget_batches(LENGTHS, budget)
    assert sorted(flat(batches)) == list(range(203))
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        longest = max(int(LENGTHS[place]) for place in batch)
        assert len(batch) * longest <= budget.tokens
        assert len(batch) * longest**2 * budget.maps <= budget.cells
        one_more = len(batch) + 1
        assert following is None or one_more * longest > budget.tokens or one_more * longest**2 * budget.maps > budget.cells


def test_an_over_long_example_stands_alone():
    batches = budget_batches(np.array([5, 100, 5, 5]), Budget(tokens=15, cells=10**9, maps=1))
    assert [batch.tolist() for batch in batches] == [[1], [0, 2, 3]]


def test_evaluation_batches_by_hand():
    lengths = np.array([4, 9, 2, 9, 3, 1])
    batches = list(BudgetSampler(lengths, Budget(tokens=18, cells=10**9, maps=1)))
    assert batches == [[1, 3], [0, 4, 2, 5]]


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_evaluation_batches_are_shared_without_overlap_or_loss(processes):
    budget = Budget(200, 10**9, 1)
    parts = [BudgetSampler(LENGTHS, budget, rank, processes) for rank in range(processes)]
    assert sorted(place for part in parts for place in flat(part)) == list(range(203))
    assert [len(part) for part in parts] == [len(list(part)) for part in parts]


@pytest.mark.parametrize(("lengths", "processes"), [(LENGTHS, 2), (LENGTHS, 5), (np.array([4, 9, 2, 9, 3, 1]), 3)])
def test_evaluation_batches_are_the_same_however_many_processes_share_them(lengths, processes):
    budget = Budget(200, 10**9, 1)
    parts = [BudgetSampler(lengths, budget, rank, processes) for rank in range(processes)]
    shared = [batch for part in parts if not part.idle for batch in part]
    assert sorted(shared) == sorted(BudgetSampler(lengths, budget))


def test_a_process_without_a_batch_takes_the_shortest_input_and_counts_none():
    parts = [BudgetSampler(np.array([4, 9, 2]), Budget(100, 10**9, 1), rank, processes=2) for rank in range(2)]
    assert [(part.idle, list(part)) for part in parts] == [(False, [[1, 0, 2]]), (True, [[2]])]
    part = collate_idle(gold_rows(2), collate)
    assert (part["whole"], part["index"].tolist()) == (0, [0, 1])


def test_a_batch_without_inputs_keeps_shapes_and_types():
    batch = AttentionBatch(torch.ones(2, 3, dtype=torch.bool), {"label": torch.ones(2, 1)}, index=torch.tensor([4, 5]))
    none = batch.without_inputs()
    assert (none.mask.shape, none.mask.dtype) == ((0, 3), torch.bool)
    assert (none.gold["label"].shape, none.index.dtype, none.maps) == ((0, 1), torch.int64, None)


@pytest.mark.parametrize("epoch", [0, 1, 5])
@pytest.mark.parametrize("batch_size", [1, 16, 203, 1000])
def test_every_example_once_an_epoch(epoch, batch_size):
    batches = epoch_of(epoch, batch_size=batch_size)
    assert sorted(flat(batches)) == list(range(203))
    assert sorted(map(len, batches))[1:] == [batch_size] * (len(batches) - 1)


def test_order_depends_on_seed_and_epoch_alone():
    first = epoch_of(2)
    np.random.seed(99)
    assert epoch_of(2) == first
    assert epoch_of(3) != first
    assert epoch_of(2, seed=8) != first


def test_two_epochs_of_one_sampler_without_set_epoch_are_alike():
    sampler = BucketSampler(LENGTHS, 16, 7)
    assert list(sampler) == list(sampler) == epoch_of(0)


def test_batches_hold_similar_lengths():
    """Batches are runs of the sorted lengths: their ranges overlap in no more than an end."""
    ranges = sorted((int(min(LENGTHS[batch])), int(max(LENGTHS[batch]))) for batch in epoch_of(1))
    assert all(before[1] <= after[0] for before, after in zip(ranges, ranges[1:], strict=False))
    assert [int(LENGTHS[batch[0]]) for batch in epoch_of(1)] != sorted(LENGTHS[batch[0]] for batch in epoch_of(1))
