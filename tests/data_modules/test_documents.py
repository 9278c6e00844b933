"""Documents: windows by pieces, gold arrays by hand, what is left out, and which files are read."""

import numpy as np
import pytest

from headscope.data_modules.documents import SAMPLE, DocumentDataModule, example, pieces, windows_of
from headscope.data_modules.readers.coreference import document_files
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.mentions import Document, Mention
from headscope.errors import ConfigError, InputError

DOG = """\
# newdoc id = dog
1	Ann	Ann	PROPN	_	_	2	nsubj	_	Entity=(1)
2	saw	see	VERB	_	_	0	root	_	_
3	the	the	DET	_	_	4	det	_	Entity=(2
4	dog	dog	NOUN	_	_	2	obj	_	Entity=2)
5	.	.	PUNCT	_	_	2	punct	_	_

1	She	she	PRON	_	_	2	nsubj	_	Entity=(1)
2	called	call	VERB	_	_	0	root	_	_
3	it	it	PRON	_	_	2	obj	_	Entity=(2)
4	.	.	PUNCT	_	_	2	punct	_	_

1	The	the	DET	_	_	2	det	_	Entity=(2
2	dog	dog	NOUN	_	_	3	nsubj	_	Entity=2)
3	ran	run	VERB	_	_	0	root	_	_
4	to	to	ADP	_	_	5	case	_	_
5	her	she	PRON	_	_	3	obl	_	Entity=(1)
6	.	.	PUNCT	_	_	3	punct	_	_

"""
# Nearest: only `it` before `The dog` is right. Rules: the nearest that agrees with `She` and with `her` is the dog.
GOLD = {
    "mention_heads": [1, 4, 6, 8, 11, 14],
    "groups": [0, 1, 0, 1, 1, 0],
    "kinds": [1, 2, 0, 0, 2, 0],
    "antecedents": [0, 0, 1, 1, 2, 2],
    "nearest mention": [0, 0, 0, 0, 1, 0],
    "same head word": [0, 0, 0, 0, 1, 0],
    "rules": [0, 0, 0, 1, 1, 0],
}
# The same words and chains in three columns.
THREE = """\
# begin document dog
0	Ann	(1)
1	saw	_
2	the	(2
3	dog	2)
4	.	_
5	She	(1)
6	called	_
7	it	(2)
8	.	_
9	The	(2
10	dog	2)
11	ran	_
12	to	_
13	her	(1)
14	.	_
# end document
"""
GOLD_OF_THREE = GOLD | {"kinds": [-1, -1, 0, 0, -1, 0]}
NO_CHAIN = """\
# newdoc id = none
1	Ann	Ann	PROPN	_	_	2	nsubj	_	Entity=(1)
2	slept	sleep	VERB	_	_	0	root	_	_

"""
NO_MENTION = "# newdoc id = rain\n1	Rain	rain	NOUN	_	_	0	root	_	_\n\n"
PARIS = "#begin document (p); part 000\n" + "p 0 0 Paris NNP (TOP(NP*)) - - - - * (0)\n\n" * 2 + "#end document\n"


@pytest.fixture
def documents(tmp_path, minilm):
    """A datamodule on a file of some text."""

    def write(text, name="t.conllu", **options):
        (tmp_path / name).write_text(text)
        return DocumentDataModule(encoder=minilm, test=str(tmp_path / name), **options)

    return write


def span(start, end, head=None, group="g"):
    return Mention(start, end, head or end, group, "nominal", "x", "x")


def gold_of(part):
    return {name: array.tolist() for name, array in part.gold.items() if name != "document"}


def test_gold_by_hand(documents):
    (found,) = documents(DOG).read_examples()["test"]
    assert " ".join(found.words) == "Ann saw the dog . She called it . The dog ran to her ."
    assert gold_of(found) == GOLD


