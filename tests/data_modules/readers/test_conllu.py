"""CoNLL-U: what is read, and the file and line of what is not."""

from pathlib import Path

import pytest

from headscope.data_modules.readers.conllu import Sentence, conllu_files, read_conllu
from headscope.errors import InputError


def row(place, form, head, relation="dep", upos="X"):
    return f"{place}\t{form}\t_\t{upos}\t_\t_\t{head}\t{relation}\t_\t_\n"


DOGS = row(1, "Dogs", 2, "nsubj", "NOUN") + row(2, "bark", 0, "root", "VERB")
RANGES = (
    "# sent_id = 1\n# text = Don't vámonos\n"
    + row("1-2", "Don't", "_")
    + row(1, "Do", 3, "aux", "AUX")
    + row(2, "n't", 3, "advmod", "PART")
    + row("2.1", "you", "_")
    + row(3, "vámonos", 0, "root", "VERB")
)


@pytest.fixture
def read(tmp_path):
    """Writes text or bytes to t.conllu and reads it."""

    def write_and_read(content, limit=None):
        file = tmp_path / "t.conllu"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_conllu([file], limit)

    return write_and_read


@pytest.fixture
def message(read):
    """The message of the InputError that a content gives, without its folder."""

    def read_in_vain(content, limit=None):
        with pytest.raises(InputError) as caught:
            read(content, limit)
        folder, _, rest = str(caught.value).partition("t.conllu")
        assert Path(folder).is_dir()
        return rest

    return read_in_vain


def test_columns_of_a_sentence(read, tmp_path):
    expected = Sentence(("Dogs", "bark"), ("NOUN", "VERB"), (2, 0), ("nsubj", "root"), f"{tmp_path}/t.conllu:1")
    assert read(DOGS + "\n") == [expected]


def test_multiword_ranges_empty_nodes_and_comments_are_no_words(read, tmp_path):
    (sentence,) = read(RANGES + "\n")
    assert sentence.words == ("Do", "n't", "vámonos")
    assert sentence.governors == (3, 3, 0)
    assert sentence.upos == ("AUX", "PART", "VERB")
    assert sentence.relations == ("aux", "advmod", "root")
    assert sentence.source == f"{tmp_path}/t.conllu:4"


def test_comments_may_stand_between_words(read):
    (sentence,) = read(row(1, "a", 0) + "# a remark\n" + row(2, "#", 1) + "\n")
    assert sentence.words == ("a", "#")


@pytest.mark.parametrize("ending", ["", "\n", "\n\n", "\n\n\n\n", "\n \t \n", "\n# the end\n"])
def test_any_ending_and_any_number_of_blank_lines(read, ending):
    sentences = read(DOGS + "\n\n\n" + DOGS.rstrip("\n") + ending)
    assert [s.words for s in sentences] == [("Dogs", "bark")] * 2
    assert sentences[1].source.endswith(":6")


def test_crlf_reads_as_lf(read):
    text = RANGES + "\n" + DOGS + "\n"
    assert read(text.replace("\n", "\r\n")) == read(text)


def test_separators_inside_words_are_no_line_ends(read):
    words = ("a\u2028b", "c\x85d", "New York", "\u200d")
    (sentence,) = read("".join(row(place, word, place - 1) for place, word in enumerate(words, start=1)))
    assert sentence.words == words


@pytest.mark.parametrize(("limit", "kept"), [(1, 1), (2, 2), (3, 3), (9, 3), (None, 3)])
def test_limit_keeps_the_first_sentences(read, limit, kept):
    sentences = read("\n".join([DOGS, RANGES, DOGS]), limit)
    assert [len(s.words) for s in sentences] == [2, 3, 2][:kept]


def test_folder_is_read_by_name_and_limit_counts_over_files(tmp_path):
    (tmp_path / "b.conllu").write_text(RANGES, encoding="utf-8")
    (tmp_path / "a.conllu").write_text(f"{DOGS}\n{DOGS}")
    (tmp_path / "c.txt").write_text("no treebank")
    files = conllu_files(tmp_path)
    assert [file.name for file in files] == ["a.conllu", "b.conllu"]
    assert [len(s.words) for s in read_conllu(files)] == [2, 2, 3]
    assert [len(s.words) for s in read_conllu(files, 1)] == [2]
    assert conllu_files(str(tmp_path / "b.conllu")) == [tmp_path / "b.conllu"]


def test_too_few_columns(message):
    assert message(DOGS + "\n1\ta\t_\tX\t_\t_\t0\n") == ":4: expected 10 tab-separated columns, found 7."


def test_spaces_are_no_tabs(message):
    assert message(DOGS.replace("\t", " ")) == ":1: expected 10 tab-separated columns, found 1."


@pytest.mark.parametrize("head", ["3", "-1", "_", "", "x", "1.0", "²"])
def test_head_out_of_range_or_no_number(message, head):
    text = "# one\n" + row(1, "a", 0) + row(2, "b", head)
    assert message(text) == f":3: expected a head from 0 to 2 in column 7, found {head!r}."


@pytest.mark.parametrize("place", ["3", "1", "0", "x"])
def test_word_number_out_of_sequence(message, place):
    text = row(1, "a", 0) + row(place, "b", 1) + row(3, "c", 1)
    assert message(text) == f":2: expected word number 2, found {place!r}."


def test_cycle_of_two(message):
    text = row(1, "a", 0) + row(2, "b", 3) + row(3, "c", 2)
    assert message(text) == ":2: expected a tree, found a cycle through word 2."


def test_a_word_that_is_its_own_head(message):
    assert message(row(1, "a", 0) + row(2, "b", 2)) == ":2: expected a tree, found a cycle through word 2."


def test_the_line_of_a_cycle_counts_multiword_lines(message):
    text = "# c\n" + row("1-2", "ab", "_") + row(1, "a", 0) + row(2, "b", 1) + row("2.1", "e", "_") + row(3, "c", 4)
    assert message(text + row(4, "d", 3)) == ":6: expected a tree, found a cycle through word 3."


def test_a_word_that_leads_into_a_cycle_is_not_named(message):
    text = row(1, "a", 2) + row(2, "b", 3) + row(3, "c", 2)
    assert message(text) == ":2: expected a tree, found a cycle through word 2."


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n"])
def test_file_without_sentence(message, content):
    assert message(content) == ": expected at least one sentence, found none."


def test_sentence_of_ranges_only(message):
    assert message(f"# c\n{row('1-2', 'ab', '_')}") == ":2: expected at least one word in the sentence, found none."


def test_text_that_is_not_utf8(message):
    assert message(row(1, "é", 0).encode("latin-1")) == ":1: expected UTF-8 text (invalid continuation byte)."


def test_place_of_a_wrong_byte_far_into_a_file(message):
    before = f"{DOGS}\n".encode() * 1000
    assert message(before + b"\xff\n") == f":{before.count(10) + 1}: expected UTF-8 text (invalid start byte)."


def test_what_lies_behind_the_limit_is_not_read(read):
    assert len(read(DOGS + "\nno row\n", limit=1)) == 1


def test_byte_order_mark_is_no_text(read):
    assert read(b"\xef\xbb\xbf# a comment\n" + DOGS.encode())[0].words == ("Dogs", "bark")


def test_missing_file_and_empty_folder_are_named(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/none.conllu: no such file"):
        conllu_files(tmp_path / "none.conllu")
    with pytest.raises(InputError, match=rf"^{tmp_path}: expected \*.conllu files in this folder, found none"):
        conllu_files(tmp_path)
