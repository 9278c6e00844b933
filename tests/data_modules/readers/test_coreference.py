"""The form of a file with coreference is told by its content; three columns and LitBank's CoNLL-2012 by hand."""

import pytest

from headscope.data_modules.readers.coreference import read_documents
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.mentions import Word, parsed_document
from headscope.data_modules.readers.parser import Parser
from tests.data_modules.conftest import message_about, written_and_read

# Both ways to write several brackets of a word, and a chain that crosses another.
SEA = """\
# begin document sea
0	The	(1(2
1	old	_
2	captain	2)
3	of	_
4	the	(3
5	ship	3)1)
6	saw	-
7	her	(4|(5)
8	sister	4)|(6
9	,	_
10	who	_
11	waved	6)
12	.	_
# end document
"""
# As LitBank has it: nothing in the middle, and an empty last column where there is no chain.
EMMA = [["Emma", "(0)"], ["and", ""], ["the", "(1"], ["old", ""], ["man", "1)"], [".", ""]], [["She", "(0)"], ["left", ""]]


def litbank(nothing="_", last="", sentences=EMMA):
    middle = "\t".join([nothing] * 8)
    rows = [
        "".join(f"emma_brat\t0\t{n}\t{word}\t{middle}\t{chains or last}\n" for n, (word, chains) in enumerate(sentence))
        for sentence in sentences
    ]
    return "#begin document (emma_brat); part 0\n" + "\n".join(rows) + "\n#end document\n"


@pytest.fixture
def read(tmp_path):
    return written_and_read(tmp_path / "sea.text", read_documents)


@pytest.fixture
def message(read):
    return message_about(read, "sea.text")


def spans(document):
    return sorted((m.start, m.end, m.group) for m in document.mentions)


def test_three_columns_by_hand(read):
    (found,) = read(SEA)
    assert found.name == "sea"
    assert " ".join(found.words) == "The old captain of the ship saw her sister , who waved ."
    expected = [(1, 3, "2"), (1, 6, "1"), (5, 6, "3"), (8, 8, "5"), (8, 9, "4"), (9, 12, "6")]
    assert spans(found) == expected
    assert [m.head for m in found.mentions] == [3, 6, 6, 8, 9, 12]
    assert [m.kind for m in found.mentions] == [None, None, None, "pronoun", None, None]
    assert found.unparsed == (13,)


def test_three_columns_with_sentences_spaces_and_names_of_entities(read):
    """Numbers may go on or begin again after a blank line; a name such as person-1-Ann is the group."""
    text = "#begin document\n1 Ann (person-1-Ann)\n2 slept -\n\n1 She (person-1-Ann)\n\n2 woke _\n#end document\n"
    (found,) = read(text)
    assert (found.name, found.unparsed) == ("sea", (2, 1, 1))
    assert spans(found) == [(1, 1, "person-1-Ann"), (3, 3, "person-1-Ann")]


@pytest.mark.parametrize(("nothing", "last"), [("_", ""), ("-", "_"), ("_", "-")])
def test_conll2012_without_parse_and_part_of_speech(read, nothing, last):
    (found,) = read(litbank(nothing, last))
    assert " ".join(found.words) == "Emma and the old man . She left"
    assert [(m.start, m.end, m.head, m.group, m.kind) for m in found.mentions] == [
        (1, 1, 1, "0", None),
        (3, 5, 5, "1", None),
        (7, 7, 7, "0", "pronoun"),
    ]
    assert found.unparsed == (6, 2)


def test_the_grammar_of_each_sentence_lands_on_its_own_words(read):
    """`man` is joined to `Emma`; `She` is the subject of `left` in a sentence of its own."""
    (found,) = read(litbank())
    first = [("PROPN", 0, "ROOT"), ("CCONJ", 1, "cc"), ("DET", 5, "det"), ("ADJ", 5, "amod"), ("NOUN", 1, "conj")]
    second = [("PRON", 2, "nsubj"), ("VERB", 0, "ROOT")]
    sentences = [[Word(*word, None) for word in words] for words in ([*first, ("PUNCT", 1, "punct")], second)]
    parsed = parsed_document(found, sentences)
    heads_and_kinds = [(m.head, m.kind) for m in parsed.mentions]
    assert heads_and_kinds == [(1, "proper"), (5, "nominal"), (7, "pronoun")]
    assert (parsed.words, parsed.unparsed) == (found.words, ())


def test_a_parser_takes_words_and_sentences_as_they_are_given(shared):
    parser = Parser(str(shared / "models/en_core_web_sm"))
    sentences = [("Emma", "did", "n't", "see", "the", "New-York", "trains", "."), ("She", "left")]
    first, second = parser.parse_words(sentences)
    assert [len(first), len(second)] == [8, 2]
    assert (first[0].upos, first[0].governor, first[0].relation, first[0].plural) == ("PROPN", 4, "nsubj", False)
    assert (first[6].upos, first[6].governor, first[6].plural) == ("NOUN", 4, True)
    assert [(word.upos, word.governor, word.relation) for word in second] == [("PRON", 2, "nsubj"), ("VERB", 0, "ROOT")]


