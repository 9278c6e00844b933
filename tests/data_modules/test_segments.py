"""Segments: pairs of paragraphs as tokens, the classes of tokens, the sample, and masking."""

from copy import copy

import numpy as np
import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from headscope.data_modules.batches.examples import collate
from headscope.data_modules.encoders.layout import TokenClasses, layout_of
from headscope.data_modules.readers.articles import Article
from headscope.data_modules.segments import (
    SAMPLE,
    SegmentDataModule,
    masked_tokens,
    paragraph_pairs,
    replaced_tokens,
    sampled,
)
from headscope.errors import ConfigError, InputError
from headscope.layout import Layout

OTHER, CLS, SEP, PUNCTUATION = range(4)
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SPECIAL = np.array([100, 101, 102, 0, 103])


@pytest.fixture
def segments(tmp_path, minilm):
    """A datamodule on articles that are given as lists of paragraphs."""

    def write(*articles, encoder=minilm, **options):
        file = tmp_path / "articles.txt"
        file.write_text("".join(f" = A{n} = \n" + "".join(f"{p}\n" for p in a) for n, a in enumerate(articles)))
        return SegmentDataModule(encoder=encoder, test=str(file), **options)

    return write


@pytest.fixture
def masking(minilm):
    """The packaged encoder as one whose inputs are masked."""
    encoder = copy(minilm)
    encoder.masks_tokens = True
    return encoder


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return minilm.tokenizer()


