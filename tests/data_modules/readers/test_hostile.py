"""Files made to be slow, deep or malformed: read in time that grows with the file, or refused with their line."""

import json
import sys
from itertools import count
from pathlib import Path

import pytest

from headscope.data_modules.patterns.labels import COLUMNS, read_labels
from headscope.data_modules.readers.articles import read_articles
from headscope.data_modules.readers.conll2012 import read_conll2012
from headscope.data_modules.readers.conllu import _require_tree, read_conllu
from headscope.data_modules.readers.coreference import read_documents
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.framenet import read_framenet
from headscope.data_modules.readers.glue import TASKS, read_tsv
from headscope.data_modules.readers.three_columns import read_three_columns
from headscope.errors import InputError
from tests.faults.mutated_readers import ACTIONS, read_journal
from tests.faults.mutations import limited

MINUTE = 60  # a guard only: all of these take far less, and took hours or for ever


def word(number, head, form="a", relation="dep", last="_"):
    return f"{number}\t{form}\t_\tX\t_\t_\t{head}\t{relation}\t_\t{last}\n"


def chain(size):
    """A tree as deep as it has words, its root at the far end."""
    return "".join(word(number, (number + 1) % (size + 1)) for number in range(1, size + 1))


def entity(text):
    return word(1, 0, last=f"Entity={text}")


def conll(*words):
    """A document of one sentence, from parses and chains."""
    rows = (f"d 0 {n} a NN {parse} - - - - * {chains}\n" for n, (parse, chains) in enumerate(words))
    return f"#begin document (d); part 000\n{''.join(rows)}\n#end document\n"


def three(*brackets, number=0):
    """A document in three columns, from its brackets."""
    rows = (f"{number or n}\ta\t{text}\n" for n, text in enumerate(brackets))
    return f"# begin document d\n{''.join(rows)}# end document\n"


def frames(inside, count=1):
    sentence = f"<sentence><text>He ran .</text>{inside}</sentence>"
    return f"<f>{sentence * count}</f>"


def target(start, end):
    return f'<annotationSet><layer name="Target"><label start="{start}" end="{end}"/></layer></annotationSet>'


SST2 = "sentence\tlabel\n"
STSB = "sentence1\tsentence2\tscore\n"
LABELS = ",".join(COLUMNS) + "\n"
READ = {
    "t.conllu": lambda file: read_conllu([file]),
    "d.conllu": read_entity_documents,
    "t_conll": read_conll2012,
    "t.conll": read_three_columns,
    "any": read_documents,
    "t.xml": read_framenet,
    "t.txt": read_articles,
    "sst2.tsv": lambda file: read_tsv(file, TASKS["sst2"], None),
    "stsb.tsv": lambda file: read_tsv(file, TASKS["stsb"], None),
    "labels.csv": read_labels,
    "t.journal": read_journal,
}
DIGITS = "9" * 5000


@pytest.fixture
def read(tmp_path):
    """Reads text or bytes as the file of a name."""

    def write_and_read(name, content):
        file = tmp_path / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        with limited(MINUTE):
            return READ[name](file)

    return write_and_read


