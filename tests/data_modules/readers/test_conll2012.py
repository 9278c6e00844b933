"""CoNLL-2012: spans from the chains, head words by the rules on the parse, and the file and line of what is wrong."""

from pathlib import Path

import pytest

from headscope.data_modules.readers.conll2012 import head_word, parse, read_conll2012
from headscope.errors import InputError
from tests.data_modules.conftest import message_about, written_and_read

OWNER = """\
The DT (TOP(S(NP(NP* (0
owner NN *) -
of IN (PP* -
the DT (NP* (1
shop NN *))) 1)|0)
saw VBD (VP* -
John NNP (NP(NP* (3|(2
's POS *) 2)
dogs NNS *)) 3)
. . *)) -
"""
TOM = """\
Tom NNP (TOP(S(NP(NP*) (4|(0)
and CC * -
Ann NNP (NP* (5
Lee NNP *)) 5)|4)
liked VBD (VP* -
her PRP$ (NP* (3|(5)
dog NN *)) 3)
. . *)) -
"""
PARIS = "Paris NNP (TOP(NP*)) (0)\n"


def sentence(text):
    """The twelve columns of each word from its form, tag, parse and chains."""
    words = [line.split(" ") for line in text.strip().split("\n")]
    return "".join(
        f"nw/a/0001   0   {n}   {form}   {tag}   {tree}   -   -   -   -   *   {chains}\n"
        for n, (form, tag, tree, chains) in enumerate(words)
    )


def document(*sentences, part=0, end="#end document\n"):
    return f"#begin document (nw/a/0001); part {part:03}\n" + "".join(f"{sentence(s)}\n" for s in sentences) + end


@pytest.fixture
def read(tmp_path):
    return written_and_read(tmp_path / "t_conll", read_conll2012)


@pytest.fixture
def message(read):
    return message_about(read, "t_conll")


def rows_of(text):
    """The rows of a sentence that is written as form/tag/parse words."""
    words = [word.split("/") for word in text.split()]
    return [(n, ["d", "0", str(n), *word, *"----*-"]) for n, word in enumerate(words, start=1)]


def head_of(text, start, end):
    """The form of the head of a span, counted from 0."""
    rows = rows_of(text)
    tags = [row[4] for _, row in rows]
    return rows[head_word(parse(Path("t"), rows), tags, start, end)][1][3]


def test_two_parts_by_hand(read):
    first, second = read(document(OWNER, TOM) + document(PARIS, part=1))
    assert (first.name, second.name) == ("(nw/a/0001); part 000", "(nw/a/0001); part 001")
    assert " ".join(first.words) == "The owner of the shop saw John 's dogs . Tom and Ann Lee liked her dog ."
    assert second.words == ("Paris",)
    assert [(m.start, m.end, m.head, m.group, m.kind, m.number) for m in first.mentions] == [
        (1, 5, 2, "0", "nominal", "singular"),
        (4, 5, 5, "1", "nominal", "singular"),
        (7, 8, 7, "2", "proper", "singular"),
        (7, 9, 9, "3", "nominal", "plural"),
        (11, 14, 11, "4", "proper", "plural"),
        (11, 11, 11, "0", "proper", "singular"),
        (13, 14, 14, "5", "proper", "singular"),
        (16, 16, 16, "5", "pronoun", "singular"),
        (16, 17, 17, "3", "nominal", "singular"),
    ]
    assert [m.text for m in first.mentions][:4] == ["the owner of the shop", "the shop", "john 's", "john 's dogs"]
    assert [(m.start, m.end, m.head, m.group, m.kind) for m in second.mentions] == [(1, 1, 1, "0", "proper")]


def test_crlf_byte_order_mark_blank_lines_and_comments_change_nothing(read):
    text = document(OWNER, TOM)
    other = "\ufeff" + text.replace("\n\n", "\n\n\n").replace("#end", "# a remark\n#end").replace("\n", "\r\n")
    assert read(other) == read(text)


def test_the_end_of_the_document_ends_the_sentence(read):
    assert read(document(PARIS).replace("\n\n", "\n")) == read(document(PARIS))