def test_gold_of_nested_mentions_by_hand():
    """[a1 [b1]] and [[a2] b2]: the head of the first is before that of what it holds, the second's is behind."""
    mentions = (span(1, 3, 1, "a"), span(3, 3, 3, "b"), span(4, 4, 4, "a"), span(4, 5, 5, "b"))
    found = gold_of(example(Document("d", tuple("abcde"), mentions), 0))
    assert found["mention_heads"] == [1, 3, 4, 5]
    assert found["antecedents"] == [0, 0, 1, 1]
    assert found["nearest mention"] == [0, 0, 0, 0]


def test_one_head_word_of_two_mentions_gives_no_antecedent():
    mentions = (span(1, 3, 1, "both"), span(1, 1, 1, "one"), span(5, 5, 5, "both"))
    found = gold_of(example(Document("d", tuple("abcde"), mentions), 0))
    assert found["antecedents"] == [0, 0, 1]
    assert found["groups"] == [0, 1, 0]


def test_gold_reaches_the_batch(documents, ready):
    data = ready(documents(DOG + DOG.replace("id = dog", "id = two").replace("	Entity=(1)", "	_", 1), maps=False))
    (batch,) = (data.on_after_batch_transfer(batch, 0) for batch in data.test_dataloader())
    whole, less = batch.index.tolist().index(0), batch.index.tolist().index(1)
    assert {name: gold[whole].tolist() for name, gold in batch.gold.items() if name != "document"} == GOLD
    assert batch.gold["mention_heads"][less].tolist() == [4, 6, 8, 11, 14, -100]
    assert batch.gold["antecedents"][less].tolist() == [0, 0, 1, 2, 1, -100]
    assert batch.mask.shape == (2, 16)


def test_pieces_of_each_word(minilm):
    tokenizer = minilm.tokenizer()
    words = ("Zyxwv", "the", "\u200d", "antidisestablishmentarianism", "don't", ".", "the")
    expected = [len(tokenizer(word, add_special_tokens=False)["input_ids"]) for word in words]
    assert expected[1:3] == [1, 0]
    assert max(expected) > 2
    assert pieces(Document("d", words, ()), tokenizer).tolist() == expected


@pytest.mark.parametrize(
    ("sizes", "cuts"),
    [
        ([4, 4, 1], [(0, 2), (2, 3)]),
        ([4, 5, 1], [(0, 1), (1, 3)]),
        ([4, 1, 1, 1, 4, 1, 0, 9, 2], [(0, 4), (4, 7), (7, 8), (8, 9)]),
        ([8, 0, 0, 1], [(0, 3), (3, 4)]),
        ([20], [(0, 1)]),
        ([1, 1], [(0, 2)]),
        ([], []),
    ],
)
def test_windows_by_hand(sizes, cuts):
    words = tuple(f"w{place}" for place in range(len(sizes)))
    document = Document("d", words, ())
    parts = [words[start:end] for start, end in cuts]
    assert [part.words for part in windows_of(document, np.array(sizes, dtype=int), 8, "all")] == parts
    assert [part.words for part in windows_of(document, np.array(sizes, dtype=int), 8, "first")] == parts[:1]


def test_mentions_that_a_window_cuts_are_in_none():
    mentions = (span(1, 1), span(2, 3), span(3, 4, 3), span(1, 6, 2), span(4, 4), span(4, 6, 5))
    first, second = windows_of(Document("d", tuple("abcdef"), mentions), np.ones(6, dtype=int), 3, "all")
    assert [(m.start, m.end, m.head) for m in first.mentions] == [(1, 1, 1), (2, 3, 3)]
    assert [(m.start, m.end, m.head) for m in second.mentions] == [(1, 1, 1), (1, 3, 2)]
    assert (first.words, second.words) == (("a", "b", "c"), ("d", "e", "f"))


def test_only_the_first_window_unless_told_otherwise(documents):
    """Every word is one piece, and two are special: 10 pieces leave room for 8 words, up to `it`."""
    data = documents(DOG, max_pieces=10)
    (found,) = data.read_examples()["test"]
    assert " ".join(found.words) == "Ann saw the dog . She called it"
    assert gold_of(found)["antecedents"] == [0, 0, 1, 1]
    outside = "mentions outside the first 10 tokens of a document (data.windows=all takes all of its windows)"
    assert data.left_out == {"windows without any chain": 0, outside: 2}
    assert data.read_splits()["test"].skipped == 0
    assert len(data.read_splits()["test"].items[0].input_ids) == 10