@pytest.fixture
def message(read, tmp_path):
    """The message about a file, from its name on: one line, not long."""

    def read_in_vain(name, content):
        with pytest.raises(InputError) as caught:
            read(name, content)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path}/{name}")
        assert message.endswith(".")
        assert len(message.splitlines()) == 1
        assert len(message) < len(str(tmp_path)) + 300
        return message.removeprefix(f"{tmp_path}/{name}")

    return read_in_vain


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.conllu", word(1, DIGITS), ":1: expected a head from 0 to 1 in column 7, found '99"),
        ("t.conllu", word(1, "٠"), ":1: expected a head from 0 to 1"),
        ("t.conllu", word(DIGITS, 0), ":1: expected word number 1, found '99"),
        ("t.conllu", word(f"1-{DIGITS}", "_") + word(1, 0), ":1: expected a range from word 1 on"),
        ("t.conllu", word("1-3", "_") + word(1, 0) + word(2, 1), ":3: expected word 3 of the range that ends there"),
        ("t.conllu", word(1, 0) + word("2-", 1), ":2: expected a range from word 2 on, found '2-'."),
        ("t.conllu", word(1, 0) + word("1.x", 1), ":2: expected an empty node such as 1.1, found '1.x'."),
        ("t.conllu", word(1, 0) + word(2, 0), ":2: expected one root, found a second: word 2."),
        ("t.conllu", word(1, 0, form=""), ":1: expected a value in column 2, found ''."),
        ("t.conllu", word(1, 0, form="\u2028"), ":1: expected a value in column 2, found '\\u2028'."),
        ("t.conllu", word(1, 0, relation=""), ":1: expected a value in column 8, found ''."),
        ("t.conllu", word(1, 0, form="a\0"), ":1: expected text, found a NUL byte."),
        ("t.conllu", b"# \xed\xa0\x80\n", ":1: expected UTF-8 text"),
        ("d.conllu", entity("(1-a)|Entity=(2-b)"), ":1: expected Entity= once in column 10, found it 2 times."),
        ("d.conllu", entity(""), ":1: expected brackets such as (1-person or 1) in Entity=, found ''."),
        ("d.conllu", entity("(" * 10_000), ":1: expected brackets such as"),
        ("d.conllu", entity("(1" * 10_000), ":1: expected at most 100 mentions over a word"),
        ("d.conllu", entity("1)" * 10_000), ":1: entity 1 is closed here, but no bracket of it is open."),
        ("t_conll", conll(("(NP*)", f"({DIGITS}")), ":2: the bracket of chain '99"),
        ("t_conll", conll(("(NP*)", "(٣)")), ":2: expected chains such as (1, (1) or 1)"),
        ("t_conll", conll(("(NP", "-")), ":2: expected a parse such as (NP*, * or *)) in column 6, found '(NP'."),
        ("t_conll", conll(("(NP*)x", "-")), ":2: expected a parse such as"),
        ("t_conll", conll(("(*)", "-")), ":2: expected a parse such as"),
        ("t_conll", conll(("(NP*)", "-"), ("-", "-")), ":3: expected a parse such as"),
        ("t_conll", conll(("*", "-"), ("*", "-")).replace("d 0 1", "d 0 2"), ":3: expected word number 1 in column 3"),
        ("t_conll", conll(("*", "-")).replace("d 0 0", f"d 0 {DIGITS}"), ":2: expected a word number in column 3"),
        ("t_conll", conll(("*", "-"), ("*", "- -")), ":3: expected 12 columns as in the line before, found 13."),
        ("t_conll", conll(("*", "-")).partition("\n")[2], ":1: expected '#begin document' before this line."),
        ("t_conll", "#end document\n", ":1: expected '#begin document' before this line."),
        ("t_conll", "#begin document (a)\n#begin document (b)\n", ":2: expected '#end document' before another"),
        ("t_conll", "", ": expected at least one document, found none."),
        ("t.conll", three(f"({DIGITS}"), ":2: the bracket of chain '99"),
        ("t.conll", three("(" * 10_000), ":2: expected brackets such as (1, (1) or 1) in column 3, found '((("),
        ("t.conll", three("(1" * 10_000), ":2: expected at most 100 mentions over a word"),
        ("t.conll", three("(1)", number=DIGITS), ":2: expected a word number in column 1, found '99"),
        ("t.conll", three("(1)").partition("\n")[2], ":1: expected '#begin document' before this line."),
        ("any", "x" * 3_000_000, ":1: expected CoNLL-U with Entity="),
        ("any", b"\xff\xfe#\0 \0n\0e\0w\0", ":1: expected CoNLL-U with Entity="),
        ("any", b"# \xff\n" + word(1, 0).encode(), ":1: expected UTF-8 text"),
        ("t.xml", frames(target(0, DIGITS)), ":1: label '': expected characters within 0-7, found '0-99"),
        ("t.xml", frames(target("٠", 1)), ":1: label '': expected characters within 0-7, found ٠-1."),
        ("t.xml", frames(target(3, 1)), ":1: label '': expected characters within 0-7, found 3-1."),
        ("t.xml", "<f>\n" + frames("<text>b</text>") + "</f>", ":2: expected a <text> in the sentence, found 2 of them."),
        ("t.xml", frames("<s>\n<sentence/></s>"), ":2: expected the end of the sentence, found another inside it."),
        ("t.xml", "<a>\n" * 100_000, ":51: expected elements at most 50 deep, found more."),
        ("t.xml", '<!DOCTYPE x [<!ENTITY a "b"><!ENTITY b "&a;&a;">]><x>&b;</x>', ":1: declares a document type"),
        ("t.xml", "<f>\n&#xD800;</f>", ":2: is not well-formed XML"),
        ("t.xml", b"<f>\n\xff</f>", ":2: expected UTF-8 text"),
        ("t.xml", "<f>\n\0</f>", ":2: is not well-formed XML"),
        ("t.txt", "a\nb\0", ":2: expected text, found a NUL byte."),
        ("sst2.tsv", SST2 + "a\t1\0\n", ":2: expected text, found a NUL byte."),
        ("sst2.tsv", SST2 + f"a\t{DIGITS}\n", ":2: expected a label 0 or 1, found '99"),
        ("sst2.tsv", SST2 + "\t1\n \t0\n", ": expected at least one example, found none."),
        ("sst2.tsv", "sentence\tlabel\tlabel\na\t1\t0\n", ":1: expected a column 'label', found"),
        ("stsb.tsv", STSB + "a\tb\t1e999\n", ":2: expected a score from 0 to 5, found '1e999'."),
        ("stsb.tsv", STSB + "a\tb\t٣\n", ":2: expected a score from 0 to 5, found '٣'."),
        ("stsb.tsv", STSB + "a\tb\t0_1\n", ":2: expected a score from 0 to 5, found '0_1'."),
        ("stsb.tsv", STSB + f"a\tb\t{DIGITS}\n", ":2: expected a score from 0 to 5, found '99"),
        ("labels.csv", LABELS + f"e,s,rte,val,1,{DIGITS},1,,1\n", ":2: expected a whole number from 1 in the column layer"),
        ("t.journal", "[" * 100_000 + "\n", ":1: expected an action of labelling, found something else; mend or"),
        ("t.journal", '{"action": "export"}\nmy own notes', ":2: expected an action of labelling, found something else"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused_with_their_line(name, content, sentence, message):
    assert message(name, content).startswith(sentence)


@pytest.mark.parametrize("name", READ)
def test_a_folder_in_the_place_of_a_file(name, tmp_path):
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=name):
        READ[name](tmp_path / name)