@pytest.mark.parametrize("empty", ["-", "_"])
def test_more_columns_and_both_signs_for_no_chain(read, empty):
    text = document(PARIS + f". . * {empty}\n").replace("-   *   ", "-   (ARG0*)   *   *   ")
    (found,) = read(text)
    assert [(m.start, m.end, m.head) for m in found.mentions] == [(1, 1, 1)]


def test_chains_that_nest_in_themselves_and_cross(read):
    text = "a DT (TOP(NP* (1|(1\nb NN * 1)|(2\nc NN * 1)\nd NN *)) 2)|(3)\n"
    (found,) = read(document(text))
    spans = sorted((m.start, m.end, m.group) for m in found.mentions)
    assert spans == [(1, 2, "1"), (1, 3, "1"), (2, 4, "2"), (4, 4, "3")]


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        ("The/DT/(NP(NP* owner/NN/*) of/IN/(PP* the/DT/(NP* shop/NN/*)))", 0, 4, "owner"),
        ("The/DT/(NP(NP* owner/NN/*) of/IN/(PP* the/DT/(NP* shop/NN/*)))", 3, 4, "shop"),
        ("the/DT/(NP(NP* dog/NN/*) that/WDT/(SBAR(WHNP*) barked/VBD/(S(VP*))))", 0, 3, "dog"),
        ("John/NNP/(NP(NP* 's/POS/*) big/JJ/* dog/NN/*)", 0, 3, "dog"),
        ("John/NNP/(NP(NP* 's/POS/*) big/JJ/* dog/NN/*)", 0, 1, "John"),
        ("her/PRP$/(NP* car/NN/*)", 0, 1, "car"),
        ("her/PRP$/(NP* car/NN/*)", 0, 0, "her"),
        ("Tom/NNP/(NP(NP*) and/CC/* Ann/NNP/(NP* Lee/NNP/*))", 0, 3, "Tom"),
        ("Ann/NNP/(NP(NP*) ,/,/* my/PRP$/(NP* friend/NN/*))", 0, 3, "Ann"),
        ("salt/NN/(NP* and/CC/* pepper/NN/*)", 0, 2, "pepper"),  # Collins takes the last noun of a flat phrase
        ("He/PRP/(S(NP*) ran/VBD/(VP*))", 0, 0, "He"),
        ("New/NNP/(NP* York/NNP/* City/NNP/*)", 0, 2, "City"),
        ("New/NNP/(NP(NML* York/NNP/*) mayor/NN/*)", 0, 2, "mayor"),
        ("New/NNP/(NP(NML* York/NNP/*) mayor/NN/*)", 0, 1, "York"),
        ("about/IN/(NP(QP* 20/CD/*) men/NNS/*)", 0, 2, "men"),
        ("20/CD/(NP*)", 0, 0, "20"),
        ("two/CD/(NP(NP*) of/IN/(PP* them/PRP/(NP*)))", 0, 2, "two"),
        ("the/DT/(NP* rich/JJ/*)", 0, 1, "rich"),
        ("this/DT/(NP*)", 0, 0, "this"),
        ("the/DT/(NP-SBJ* 1980/CD/* 's/POS/*)", 0, 2, "1980"),
        ("``/``/(NP* the/DT/* end/NN/* ''/''/*)", 0, 3, "end"),
        ("they/PRP/(NP(NP*) all/DT/(NP*))", 0, 1, "they"),
        ("ran/VBD/(VP* quickly/RB/(ADVP*))", 0, 1, "ran"),
        ("He/PRP/(S(NP*) ran/VBD/(VP* home/NN/(NP*)))", 0, 2, "ran"),
        ("in/IN/(PP* Paris/NNP/(NP*))", 0, 1, "in"),
        ("now/RB/(X* then/RB/*)", 0, 1, "now"),
    ],
)
def test_heads_of_constituents_by_hand(text, start, end, expected):
    assert head_of(text, start, end) == expected


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        ("the/DT/(NP* big/JJ/* dog/NN/* show/NN/*)", 1, 2, "dog"),
        ("the/DT/(NP(NP* man/NN/*) in/IN/(PP* the/DT/(NP* black/JJ/* hat/NN/*)))", 1, 4, "man"),
        ("John/NNP/(S(NP*) ,/,/* Ann/NNP/(NP*) ran/VBD/(VP*))", 0, 2, "John"),
        ("the/DT/(NP* very/RB/* old/JJ/* dog/NN/*)", 1, 2, "old"),
        ("the/DT/- dog/NN/- ran/VBD/-", 0, 1, "dog"),  # without any parse
        ("with/IN/(X* him/PRP/* too/RB/* now/RB/*)", 0, 2, "him"),
    ],
)
def test_heads_of_spans_that_are_no_constituent(text, start, end, expected):
    assert head_of(text, start, end) == expected