def test_all_windows(documents):
    """The second window, from the full stop on, has no chain: one mention of each group."""
    data = documents(DOG, max_pieces=10, windows="all")
    assert [len(part.words) for part in data.read_examples()["test"]] == [8]
    assert data.left_out == {"windows without any chain": 1, "mentions that no window of 10 tokens holds whole": 0}
    second = documents(DOG, max_pieces=7, windows="all")
    # `She called it . The`: `The dog` is cut. No window of five words holds two mentions of a group.
    with pytest.raises(InputError, match=r"no document has a mention with an antecedent in a window of 7 tokens\.$"):
        second.read_examples()
    first = documents(DOG, max_pieces=7)
    with pytest.raises(InputError, match=r"in its first 7 tokens; data.windows=all takes all of its windows\.$"):
        first.read_examples()


def test_every_window_is_an_example_that_fits(documents):
    data = documents(DOG.replace("# newdoc id = dog\n", "") * 10, max_pieces=32, windows="all")
    assert [len(part.words) for part in data.read_examples()["test"]] == [30] * 5
    assert [gold_of(part)["antecedents"] for part in data.read_examples()["test"]] == [
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    ] * 5
    assert [len(item.input_ids) for item in data.read_splits()["test"].items] == [32] * 5
    assert [part.gold["document"].tolist() for part in data.read_examples()["test"]] == [[0]] * 5


def test_documents_without_chain_are_left_out_and_counted(documents, caplog):
    data = documents(NO_CHAIN + DOG + NO_MENTION)
    assert [gold_of(found) for found in data.read_examples()["test"]] == [GOLD]
    assert set(data.left_out.values()) == {0, 2}
    assert data.left_out["windows without any chain"] == 2
    assert data.source().left_out == data.left_out
    assert "left out 2 windows without any chain" in caplog.text


@pytest.mark.parametrize("text", [NO_CHAIN, NO_MENTION, NO_CHAIN + NO_MENTION])
def test_only_documents_without_chain_are_an_error_that_names_the_file(documents, tmp_path, text):
    with pytest.raises(InputError, match=f"^{tmp_path}/t.conllu: no document has a mention with an antecedent"):
        documents(text).read_examples()


@pytest.mark.parametrize(("name", "text"), [("t.conllu", ""), ("t.conllu", "# newdoc id = a\n\n"), ("t_conll", "")])
def test_a_file_without_documents_is_named(documents, tmp_path, name, text):
    with pytest.raises(InputError, match=f"^{tmp_path}/{name}: expected at least one document, found none"):
        documents(text, name).read_examples()


def test_a_document_without_words_is_no_example(documents):
    data = documents("#begin document (e); part 000\n#end document\n" + PARIS, "t_conll")
    assert [found.words for found in data.read_examples()["test"]] == [("Paris", "Paris")]


def test_limit_counts_documents(documents):
    text = "".join(DOG.replace("id = dog", f"id = {n}").replace("Ann", f"Ann{n}") for n in range(4))
    assert [found.words[0] for found in documents(text, limit=2).read_examples()["test"]] == ["Ann0", "Ann1"]
    assert len(documents(text).read_examples()["test"]) == 4


@pytest.mark.parametrize("options", [{"limit": 0}, {"windows": "last"}])
def test_options_out_of_range_are_configuration_errors(minilm, options):
    ((key, value),) = options.items()
    with pytest.raises(ConfigError, match=f"^data.{key}={value}: expected"):
        DocumentDataModule(encoder=minilm, **options)