@pytest.fixture(scope="module")
def roberta_like():
    """A vocabulary that marks the start of a word, with its own special tokens."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", ".", "Ġ.", ",", "Ġ,", "▁.", "▁,", "...", "Ġthe", "Ġ;", "Ġ", "a."]
    words = models.WordLevel({token: number for number, token in enumerate(tokens)}, unk_token="<unk>")
    names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **names)


def items(data):
    return data.read_splits()["test"].items


def test_a_pair_by_hand(segments):
    (item,) = items(segments(["Hello world.", "Bye, all."]))
    assert item.input_ids.tolist() == [101, 7592, 2088, 1012, 102, 9061, 1010, 2035, 1012, 102]
    assert item.model_inputs["token_type_ids"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    classes = [CLS, OTHER, OTHER, PUNCTUATION, SEP, OTHER, PUNCTUATION, OTHER, PUNCTUATION, SEP]
    assert item.example.gold["token_class"].tolist() == classes
    assert item.word_ids.tolist() == list(range(10))
    assert item.size == 10
    assert "labels" not in item.model_inputs


def test_batches_are_padded(segments, ready):
    data = ready(segments(["Hello world.", "Bye, all."], ["Hello", "Bye"], maps=False))
    (host,) = data.test_dataloader()
    assert host["input_ids"].tolist()[1] == [101, 7592, 102, 9061, 102, 0, 0, 0, 0, 0]
    assert host["token_type_ids"].tolist()[1] == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    batch = data.on_after_batch_transfer(host, 0)
    assert batch.gold["token_class"].tolist()[1] == [CLS, OTHER, SEP, OTHER, SEP, -100, -100, -100, -100, -100]
    assert batch.mask.tolist()[1] == [True] * 5 + [False] * 5


def test_maps_are_those_of_the_tokens(segments, ready):
    data = ready(segments(["Hello world.", "Bye, all."]))
    (batch,) = (data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader())
    assert batch.maps.shape == (1, 6, 12, 10, 10)
    assert batch.maps.sum(-1).allclose(batch.maps.new_ones(()), atol=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(100, 4, {(13, 4)}), (4, 100, {(4, 13)}), (100, 100, {(8, 9), (9, 8)}), (12, 9, {(8, 9), (9, 8)}), (10, 7, {(10, 7)})],
)
def test_the_longer_paragraph_is_cut_first(segments, tokenizer, first, second, kept):
    words = [(NUMBERS * 10)[:count] for count in (first, second)]
    (item,) = items(segments([" ".join(part) for part in words], max_pieces=20))
    ids = item.input_ids.tolist()
    end = ids.index(102)
    assert len(ids) == 20
    assert (end - 1, len(ids) - end - 2) in kept
    assert (ids[0], ids[-1]) == (101, 102)
    ones = [tokenizer.convert_tokens_to_ids(part) for part in words]
    assert ids[1:end] == ones[0][: end - 1]
    assert ids[end + 1 : -1] == ones[1][: len(ids) - end - 2]


def test_at_most_128_tokens_unless_told_otherwise(segments):
    long = " ".join(NUMBERS * 20)
    (item,) = items(segments([long, long]))
    assert len(item.input_ids) == len(item.example.gold["token_class"]) == len(item.model_inputs["token_type_ids"]) == 128


def test_classes_of_the_packaged_vocabulary(tokenizer):
    classes = TokenClasses(tokenizer, layout_of(tokenizer, causal=False)).of_id
    assert len(classes) == 30522
    assert np.flatnonzero(classes).tolist() == [101, 102, 1010, 1012]
    assert classes[[101, 102, 1010, 1012]].tolist() == [CLS, SEP, PUNCTUATION, PUNCTUATION]


def test_classes_of_a_vocabulary_that_marks_the_start_of_a_word(roberta_like):
    expected = [CLS, OTHER, SEP, OTHER, OTHER] + [PUNCTUATION] * 6 + [OTHER] * 5
    assert TokenClasses(roberta_like, Layout("<s>", "</s>")).of_id.tolist() == expected


def test_classes_without_special_tokens():
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "Ġ,": 1}, unk_token="a")))
    assert TokenClasses(plain, Layout(None, None)).of_id.tolist() == [OTHER, PUNCTUATION]


def test_pairs_follow_each_other_within_an_article():
    articles = [Article("1", ["a", "b", "c"]), Article("2", ["d"]), Article("3", []), Article("4", ["e", "f"])]
    assert paragraph_pairs(articles) == [("a", "b"), ("b", "c"), ("e", "f")]


def numbered(count):
    return [(f"p{place}", f"p{place + 1}") for place in range(count)]


@pytest.mark.parametrize("limit", [1, 7, 49])
def test_the_sample_keeps_the_limit_and_the_order(limit):
    pairs = numbered(50)
    chosen = sampled(pairs, limit, seed=3)
    assert len(chosen) == len(set(chosen)) == limit
    assert chosen == [pair for pair in pairs if pair in chosen]
    assert sampled(pairs, limit, seed=3) == chosen


def test_another_seed_gives_another_sample():
    assert len({tuple(sampled(numbered(50), 7, seed)) for seed in range(5)}) == 5


@pytest.mark.parametrize("limit", [None, 50, 51])
def test_all_pairs_where_there_are_no_more_than_the_limit(limit):
    assert sampled(numbered(50), limit, seed=0) == numbered(50)


def test_the_sample_is_no_start_of_the_text():
    assert {pair for seed in range(30) for pair in sampled(numbered(10), 3, seed)} == set(numbered(10))


def test_limit_and_seed_of_the_data(segments):
    article = [f"Paragraph {word}." for word in NUMBERS]
    chosen = {seed: segments(article, limit=3, seed=seed).read_examples()["test"] for seed in (0, 1, 2, 3)}
    assert all(len(examples) == 3 for examples in chosen.values())
    assert len({tuple(example.words for example in examples) for examples in chosen.values()}) > 1
    assert chosen[0] == segments(article, limit=3, seed=0).read_examples()["test"]


def test_short_articles_are_left_out_and_counted(segments, caplog):
    data = segments(["a", "b"], ["alone"], ["alone too"], ["c", "d", "e"])
    assert [example.words for example in data.read_examples()["test"]] == [("a", "b"), ("c", "d"), ("d", "e")]
    assert data.left_out == {"articles of fewer than two paragraphs": 2}
    assert data.source().left_out == data.left_out
    assert "left out 2 articles" in caplog.text


def test_only_short_articles_are_an_error_that_names_the_file(segments, tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/articles.txt: expected articles of two or more paragraphs"):
        segments(["alone"], ["alone too"]).read_examples()


def test_several_files_of_a_folder(minilm, tmp_path):
    (tmp_path / "b.txt").write_text("three\nfour\n")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "README.md").write_text("no\ntext\n")
    data = SegmentDataModule(encoder=minilm, test=str(tmp_path))
    assert [example.words for example in data.read_examples()["test"]] == [("one", "two"), ("three", "four")]
    assert data.files() == [tmp_path / "a.txt", tmp_path / "b.txt"]


def test_packaged_articles_without_a_file(minilm):
    data = SegmentDataModule(encoder=minilm)
    assert data.files() == [SAMPLE / "articles.txt"]
    assert len(data.read_examples()["test"]) == 72 - 14


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_out_of_range_is_a_configuration_error(minilm, share):
    with pytest.raises(ConfigError, match=f"^data.mask_share={share}: expected a share between 0 and 1"):
        SegmentDataModule(encoder=minilm, mask_share=share)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_a_configuration_error(minilm, limit):
    with pytest.raises(ConfigError, match=f"^data.limit={limit}: "):
        SegmentDataModule(encoder=minilm, limit=limit)


@pytest.mark.parametrize(
    ("plain", "share", "expected"),
    [(100, 0.15, 15), (20, 0.15, 3), (1, 0.15, 1), (3, 0.01, 1), (10, 0.99, 10), (0, 0.1, 0)],
)
def test_a_share_of_the_plain_tokens_is_masked_and_at_least_one(plain, share, expected):
    ids = np.array([101, *range(2000, 2000 + plain), 102, 100, 102])
    masked = masked_tokens(ids, SPECIAL, share, [0, 0])
    assert masked.sum() == expected
    assert not masked[np.isin(ids, SPECIAL)].any()


def test_masking_is_drawn_by_the_seed():
    ids = np.arange(2000, 2100)
    drawn = [masked_tokens(ids, SPECIAL, 0.15, [seed, place]).tolist() for seed in (0, 1) for place in (0, 1)]
    assert len(set(map(tuple, drawn))) == 4
    assert drawn[3] == masked_tokens(ids, SPECIAL, 0.15, [1, 1]).tolist()


def test_any_plain_token_may_be_masked():
    ids = np.array([101, *range(2000, 2010), 102])
    ever = np.any([masked_tokens(ids, SPECIAL, 0.15, [seed, 0]) for seed in range(200)], axis=0)
    assert ever.tolist() == [False] + [True] * 10 + [False]


def test_labels_hold_what_the_mask_hides(segments, masking):
    article = [" ".join(NUMBERS * 2) + ".", " ".join(NUMBERS) + ", " + " ".join(NUMBERS), "ten nine."]
    plain, masked = items(segments(article)), items(segments(article, encoder=masking, masking="all"))
    for without, item in zip(plain, masked, strict=True):
        labels, hidden = item.model_inputs["labels"], item.input_ids == 103
        assert hidden.sum() == max(1, round(0.15 * (len(item.input_ids) - 3)))
        assert np.array_equal(labels != -100, hidden)
        assert np.array_equal(np.where(hidden, labels, item.input_ids), without.input_ids)
        assert not np.isin(labels, [101, 102]).any()
        assert np.array_equal(item.model_inputs["token_type_ids"], without.model_inputs["token_type_ids"])
        assert np.array_equal(item.example.gold["token_class"][hidden], np.zeros(hidden.sum()))


def test_masking_follows_seed_and_share_but_no_batch(segments, masking, tokenizer):
    article = [" ".join(NUMBERS[place:] + NUMBERS) for place in range(6)]
    data = segments(article, encoder=masking, seed=4)
    again = segments(article, encoder=masking, seed=4, batch_tokens=1, batch_size=1)
    first_two = data.tokenise(data.read_examples()["test"][:2], tokenizer).items
    for one, other in [*zip(items(data), items(again), strict=True), *zip(items(data)[:2], first_two, strict=True)]:
        assert np.array_equal(one.input_ids, other.input_ids)
    other_seed = items(segments(article, encoder=masking, seed=5))
    assert any(not np.array_equal(a.input_ids, b.input_ids) for a, b in zip(items(data), other_seed, strict=True))
    half = items(segments(article, encoder=masking, mask_share=0.5, masking="all"))
    assert all((item.input_ids == 103).sum() == round(0.5 * (len(item.input_ids) - 3)) for item in half)


def test_labels_reach_the_batch_padded(segments, masking):
    split = segments([" ".join(NUMBERS), "one", "two"], encoder=masking, masking="all").read_splits()["test"]
    batch = collate([split[0], split[1]])
    assert batch["labels"].shape == batch["input_ids"].shape == (2, 14)
    assert batch["labels"][1, 5:].tolist() == [-100] * 9
    assert ((batch["labels"] != -100) == (batch["input_ids"] == 103)).all()


def test_bert_s_masking_by_a_loop_and_in_its_shares():
    """Of the masked tokens about 80 % [MASK], 10 % another plain token, 10 % as they are; of the others none changes."""
    ids, special = np.arange(1000, 21000, dtype=np.int32), np.array([100, 101, 102, 103])
    masked = np.arange(20000) % 2 == 0
    found = replaced_tokens(ids, masked, special, 30522, 103, "bert", [0, 7])
    assert np.array_equal(found[~masked], ids[~masked])
    shares = [np.mean(found[masked] == 103), np.mean(found[masked] == ids[masked])]
    assert shares == pytest.approx([0.8, 0.1], abs=0.012)
    drawn = found[masked & (found != 103) & (found != ids)]
    assert not np.isin(drawn, special).any()
    assert len(np.unique(drawn)) > 0.9 * len(drawn)
    assert np.array_equal(found, replaced_tokens(ids, masked, special, 30522, 103, "bert", [0, 7]))
    assert np.array_equal(replaced_tokens(ids, masked, special, 30522, 103, "all", [0, 7]) == 103, masked)


def test_the_segment_that_is_drawn_is_the_shortest_that_can_be(segments):
    long, short, shorter = " ".join(NUMBERS * 3), " ".join(NUMBERS), " ".join(NUMBERS[:4])
    (drawn,) = segments([long, short, shorter, "one"]).facts().drawn
    assert drawn.index == 1  # the second pair; the third is too short to show anything
    assert drawn.tokens == ("[CLS]", *NUMBERS, "[SEP]", *NUMBERS[:4], "[SEP]")
    assert segments(["one", "two"]).facts().drawn == ()
