"""Layouts: special tokens, separators and padding of tokenizers, whether models look ahead, and what words see."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, PreTrainedTokenizerFast

from headscope.data_modules.encoders.layout import (
    TokenClasses,
    layout_of,
    padding_id,
    traits_of,
    visible_from_pieces,
    with_separator,
)
from headscope.layout import Layout

WORDS = ["<unk>", "<s>", "</s>", "<pad>", "a", "b", "c", "Ċ", ".", "Ġb", "Ġc"]
SPECIAL = {name: (name, WORDS.index(name)) for name in ("<s>", "</s>")}


def tokenizer(single="$A", pair="$A $B", byte_level=False, **names):
    """A vocabulary of a few words, with the given template."""
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else pre_tokenizers.Whitespace()
    used = [SPECIAL[name] for name in SPECIAL if name in f"{single} {pair}"]
    if used:
        words.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=used)
    elif byte_level:
        words.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", **names)


def test_the_packaged_encoder_has_the_layout_of_bert(minilm):
    assert minilm.layout() == Layout() == Layout("[CLS]", "[SEP]", causal=False, padding=0)


def test_a_template_that_starts_both_texts_alike_has_an_inner_first_token():
    own = with_separator(tokenizer("<s> $A", "<s> $A <s> $B", bos_token="<s>", eos_token="</s>"))
    layout = layout_of(own, causal=True)
    assert layout == Layout("<s>", "<s>", causal=True, padding=WORDS.index("</s>"))
    ids = np.array(own("a b", "c .")["input_ids"])
    assert TokenClasses(own, layout)(ids).tolist() == [1, 0, 0, 2, 0, 3]
    assert TokenClasses(own, layout)(np.array(own("c .")["input_ids"])).tolist() == [1, 0, 3]
    assert layout.said("from [CLS] to [SEP]") == "from <s> to inner <s>"


def test_texts_that_nothing_parts_are_parted_by_the_token_that_ends_a_text():
    own = with_separator(tokenizer(byte_level=True, eos_token="</s>"))
    encoding = own("a b", "c")
    assert own.convert_ids_to_tokens(encoding["input_ids"]) == ["a", "Ġb", "</s>", "c"]
    assert encoding.sequence_ids(0) == [0, 0, None, 1]
    assert [encoding.token_to_chars(1).start, encoding.token_to_chars(1).end] == [2, 3]  # without the space before it
    assert own("a b")["input_ids"] == [WORDS.index("a"), WORDS.index("Ġb")]
    assert layout_of(own, causal=True) == Layout(None, "</s>", causal=True, padding=WORDS.index("</s>"))
    cut = own("a b c", "c", truncation="longest_first", max_length=4)
    assert own.convert_ids_to_tokens(cut["input_ids"]) == ["a", "Ġb", "</s>", "c"]


def test_without_any_special_token_a_new_line_parts_the_texts():
    own = with_separator(tokenizer(byte_level=True))
    assert own.convert_ids_to_tokens(own("a", "c")["input_ids"]) == ["a", "Ċ", "c"]
    assert layout_of(own, causal=True) == Layout(None, "Ċ", causal=True, padding=WORDS.index("<unk>"))


def test_a_template_with_a_first_token_alone_keeps_it():
    own = with_separator(tokenizer("<s> $A", "<s> $A $B", bos_token="<s>", eos_token="</s>"))
    assert own.convert_ids_to_tokens(own("a", "b")["input_ids"]) == ["<s>", "a", "</s>", "b"]
    assert own.convert_ids_to_tokens(own("a")["input_ids"]) == ["<s>", "a"]


def test_a_template_that_ends_texts_has_no_first_token():
    own = with_separator(tokenizer("$A </s>", "$A </s> $B </s>", eos_token="</s>", pad_token="<pad>"))
    assert layout_of(own, causal=False) == Layout(None, "</s>", causal=False, padding=WORDS.index("<pad>"))
    ids = np.array(own("a", "b .")["input_ids"])
    assert TokenClasses(own, layout_of(own, causal=False))(ids).tolist() == [0, 2, 0, 3, 2]


def test_padding_is_never_the_token_that_ends_inputs():
    ends = tokenizer("<s> $A </s>", "<s> $A </s> $B </s>", bos_token="<s>", eos_token="</s>")
    assert padding_id(ends, ends("a", "b")["input_ids"]) == WORDS.index("<unk>")


@pytest.mark.parametrize("arch", ["bert", "roberta", "distilbert", "modernbert", "deberta-v2", "gpt2", "llama"])
def test_a_model_is_causal_where_none_of_its_maps_looks_ahead(arch, random_encoder):
    encoder, ahead = random_encoder(arch), []
    ids = torch.tensor([[101, 7592, 2088, 1012, 102]])
    encoder.load()(ids, torch.ones_like(ids), sink=lambda maps: ahead.append(float(maps.triu(1).sum())))
    assert encoder.layout().causal == (sum(ahead) == 0) == (arch in ("gpt2", "llama"))


@pytest.mark.parametrize(
    ("arch", "causal"),
    [
        ("mpnet", False),
        ("t5", False),
        ("bart", False),
        ("bloom", True),
        ("gpt_neox", True),
        ("opt", True),
        ("xlm", False),
        ("clip_text_model", True),
    ],
)
def test_families_that_say_it_in_other_ways(arch, causal):
    assert traits_of(AutoConfig.for_model(arch)).causal is causal


def test_what_is_told_of_segments_goes_to_models_that_take_it(random_encoder, minilm):
    assert "token_type_ids" in minilm.tokenizer()("a", "b")
    assert "token_type_ids" not in random_encoder("llama").tokenizer()("a", "b")


@pytest.mark.parametrize("from_word", ["mean", "first"])
def test_what_words_of_a_causal_model_see_is_what_their_pieces_see(from_word):
    """Word 3 has no piece, word 2 of the first input three; -1 is a special token or padding."""
    unit_ids = torch.tensor([[0, 1, 2, 2, 2, 4, -1], [0, 1, 1, -1, -1, -1, -1]])
    found = visible_from_pieces(unit_ids, 5, from_word)
    for ids, seen in zip(unit_ids.tolist(), found.tolist(), strict=True):
        for query in range(5):
            looking = [n for n, unit in enumerate(ids) if unit == query][: 1 if from_word == "first" else None]
            for key in range(5):
                pieces = [n for n, unit in enumerate(ids) if unit == key]
                assert seen[query][key] == any(piece <= one for one in looking for piece in pieces)


def test_what_a_word_of_a_causal_model_sees_is_where_its_map_can_be_above_zero(random_encoder, ready):
    from headscope.data_modules.treebank import TreebankDataModule

    data = ready(TreebankDataModule(encoder=random_encoder("llama"), limit=12, batch_tokens=256))
    for host in data.test_dataloader():
        batch = data.on_after_batch_transfer(host, 0)
        anywhere = (batch.maps.flatten(1, 2) > 0).any(1) & batch.mask[:, :, None] & batch.mask[:, None]
        assert torch.equal(batch.visible(), anywhere)


def test_a_layout_goes_through_results():
    layout = Layout("<s>", None, causal=True, padding=2)
    assert Layout.from_json(layout.to_json()) == layout
    assert Layout.from_json(None) == Layout()
    assert layout.said_in({"[CLS]": ["[SEP] and [CLS]", 3]}) == {"[CLS]": ["separator and <s>", 3]}