def test_a_folder_is_searched_below_too(documents, tmp_path, minilm):
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "b" / "c" / "p.v4_gold_conll").write_text(PARIS)
    (tmp_path / "b" / "c" / "p.v4_auto_conll").write_text(PARIS)
    (tmp_path / "b" / "c" / "p.v4_gold_skel").write_text(PARIS.replace("Paris", "[WORD]"))
    (tmp_path / "a.txt").write_text(DOG)
    (tmp_path / "three").write_text(THREE)
    (tmp_path / "README.md").write_text("# Documents\n\nThese files are about a dog and its owner , and of Paris .\n")
    (tmp_path / ".three").write_text(THREE)
    (tmp_path / "empty").write_text("")
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 9)
    data = DocumentDataModule(encoder=minilm, test=str(tmp_path))
    assert data.files() == [tmp_path / "a.txt", tmp_path / "b/c/p.v4_gold_conll", tmp_path / "three"]
    assert [len(found.words) for found in data.read_examples()["test"]] == [15, 2, 15]


def test_a_file_of_a_folder_that_is_named_as_data_is_never_passed_over(tmp_path, minilm):
    (tmp_path / "a.conllu").write_text(DOG)
    (tmp_path / "b.conll").write_text("# begin document b\n0 Paris\n# end document\n")
    with pytest.raises(InputError, match=f"^{tmp_path}/b.conll:2: expected CoNLL-U with Entity="):
        DocumentDataModule(encoder=minilm, test=str(tmp_path)).read_examples()


def test_the_same_text_in_two_files_is_told(tmp_path, minilm, caplog):
    (tmp_path / "a.conllu").write_text(DOG)
    (tmp_path / "a.conll").write_text(THREE)
    assert len(DocumentDataModule(encoder=minilm, test=str(tmp_path)).read_examples()["test"]) == 2
    assert "1 documents have the words of another and count again" in caplog.text


def test_a_folder_named_like_a_file_is_no_file(tmp_path):
    (tmp_path / "gold_conll").mkdir()
    (tmp_path / "gold_conll" / "p_conll").write_text(PARIS)
    assert document_files(tmp_path) == [tmp_path / "gold_conll" / "p_conll"]


def test_a_folder_without_documents_is_named(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}: expected files of CoNLL-U with .* in this folder, found none"):
        document_files(tmp_path)


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/none.conllu: no such file"):
        document_files(tmp_path / "none.conllu")


@pytest.mark.parametrize("name", ["t.txt", "t.conll", "t_conll", "conllu", "t"])
def test_the_name_says_nothing_of_the_form(documents, name):
    (found,) = documents(DOG, name).read_examples()["test"]
    assert gold_of(found) == GOLD
    assert [one.words for one in documents(PARIS, name).read_examples()["test"]] == [("Paris", "Paris")]
    (found,) = documents(THREE, name).read_examples()["test"]
    assert gold_of(found) == GOLD_OF_THREE


def test_without_a_parse_the_last_word_is_the_head_and_kinds_are_left_out_with_a_warning(documents, caplog):
    """`the dog`, `The dog` and `Ann` are of no known kind; She, it and her are pronouns by their word."""
    data = documents(THREE, "t.conll")
    data.read_examples()
    assert {what.partition(",")[0]: count for what, count in data.left_out.items() if count} == {
        "head words": 6,
        "mentions from the kinds": 3,
    }
    assert data.source().left_out == data.left_out
    assert "neither a parse nor parts of speech: the last word of a mention stands for its head word" in caplog.text
    assert "parser= names a spaCy pipeline" in caplog.text
    assert "left out 3 mentions from the kinds, for want of a part of speech." in caplog.text


def test_words_without_part_of_speech_are_of_no_kind_in_a_tree_either(documents, caplog):
    text = DOG.replace("\tPROPN\t", "\t_\t").replace("\tNOUN\t", "\t_\t").replace("\tPRON\t", "\t_\t")
    (found,) = documents(text).read_examples()["test"]
    assert gold_of(found) == GOLD_OF_THREE
    assert "left out 3 mentions from the kinds, for want of a part of speech." in caplog.text