@pytest.mark.parametrize(
    ("word", "tag", "kind", "number"),
    [
        ("she", "PRP", "pronoun", "singular"),
        ("their", "PRP$", "pronoun", "plural"),
        ("who", "WP", "pronoun", None),
        ("whose", "WP$", "pronoun", None),
        ("Alps", "NNPS", "proper", "plural"),
        ("Texas", "NNP", "proper", "singular"),
        ("buses", "NNS", "nominal", "plural"),
        ("bus", "NN", "nominal", "singular"),
        ("20", "CD", "nominal", None),
        ("visited", "VBD", "nominal", None),
    ],
)
def test_kind_and_number_from_the_tag(read, word, tag, kind, number):
    (found,) = read(document(f"{word} {tag} (TOP(NP*)) (0)\n"))
    assert [(m.kind, m.number) for m in found.mentions] == [(kind, number)]


def test_a_conjunction_in_a_relative_clause_makes_no_plural(read):
    text = """\
the DT (TOP(NP(NP* (0
man NN *) -
who WP (SBAR(WHNP*) -
came VBD (S(VP(VP*) -
and CC * -
went VBD (VP*)))))) 0)
"""
    (found,) = read(document(text))
    assert [(m.head, m.number) for m in found.mentions] == [(2, "singular")]


def test_a_parse_that_is_never_closed(message):
    assert message(document("a DT (TOP(NP* -\nb NN * -\n")) == ":3: 2 brackets of the parse are not closed in the sentence."


def test_a_parse_that_was_never_opened(message):
    expected = ":3: a bracket of the parse is closed that was never opened."
    assert message(document("a DT (NP* -\nb NN *)) -\nc NN * -\n")) == expected


def test_a_chain_that_is_never_closed(message):
    text = document(PARIS, "a DT (NP* (7\nb NN *) -\n")
    assert message(text) == ":4: the bracket of chain 7 is not closed in its sentence."


def test_a_chain_that_was_never_opened(message):
    expected = ":3: chain 7 is closed here, but no bracket of it is open."
    assert message(document("a DT (NP* (6\nb NN *) 6)|7)\n")) == expected


@pytest.mark.parametrize("value", ["7", "(x)", "((7", "(7)|", "()"])
def test_a_malformed_chain_is_quoted(message, value):
    assert message(document(f"a DT (NP*) {value}\n")).startswith(
        ":2: expected chains such as (1, (1) or 1) in the last column"
    )


def test_too_few_columns(message):
    text = document(PARIS).replace("#end", "nw/a/0001 0 0 word NN (NP*) - - - - -\n#end")
    assert message(text) == ":4: expected at least 12 columns, found 11."


def test_a_missing_end_of_the_file(message):
    assert message(document(PARIS, end="")) == ":3: expected '#end document' at the end of the document."
    assert message(document(PARIS, end="").rstrip("\n")) == ":2: expected '#end document' at the end of the document."


def test_a_missing_end_before_the_next_document(message):
    assert "expected '#end document'" in message(document(PARIS, end="") + document(TOM, part=1))


def test_other_encodings_are_named_with_the_line(tmp_path):
    file = tmp_path / "t_conll"
    file.write_bytes(document("Café NN (NP*) (0)\n").encode("latin-1"))
    with pytest.raises(InputError, match=f"^{file}:2: expected UTF-8 text"):
        read_conll2012(file)
