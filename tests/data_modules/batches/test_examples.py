"""Alignment of pieces to words, by hand and word by word, and padded batches by hand."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from headscope.data_modules.batches.examples import (
    Encoded,
    Example,
    Split,
    align,
    collate,
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