def test_what_is_not_a_journal_is_not_cut(message, tmp_path):
    message("t.journal", "my own notes")
    assert (tmp_path / "t.journal").read_text() == "my own notes"


def test_a_parse_1200_deep_is_read(read):
    (found,) = read("t_conll", conll(("(NP" * 1200 + "*", "(1"), ("*" + ")" * 1200, "1)")))
    assert [(m.start, m.end, m.head) for m in found.mentions] == [(1, 2, 2)]


def test_a_document_without_a_word_is_read_as_one(read):
    assert [document.words for document in read("t_conll", conll())] == [()]


SLOW = {  # for each a size that a quadratic reader does not end in a minute
    "d.conllu": [entity("(1)" + "x" * 1_000_000), entity("x" * 1_000_000)],
    "t.xml": ["<sentence><text>a</text>" * 5000],
    "t.txt": ["= " + "= " * 50_000 + "x", " " * 100_000 + "=", "= a" + " =" * 50_000 + " b"],
}


@pytest.mark.parametrize(("name", "content"), [(name, text) for name, texts in SLOW.items() for text in texts])
def test_files_made_to_be_slow_are_read_or_refused_soon(name, content, read):
    try:
        found = read(name, content)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
    else:
        assert len(found) == 1


GROWING = {
    "t.conllu": chain,
    "d.conllu": lambda size: entity("(1-a)" * 50 + "|" + "x|" * size) + "".join(word(n, 1) for n in range(2, size)),
    "t_conll": lambda size: conll(*[("(NP*", "(1")] * 50, *[("*", "(2)")] * size, *[("*)", "1)")] * 50),
    "t.conll": lambda size: three(*["(1"] * 50, *["(2)"] * size, *["1)"] * 50),
    "t.xml": lambda size: frames(target(0, 1), size),
    "t.txt": lambda size: " = T = \n" + "= " * size + "x\n" + "a b\n" * size,
    "sst2.tsv": lambda size: SST2 + "a b\t1\n" * size,
    "labels.csv": lambda size: LABELS + "".join(f"e,s,rte,val,{n},1,1,,1\n" for n in range(size)),
    "t.journal": lambda size: (json.dumps(ACTIONS[0]) + "\n") * size,
}


def steps_of(read):
    """How many lines of Python run."""
    lines = count()
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if event == "line":
            seen = next(lines)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read()
    finally:
        sys.settrace(before)
    return seen


@pytest.mark.parametrize("name", GROWING)
def test_twice_the_file_is_twice_the_work(name, read):
    once, twice = (steps_of(lambda size=size: read(name, GROWING[name](size))) for size in (400, 800))
    assert twice < 2.5 * once


class Counted(int):
    """A number that counts how often it is compared."""

    compared = 0
    __hash__ = int.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return int(self) == int(other)


def comparisons(size):
    """Of the heads of a tree that is as deep as it has words."""
    before = Counted.compared
    _require_tree(Path("t"), list(range(size)), [Counted((number + 1) % (size + 1)) for number in range(1, size + 1)])
    return Counted.compared - before


def test_a_deep_tree_is_walked_over_once():
    once, twice = comparisons(300), comparisons(600)
    assert twice <= 2.5 * once + 10
