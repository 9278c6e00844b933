"""Treebanks: gold arrays and the control task by hand, splits, and the packaged sample."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.contracts import DrawnInput, EncoderSpec, Facts
from headscope.data_modules import treebank
from headscope.data_modules.readers.conllu import Sentence, read_conllu
from headscope.data_modules.treebank import SAMPLE, TreebankDataModule, control_governors, hold_out
from headscope.errors import ConfigError, InputError

TWO = """\
# text = She didn't sleep.
1	She	she	PRON	_	_	4	nsubj	_	_
2-3	didn't	_	_	_	_	_	_	_	_
2	did	do	AUX	_	_	4	aux	_	_
3	n't	not	PART	_	_	4	advmod	_	_
4	sleep	sleep	VERB	_	_	0	root	_	_
5	.	.	PUNCT	_	_	4	punct	_	_

1	\U0001f44d	_	SYM	_	_	0	root	_	_
2	-	-	PUNCT	_	_	1	punct:dash	_	_
"""
# Relations by name: advmod 0, aux 1, nsubj 2, punct 3, punct:dash 4, root 5.
GOLD = [
    {"governors": [4, 4, 4, 0, 4], "relations": [2, 1, 0, 5, 3], "punctuation": [0, 0, 0, 0, 1]},
    {"governors": [0, 1], "relations": [5, 4], "punctuation": [0, 1]},
]


def named(names):
    return set(names.split())


UPOS = named("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X")
RELATIONS = named(
    "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl "
    "fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative "
    "xcomp"
)
SUBTYPES = named(
    "acl:relcl advcl:relcl aux:pass cc:preconj compound:prt csubj:pass det:predet nmod:desc nmod:poss nmod:unmarked "
    "nsubj:outer nsubj:pass obl:agent obl:unmarked"
)
COMMON = named(
    "punct det nsubj root case obj obl advmod amod mark aux conj nmod:poss xcomp cc advcl nmod nummod aux:pass "
    "acl:relcl nsubj:pass cop compound compound:prt ccomp"
)


@pytest.fixture
def two(tmp_path):
    """A file of two sentences."""
    file = tmp_path / "two.conllu"
    file.write_text(TWO, encoding="utf-8")
    return str(file)


@pytest.fixture(scope="module")
def sample():
    return {name: read_conllu([SAMPLE / f"{name}.conllu"]) for name in ("train", "val", "test")}


def numbered(count):
    return [Sentence((f"word{n}",), ("X",), (0,), ("root",), "") for n in range(count)]


def test_gold_by_hand(two, minilm):
    data = TreebankDataModule(encoder=minilm, test=two)
    for example, expected in zip(data.read_examples()["test"], GOLD, strict=True):
        gold = {name: array.tolist() for name, array in example.gold.items() if name not in ("control", "asked", "upos")}
        assert gold == {name: [-100, *values] for name, values in expected.items()}
    assert data.read_relations() == ["advmod", "aux", "nsubj", "punct", "punct:dash", "root"]
    assert data.read_examples()["test"][0].words == ("She", "did", "n't", "sleep", ".")


def test_gold_reaches_the_batch(two, minilm, ready):
    data = ready(TreebankDataModule(encoder=minilm, test=two, maps=False))
    (batch,) = (data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader())
    for name in ("governors", "relations", "punctuation"):
        longer, shorter = (gold[name] for gold in GOLD)
        assert batch.gold[name].tolist() == [[-100, *longer], [-100, *shorter, -100, -100, -100]]
    assert batch.mask.tolist() == [[True] * 6, [True] * 3 + [False] * 3]
    assert batch.maps is None


def test_facts(two, minilm):
    assert TreebankDataModule(encoder=minilm, test=two).facts() == Facts(
        kind="treebank",
        layers=6,
        heads=12,
        hidden_size=384,
        maps="attention",
        encoder=EncoderSpec(minilm.name),
        encoder_sha256=minilm.checksum(),
        relations=("advmod", "aux", "nsubj", "punct", "punct:dash", "root"),
        drawn=(DrawnInput(0, ("She", "did", "n't", "sleep", "."), (4, 4, 4, 0, 4), (2, 1, 0, 5, 3)),),
    )


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (9, 1), (10, 1), (29, 2), (140, 14)])
def test_a_tenth_is_held_out(count, held_out):
    sentences = numbered(count)
    kept, val = hold_out(sentences, seed=3)
    assert len(val) == held_out
    assert sorted(kept + val, key=sentences.index) == sentences
    assert kept == sorted(kept, key=sentences.index)
    assert hold_out(sentences, seed=3) == (kept, val)


def test_another_seed_holds_out_others():
    assert len({hold_out(numbered(100), seed)[1][0].words for seed in range(5)}) > 1


def test_train_alone_gives_up_a_tenth(minilm):
    data = TreebankDataModule(encoder=minilm, train=str(SAMPLE / "train.conllu"), seed=1)
    assert {name: len(part) for name, part in data.sentences().items()} == {"train": 126, "val": 14}
    together = data.sentences()["train"] + data.sentences()["val"]
    assert {s.source for s in together} == {s.source for s in read_conllu([SAMPLE / "train.conllu"])}


def test_val_file_leaves_train_whole(two, minilm):
    data = TreebankDataModule(encoder=minilm, train=str(SAMPLE / "train.conllu"), val=two)
    assert {name: len(part) for name, part in data.sentences().items()} == {"train": 140, "val": 2}


def test_one_sentence_is_too_few_to_hold_any_out(two, minilm):
    with pytest.raises(ConfigError, match="data.val is missing"):
        TreebankDataModule(encoder=minilm, train=two, limit=1).sentences()  # noqa: B018


def test_sample_is_used_when_no_file_is_given(minilm, sample):
    data = TreebankDataModule(encoder=minilm)
    assert data.sentences() == sample
    assert data.files() == [SAMPLE / f"{name}.conllu" for name in ("train", "val", "test")]


@pytest.mark.parametrize(
    ("given", "missing"), [("train", "test"), ("val", "test"), ("val", "train"), ("test", "train"), ("test", "val")]
)
def test_asking_for_a_split_without_file_names_its_key(two, minilm, ready, given, missing):
    data = ready(TreebankDataModule(encoder=minilm, maps=False, **{given: two}))
    with pytest.raises(ConfigError, match=f"^data.{missing} is missing"):
        getattr(data, f"{missing}_dataloader")()


def test_limit_counts_sentences_of_each_split(minilm, sample):
    sentences = TreebankDataModule(encoder=minilm, limit=3).sentences()
    assert sentences == {name: part[:3] for name, part in sample.items()}


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_a_configuration_error(minilm, limit):
    with pytest.raises(ConfigError, match=f"^data.limit={limit}: expected .* 1, or null for all"):
        TreebankDataModule(encoder=minilm, limit=limit)


def test_missing_file_is_named(minilm):
    with pytest.raises(InputError, match="^/no/such/file.conllu: no such file"):
        TreebankDataModule(encoder=minilm, test="/no/such/file.conllu").sentences()  # noqa: B018


def control_of(word, seed):
    """The place that a word of ten others attaches to from place 5: next, first or last."""
    filler = tuple(f"filler{place}" for place in range(10))
    return control_governors((*filler[:4], word, *filler[5:]), seed)[4]


def test_control_governors_by_hand():
    """With seed 0, `the` and `mouse` attach to the next word, `saw` to the first, `cat` and `dog` to the last."""
    assert control_governors(("cat", "the", "saw", "mouse", "dog"), 0) == [5, 3, 1, 5, 0]
    assert control_governors(("saw", "cat", "the"), 0) == [0, 3, 0]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_control_is_one_behaviour_per_type(seed):
    types = [f"type{number}" for number in range(300)]
    choices = Counter(control_of(word, seed) for word in types)
    assert set(choices) == {6, 1, 10}
    assert min(choices.values()) > 60
    assert [control_of(word, seed) for word in types] == [control_of(word, seed) for word in types]
    repeated = control_governors(("x", "same", "y", "same", "z", "same", "w"), seed)
    allowed = [[3, 5, 7], [1, 1, 1], [7, 7, 7]]
    assert [repeated[1], repeated[3], repeated[5]] in allowed


def test_control_differs_between_seeds():
    words = tuple(f"type{number}" for number in range(50))
    assert control_governors(words, 0) != control_governors(words, 1)


def test_control_never_points_at_itself_or_outside(sample):
    for sentence in (s for part in sample.values() for s in part):
        heads = control_governors(sentence.words, 0)
        assert all(0 <= head <= len(heads) and head != place for place, head in enumerate(heads, start=1))
    assert control_governors(("alone",), 0) == [0]


def test_control_uses_the_seed_of_the_data(two, minilm):
    example = TreebankDataModule(encoder=minilm, test=two, seed=5).read_examples()["test"][0]
    assert example.gold["control"].tolist() == [-100, *control_governors(example.words, 5)]


def test_sample_sizes(sample):
    assert {name: len(part) for name, part in sample.items()} == {"train": 140, "val": 30, "test": 30}
    assert {name: sum(len(s.words) for s in part) for name, part in sample.items()} == {
        "train": 1883,
        "val": 399,
        "test": 403,
    }
    lengths = [len(s.words) for part in sample.values() for s in part]
    assert (min(lengths), max(lengths)) == (4, 30)


def test_every_sample_sentence_is_a_tree_with_one_root(sample):
    for sentence in (s for part in sample.values() for s in part):
        roots = [place for place, head in enumerate(sentence.governors, start=1) if head == 0]
        assert len(roots) == 1
        assert [place for place, name in enumerate(sentence.relations, start=1) if name == "root"] == roots
        reached = set(roots)
        for _ in sentence.words:
            reached |= {place for place, head in enumerate(sentence.governors, start=1) if head in reached}
        assert len(reached) == len(sentence.words)


def test_sample_labels_are_known(sample):
    sentences = [s for part in sample.values() for s in part]
    relations = {relation for s in sentences for relation in s.relations}
    assert {tag for s in sentences for tag in s.upos} <= UPOS
    assert relations <= RELATIONS | SUBTYPES
    assert len(relations) == 48
    for sentence in sentences:
        is_punct = [relation == "punct" for relation in sentence.relations]
        assert is_punct == [tag == "PUNCT" for tag in sentence.upos]


def test_sample_has_every_common_relation(sample):
    """In each split; and each relation at all occurs in train."""
    of_split = {name: {relation for s in part for relation in s.relations} for name, part in sample.items()}
    assert all(relations >= COMMON for relations in of_split.values())
    assert of_split["val"] | of_split["test"] <= of_split["train"]


def test_sample_sentences_are_unique(sample):
    texts = Counter(" ".join(s.words).lower() for part in sample.values() for s in part)
    assert max(texts.values()) == 1
    assert len(texts) == 200


def test_sample_words_spell_the_text():
    for name in ("train", "val", "test"):
        blocks = (SAMPLE / f"{name}.conllu").read_text(encoding="utf-8").strip().split("\n\n")
        for block in blocks:
            assert spelled(block) == next(line for line in block.split("\n") if line.startswith("# text"))[9:]


def spelled(block):
    """The surface text: multiword ranges stand for their words, a space follows unless SpaceAfter=No."""
    text, covered = "", 0
    for line in block.split("\n"):
        if line.startswith("#"):
            continue
        number, form, *_, misc = line.split("\t")
        first, _, last = number.partition("-")
        if int(first) > covered:
            text += form + ("" if "SpaceAfter=No" in misc else " ")
            covered = int(last or first)
    return text.strip()


def test_sample_ids_are_unique():
    files = [SAMPLE / f"{name}.conllu" for name in ("train", "val", "test")]
    ids = [line for file in files for line in Path(file).read_text(encoding="utf-8").split("\n") if "sent_id" in line]
    assert len(ids) == len(set(ids)) == 200


def test_gold_numbers_relations_alike_in_all_splits(minilm):
    data = TreebankDataModule(encoder=minilm, limit=20)
    for name, examples in data.read_examples().items():
        for example, sentence in zip(examples, data.sentences()[name], strict=True):
            assert [data.read_relations()[number] for number in example.gold["relations"][1:]] == list(sentence.relations)
            assert np.array_equal(example.gold["governors"][1:], sentence.governors)


def test_a_treebank_of_single_words_says_what_is_missing(minilm, tmp_path):
    (tmp_path / "t.conllu").write_text("1\tYes\t_\tX\t_\t_\t0\troot\t_\t_\n\n" * 3)
    with pytest.raises(InputError, match="t.conllu: expected sentences of two or more words, found only single words.$"):
        TreebankDataModule(encoder=minilm, test=str(tmp_path / "t.conllu")).read_examples()


def test_parts_of_speech_pieces_and_separators(two, minilm, ready):
    """What relations are looked at with: the tag and the number of pieces of each word, and a unit for [SEP]."""
    plain = ready(TreebankDataModule(encoder=minilm, test=two))
    kept = ready(TreebankDataModule(encoder=minilm, test=two, separators=True))
    (without,) = (plain.on_after_batch_transfer(batch, 0) for batch in plain.test_dataloader())
    (batch,) = (kept.on_after_batch_transfer(batch, 0) for batch in kept.test_dataloader())
    tokenizer = minilm.tokenizer()
    for row, item in enumerate(kept.read_splits()["test"].items):
        words = item.example.words
        at = batch.index.tolist().index(row)
        assert batch.mask[at].sum() == len(words) + 2
        pieces = [len(tokenizer.tokenize(word)) for word in words]
        assert batch.gold["pieces"][at].tolist()[: len(words) + 2] == [-100, *pieces, -100]
        size = len(words) + 1
        torch.testing.assert_close(batch.maps[at, :, :, :size, :size], without.maps[at, :, :, :size, :size])
        rows = batch.maps[at, :, :, : size + 1, : size + 1].sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-5, rtol=0)  # with [SEP], nothing is lost
    first = kept.facts()
    assert first.separators
    assert all(one.tokens[0] == "[CLS]" and one.tokens[-1] == "[SEP]" for one in first.drawn)
    tags = [treebank.UPOS[tag] for tag in kept.read_examples()["test"][0].gold["upos"][1:]]
    assert tags == ["PRON", "AUX", "PART", "VERB", "PUNCT"]


@pytest.mark.parametrize(("word", "asked"), [("'s", 2), ("’s", 2), ("'", 2), ("’", 2), ("is", 1)])
def test_a_possessive_clitic_is_asked_for_its_word(minilm, tmp_path, word, asked):
    rows = [("dogs", 3, "nmod:poss"), (word, 1, "case"), ("house", 0, "root")]
    text = "".join(f"{n}\t{form}\t_\tNOUN\t_\t_\t{head}\t{name}\t_\t_\n" for n, (form, head, name) in enumerate(rows, 1))
    (tmp_path / "poss.conllu").write_text(text + "\n")
    (example,) = TreebankDataModule(encoder=minilm, test=str(tmp_path / "poss.conllu")).read_examples()["test"]
    assert example.gold["asked"][1] == asked