def test_a_pronoun_inside_a_longer_mention_does_not_make_it_one(read):
    (found,) = read(litbank(sentences=[[["all", "(0"], ["of", ""], ["us", "0)"], ["us", "(0)"]]]))
    assert [(m.kind, m.person) for m in found.mentions] == [(None, 3), ("pronoun", 1)]


def test_conll2012_with_parts_of_speech_is_not_unparsed(read):
    (found,) = read("#begin document (p); part 000\np 0 0 Paris NNP _ - - - - * (0)\n#end document\n")
    assert (found.unparsed, [m.kind for m in found.mentions]) == ((), ["proper"])


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("Ann saw the dog .\n", 1, "'Ann saw the dog .' (5)"),
        ("# A title\n\n0\tAnn\t(1)\n", 3, r"'0\tAnn\t(1)' (3)"),
        ("# begin document a\n0\tAnn\n# end document\n", 2, r"'0\tAnn' (2)"),
        ("#begin document (a)\na 0 0 b NN (NP*) - - - * (0)\n", 2, "'a 0 0 b NN (NP*) - - - * (0)' (11)"),
        ("\x1f\x8b\x08", 1, r"'\x1f\x8b\x08' (1)"),
    ],
)
def test_a_file_of_no_form_gets_one_sentence_that_names_all_three_and_the_line(message, text, line, found):
    expected = (
        f":{line}: expected CoNLL-U with Entity= (10 columns between tabs), CoNLL-2012 (12 columns or more, after "
        f"'#begin document') or 3 columns (number, word and brackets, after '# begin document'), found {found}."
    )
    assert message(text) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("4\tthe", "5\tthe", ":6: expected word number 4 in column 1, found '5'."),
        ("sister\t4)|(6", "sister\t4)|6", ":10: expected brackets such as (1, (1) or 1) in column 3, found '4)|6'."),
        ("old\t_", "old\t", None),
        ("old\t_", "\t_", ":3: expected a word in column 2, found ''."),
        ("old\t_", "old", ":3: expected 3 columns, found 2."),
        ("waved\t6)", "waved\t_", ":10: the bracket of chain 6 is not closed in its document."),
        ("waved\t6)", "waved\t7)", ":13: chain 7 is closed here, but no bracket of it is open."),
        ("# end document\n", "", ":14: expected '#end document' at the end of the document."),
    ],
)
def test_malformed_rows_of_three_columns_are_named(read, message, before, after, expected):
    assert before in SEA
    if expected is None:
        assert read(SEA.replace(before, after)) == read(SEA)
    else:
        assert message(SEA.replace(before, after)) == expected


def three_columns_of(document):
    """A document with its words and mentions alone."""
    brackets = [""] * len(document.words)
    for m in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        brackets[m.start - 1] += f"({m.group})" if m.start == m.end else f"({m.group}"
        brackets[m.end - 1] += "" if m.start == m.end else f"|{m.group})"
    rows = [
        f"{n}\t{word}\t{b.strip('|') or '_'}\n" for n, (word, b) in enumerate(zip(document.words, brackets, strict=True))
    ]
    return f"# begin document {document.name}\n{''.join(rows)}# end document\n"


def test_all_mentions_of_gum_are_the_same_in_three_columns(shared, read):
    gold = read_entity_documents(shared / "data/ud_english_gum/coref-train.conllu")
    found = read("".join(map(three_columns_of, gold)))
    assert [(d.name, d.words, spans(d)) for d in found] == [(d.name, d.words, spans(d)) for d in gold]
    assert sum(len(d.mentions) for d in found) == 24871


def test_a_parser_mostly_finds_the_heads_and_kinds_of_gum(shared, read):
    """Against the gold annotation of three documents; without a parser two in three heads are right, and few kinds."""
    gold = read_entity_documents(shared / "data/ud_english_gum/coref-train.conllu")[:3]
    found = read("".join(map(three_columns_of, gold)))
    parser = Parser(str(shared / "models/en_core_web_sm"))
    parsed = [parsed_document(d, parser.parse_words([d.words])) for d in found]
    assert share(parsed, gold, "head") > 0.9
    assert share(parsed, gold, "kind") > 0.85
    assert share(found, gold, "head") < 0.8


def share(found, gold, what):
    """The share of mentions with the same head or kind."""
    ours, theirs = (
        {(number, m.start, m.end, m.group): getattr(m, what) for number, d in enumerate(documents) for m in d.mentions}
        for documents in (found, gold)
    )
    return sum(ours[key] == value for key, value in theirs.items()) / len(theirs)
