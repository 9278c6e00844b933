"""The words of a shown input: which tokens are pieces of which."""

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import BatchEncoding, PreTrainedTokenizerFast

from headscope.data_modules.encoders.sentences import Shown, words_of


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return minilm.tokenizer()


@pytest.mark.parametrize(
    ("shown", "tokens", "words", "ids"),
    [
        (
            Shown(("Do", "n't", "photosynthesise", "!"), split=True),
            "[CLS] do n ' t photos ##yn ##thesis ##e ! [SEP]",
            ["Do", "n't", "photosynthesise", "!"],
            [None, 0, 1, 1, 1, 2, 2, 2, 2, 3, None],
        ),
        (
            Shown(("Birds sing.", "Birds photosynthesise")),  # a pair: words of the second are others than of the first
            "[CLS] birds sing . [SEP] birds photos ##yn ##thesis ##e [SEP]",
            ["Birds", "sing", ".", "Birds", "photosynthesise"],
            [None, 0, 1, 2, None, 3, 4, 4, 4, 4, None],
        ),
    ],
)
def test_tokens_are_told_with_their_words(tokenizer, shown, tokens, words, ids):
    encoding = shown.tokenised(tokenizer)
    assert tokenizer.convert_ids_to_tokens(encoding["input_ids"]) == tokens.split()
    assert words_of(shown, encoding) == {"words": words, "word_ids": ids}


def test_a_tokenizer_that_does_not_know_words_tells_none():
    """As of those that do not split a text before they take it to pieces, and those without alignments."""
    shown = Shown(("Birds sing.",))
    letters = BPE(vocab={letter: index for index, letter in enumerate(sorted(set(shown.texts[0])))}, merges=[])
    whole = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(letters))
    assert len(shown.tokenised(whole)["input_ids"]) == 11
    assert words_of(shown, shown.tokenised(whole)) == {}
    assert words_of(shown, BatchEncoding({"input_ids": [1, 2]})) == {}