def test_a_parser_gives_heads_and_kinds_where_there_are_none(documents, shared, caplog):
    pipeline = str(shared / "models/en_core_web_sm")
    data = documents(THREE, "t.conll", parser=pipeline)
    (found,) = data.read_examples()["test"]
    assert gold_of(found) == GOLD
    assert not any(data.left_out.values())
    assert not caplog.records
    assert any(file.startswith(pipeline) for file in data.source().inputs)


def test_a_parser_is_not_loaded_for_documents_that_are_parsed(documents):
    data = documents(DOG, parser="no_such_pipeline")
    (found,) = data.read_examples()["test"]
    assert gold_of(found) == GOLD
    assert data.source().inputs


def test_a_pipeline_that_is_not_there_is_named(documents):
    with pytest.raises(ConfigError, match="^parser=no_such_pipeline: no spaCy pipeline"):
        documents(THREE, "t.conll", parser="no_such_pipeline").read_examples()


def test_packaged_documents_without_a_file(minilm):
    data = DocumentDataModule(encoder=minilm)
    assert data.files() == [SAMPLE / "documents.conllu"]
    assert len(data.read_examples()["test"]) == 14
    assert data.read_splits()["test"].skipped == 0


@pytest.mark.parametrize("windows", ["first", "all"])
def test_gold_of_the_packaged_documents_by_plain_loops(minilm, windows):
    """Every example against the mentions of its document, found again by their place in the text."""
    data = DocumentDataModule(encoder=minilm, windows=windows, max_pieces=48)
    documents = read_entity_documents(SAMPLE / "documents.conllu")
    left = list(data.read_examples()["test"])
    for document in documents:
        start = 0
        while left and start < len(document.words) and (windows == "all" or start == 0):
            if document.words[start : start + len(left[0].words)] != left[0].words:
                start += 1
                continue
            found = left.pop(0)
            end = start + len(found.words)
            inside = [m for m in document.mentions if start < m.start <= m.end <= end]
            heads = [m.head - start for m in inside]
            counts = [sum(o.group == m.group and o.head < m.head for o in inside) for m in inside]
            assert gold_of(found)["mention_heads"] == heads
            assert gold_of(found)["antecedents"] == counts
            start = end
    assert not left


def test_real_documents(shared, minilm):
    data = DocumentDataModule(encoder=minilm, test=str(shared / "data/ud_english_gum/coref-train.conllu"))
    assert len(data.read_examples()["test"]) + data.left_out["windows without any chain"] == 87
    assert data.read_splits()["test"].skipped == 0
    assert all(len(item.input_ids) <= 128 for item in data.read_splits()["test"].items)
    for found in data.read_examples()["test"]:
        heads = found.gold["mention_heads"]
        assert heads.min() >= 1
        assert heads.max() <= len(found.words)
        assert (np.diff(heads) >= 0).all()


def test_singletons_are_candidates_on_request_only(documents):
    """`the park` is the only mention of its entity; with it, the nearest mention before `her` is wrong in another way."""
    text = DOG.replace("4\tto\tto\tADP\t_\t_\t5\tcase\t_\t_", "4\tpark\tpark\tNOUN\t_\t_\t5\tcase\t_\tEntity=(3)")
    kept, left = documents(text, "k.conllu", singletons=True), documents(text, "l.conllu", singletons=False)
    (with_it,), (without,) = (data.read_examples()["test"] for data in (kept, left))
    assert with_it.gold["mention_heads"].tolist() == [1, 4, 6, 8, 11, 13, 14]
    assert gold_of(without) == GOLD
    (said,), (unsaid,) = (data.facts().notes for data in (kept, left))
    assert said == "singletons: 1 mentions without any other of their entity are candidates too (data.singletons)"
    assert "1 mentions without any other of their entity are no candidates, as CoNLL-2012 annotates none" in unsaid


def test_the_document_that_is_drawn_has_the_head_words_of_its_mentions(documents):
    (drawn,) = documents(DOG).facts().drawn
    assert drawn.marked == {"heads": tuple(GOLD["mention_heads"]), "groups": tuple(GOLD["groups"])}
    assert drawn.tokens[:4] == ("Ann", "saw", "the", "dog")
