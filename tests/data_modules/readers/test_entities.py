"""Entity= brackets: spans, groups, head words and kinds by hand, and the file and line of what is wrong."""

import pytest

from headscope.data_modules.readers.conllu import read_conllu
from headscope.data_modules.readers.entities import is_plural, read_entity_documents, with_entities
from tests.data_modules.conftest import message_about, written_and_read


def row(place, form, head, entity="", upos="NOUN", relation="dep", lemma="_", features="_", xpos="_"):
    misc = f"SpaceAfter=No|Entity={entity}|Gloss=x" if entity else "_"
    return f"{place}\t{form}\t{lemma}\t{upos}\t{xpos}\t{features}\t{head}\t{relation}\t_\t{misc}\n"


def chain(*entities):
    """A sentence of as many words, each the dependent of the next, the last one the root."""
    count = len(entities)
    rows = (row(n, f"w{n}", n + 1 if n < count else 0, entity) for n, entity in enumerate(entities, start=1))
    return "".join(rows) + "\n"


DOG = (
    row(1, "The", 3, "(1-animal", "DET")
    + row(2, "old", 3, "", "ADJ")
    + row(3, "dog", 7, "", "NOUN", "nsubj", "dog")
    + row(4, "of", 5, "", "ADP")
    + row(5, "Ann", 3, "(2-person)1)", "PROPN", "nmod", "Ann")
    + row(6, "has", 7, "", "AUX")
    + row(7, "bitten", 0, "", "VERB", "root")
    + row(8, "its", 9, "(3-person(1-animal)", "PRON", "nmod:poss", "its")
    + row(9, "keepers", 7, "3)", "NOUN", "obj", "keeper")
    + "\n"
)


@pytest.fixture
def read(tmp_path):
    return written_and_read(tmp_path / "t.conllu", read_entity_documents)


@pytest.fixture
def message(read):
    return message_about(read, "t.conllu")


@pytest.fixture
def spans(read):
    """The (start, end, group) of the only document of a text, by place."""

    def read_spans(text):
        (document,) = read(text)
        return sorted((m.start, m.end, m.group) for m in document.mentions)

    return read_spans


def test_sentences_get_the_entities_of_their_mentions_by_head_word(tmp_path):
    file = tmp_path / "t.conllu"
    file.write_text(f"# global.Entity = GRP-etype\n{DOG}{chain('(4-x)', '')}")
    dog, other = with_entities(file, read_conllu([file]))
    assert set(dog.entities) == {(3, "1"), (5, "2"), (9, "3"), (8, "1")}
    assert other.entities == ((1, "4"),)
    assert len(with_entities(file, read_conllu([file], 1))) == 1
    file.write_text(DOG)
    assert with_entities(file, read_conllu([file]))[0].entities is None


def only(document, **wanted):
    (found,) = (m for m in document.mentions if all(getattr(m, name) == value for name, value in wanted.items()))
    return found


def test_a_sentence_by_hand(read):
    (document,) = read(DOG)
    assert document.words == ("The", "old", "dog", "of", "Ann", "has", "bitten", "its", "keepers")
    assert [(m.start, m.end, m.head, m.group, m.kind) for m in document.mentions] == [
        (1, 5, 3, "1", "nominal"),
        (5, 5, 5, "2", "proper"),
        (8, 8, 8, "1", "pronoun"),
        (8, 9, 9, "3", "nominal"),
    ]
    assert [m.text for m in document.mentions] == ["the old dog of ann", "ann", "its", "its keepers"]
    assert [m.head_text for m in document.mentions] == ["dog", "ann", "its", "keepers"]
    assert [m.number for m in document.mentions] == ["singular", "singular", "singular", "plural"]
    assert [m.gender for m in document.mentions] == [None, None, "neuter", None]


def test_words_are_counted_through_the_document(read):
    (document,) = read(DOG + DOG)
    assert len(document.words) == 18
    assert [m.head for m in document.mentions] == [3, 5, 8, 9, 12, 14, 17, 18]
    assert [(m.start, m.end) for m in document.mentions[4:]] == [(10, 14), (14, 14), (17, 17), (17, 18)]


@pytest.mark.parametrize(
    ("entities", "expected"),
    [
        (["(1-a", "", "1)"], [(1, 3, "1")]),
        (["(1-a)", "", "(1-a)"], [(1, 1, "1"), (3, 3, "1")]),
        (["(1-a(2-b(3-c)", "2)", "1)"], [(1, 1, "3"), (1, 2, "2"), (1, 3, "1")]),
        (["(1-a", "(2-b", "2)1)"], [(1, 3, "1"), (2, 3, "2")]),
        (["(1-a", "1)(2-b", "2)"], [(1, 2, "1"), (2, 3, "2")]),
        (["(1-a", "1)(2-b)(3-c", "3)"], [(1, 2, "1"), (2, 2, "2"), (2, 3, "3")]),
        (["(1-a", "(2-b", "1)", "2)"], [(1, 3, "1"), (2, 4, "2")]),  # crossing
        (["(1-a", "(1-a", "1)", "1)"], [(1, 4, "1"), (2, 3, "1")]),  # a group within itself
        (["(1-a(1-a", "1)", "1)"], [(1, 2, "1"), (1, 3, "1")]),
        (["(1-a", "1)(1-a", "1)"], [(1, 2, "1"), (2, 3, "1")]),  # reopened where it closes
        (["(1)", "(2", "2)"], [(1, 1, "1"), (2, 3, "2")]),  # nothing but groups
        (["(1-a-new-x:y,z-Some_Name", "1)"], [(1, 2, "1")]),
        (["", ""], []),
    ],
)
def test_spans_by_hand(spans, entities, expected):
    assert spans(chain(*entities)) == expected


@pytest.mark.parametrize(
    ("fields", "entities"),
    [
        ("GRP-etype-infstat", ["(7-person-new", "", "7)"]),
        ("eid-etype-head-other", ["(7-person-1-x", "", "7)"]),
        ("etype-eid-head", ["(person-7-1", "", "7)"]),
        ("entity-GRP-infstat-MIN", ["(person-7-new-1,2", "", "7)"]),
        ("a-b-GRP", ["(x-y-7", "", "7)"]),
    ],
)
def test_the_place_of_the_group_comes_from_the_file(spans, fields, entities):
    assert spans(f"# newdoc id = a\n# global.Entity = {fields}\n" + chain(*entities)) == [(1, 3, "7")]


def test_the_place_of_the_group_holds_for_later_documents(read):
    text = "# newdoc id = a\n# global.Entity = etype-GRP\n" + chain("(person-7)") + "# newdoc id = b\n" + chain("(place-8)")
    assert [[m.group for m in document.mentions] for document in read(text)] == [["7"], ["8"]]


def test_of_a_mention_in_pieces_the_first_stands_for_it(spans):
    entities = ["(e1[1/2]-person", "e1[1/2])", "(e2-x)", "(e1[2/2]-person)"]
    assert spans(chain(*entities)) == [(1, 2, "e1"), (3, 3, "e2")]
    assert spans(chain("(e1[1/3]-x)", "(e1[2/3]-x)", "(e1-x)", "(e1[3/3]-x)")) == [(1, 1, "e1"), (3, 3, "e1")]
    eleven = [f"(e1[{part}/11]-x)" for part in range(1, 12)]
    assert spans(chain(*eleven)) == [(1, 1, "e1")]


def test_documents_start_at_newdoc(read):
    text = "# newdoc id = first\n# sent_id = 1\n" + DOG + "# sent_id = 2\n" + DOG + "# newdoc id = second\n" + DOG
    documents = read(text)
    assert [(d.name, len(d.words), len(d.mentions)) for d in documents] == [("first", 18, 8), ("second", 9, 4)]
    assert documents[1].mentions == read(DOG)[0].mentions


def test_a_file_without_newdoc_is_one_document_named_by_the_file(read):
    assert [d.name for d in read(DOG + DOG)] == ["t"]
    assert [d.name for d in read(DOG + "# newdoc id = b\n" + DOG)] == ["t", "b"]
    assert [d.name for d in read("# newdoc\n" + DOG + "# newdoc\n" + DOG)] == ["t", "t"]


def test_comments_set_apart_by_a_blank_line_still_count(read):
    text = "# newdoc id = a\n# global.Entity = etype-GRP\n\n" + chain("(person-7)")
    assert [(d.name, [m.group for m in d.mentions]) for d in read(text)] == [("a", ["7"])]


def test_ranges_and_empty_nodes_are_no_words(read):
    text = (
        row("1-2", "Ann's", "_", "(8-range)")
        + row(1, "Ann", 3, "(1-person", "PROPN")
        + row(2, "'s", 1, "1)", "PART")
        + row("2.1", "own", "_", "(9-zero)")
        + row(3, "dog", 0, "(2-animal)")
        + "\n"
    )
    (document,) = read(text)
    assert document.words == ("Ann", "'s", "dog")
    assert [(m.start, m.end, m.head, m.group) for m in document.mentions] == [(1, 2, 1, "1"), (3, 3, 3, "2")]


def test_a_mention_that_starts_at_an_empty_node_starts_at_its_first_word(spans):
    text = (
        row(1, "saw", 0, "", "VERB") + row("1.1", "_", "_", "(1-person") + row(2, "Ann", 1) + row(3, "Lee", 2, "1)") + "\n"
    )
    assert spans(text) == [(2, 3, "1")]


def test_the_head_word_has_its_own_head_outside(read):
    """The man [who came] left: the clause depends on the noun, the noun on the verb."""
    text = (
        row(1, "The", 2, "(1-person", "DET")
        + row(2, "man", 5)
        + row(3, "who", 4, "(1-person)", "PRON")
        + row(4, "came", 2, "1)", "VERB")
        + row(5, "left", 0, "(2-event)", "VERB")
        + "\n"
    )
    (document,) = read(text)
    assert only(document, start=1).head == 2
    assert only(document, start=5).head == 5
    assert only(document, start=5).kind == "nominal"


def test_the_root_is_the_head_of_a_span_that_holds_it(read):
    (document,) = read(chain("(1-a", "", "1)"))
    assert [m.head for m in document.mentions] == [3]


def test_of_several_words_with_outside_heads_the_first_is_the_head(read):
    text = row(1, "two", 3, "(1-x") + row(2, "three", 3, "1)") + row(3, "four", 0) + "\n"
    assert [m.head for m in read(text)[0].mentions] == [1]


def test_punctuation_is_no_head_beside_a_word(read):
    text = (
        row(1, '"', 4, "(1-x", "PUNCT") + row(2, "New", 3, "", "ADJ") + row(3, "readers", 4, "1)") + row(4, "come", 0) + "\n"
    )
    assert [m.head for m in read(text)[0].mentions] == [3]


@pytest.mark.parametrize(
    ("upos", "kind"),
    [
        ("PRON", "pronoun"),
        ("PROPN", "proper"),
        ("NOUN", "nominal"),
        ("NUM", "nominal"),
        ("VERB", "nominal"),
        ("DET", "nominal"),
    ],
)
def test_the_kind_comes_from_the_part_of_speech_of_the_head(read, upos, kind):
    text = row(1, "PRON", 2, "(1-x", "DET") + row(2, "w", 0, "1)", upos) + "\n"
    assert [m.kind for m in read(text)[0].mentions] == [kind]


def test_a_coordination_is_plural_and_its_first_conjunct_is_not(read):
    text = (
        row(1, "Nadia", 0, "(3-person(1-person)", "PROPN", "root", "Nadia")
        + row(2, "and", 3, "", "CCONJ", "cc")
        + row(3, "Beth", 1, "(2-person)3)", "PROPN", "conj", "Beth")
        + "\n"
    )
    (document,) = read(text)
    numbers = {(m.group, m.head, m.number) for m in document.mentions}
    assert numbers == {("1", 1, "singular"), ("2", 3, "singular"), ("3", 1, "plural")}


@pytest.mark.parametrize(
    ("form", "lemma", "upos", "xpos", "features", "expected"),
    [
        ("dogs", "dog", "NOUN", "_", "_", True),
        ("Dog", "dog", "NOUN", "_", "_", False),
        ("bus", "bus", "NOUN", "_", "_", False),
        ("sheep", "sheep", "NOUN", "NNS", "Number=Plur", True),
        ("news", "news", "NOUN", "NN", "Number=Sing", False),
        ("children", "child", "NOUN", "NNS", "_", True),
        ("data", "datum", "NOUN", "_", "Gender=Neut|Number=Plur", True),
        ("Alps", "Alps", "PROPN", "NNPS", "_", True),
        ("James", "James", "PROPN", "NNP", "_", False),
        ("two", "two", "NUM", "CD", "_", None),
        ("swims", "swim", "VERB", "VBZ", "_", None),
    ],
)
def test_number_from_features_then_tag_then_form(form, lemma, upos, xpos, features, expected):
    columns = row(1, form, 0, "", upos, "root", lemma, features, xpos).rstrip("\n").split("\t")
    assert is_plural(columns) is expected


@pytest.mark.parametrize(("form", "lemma"), [("children", "child"), ("men", "man"), ("Mice", "mouse")])
def test_irregular_plurals_are_not_singular(form, lemma):
    columns = row(1, form, 0, "", "NOUN", "root", lemma).rstrip("\n").split("\t")
    assert is_plural(columns) is not False


def test_a_bracket_that_is_never_closed(message):
    assert message(chain("(2-b)", "(1-a", "")) == ":2: the bracket of entity 1 is not closed in its sentence."


def test_a_bracket_that_closes_in_the_next_sentence(message):
    assert message(chain("(1-a", "") + chain("", "1)")) == ":1: the bracket of entity 1 is not closed in its sentence."


def test_a_bracket_that_was_never_opened(message):
    text = "# newdoc id = a\n" + chain("", "(1-a)", "2)")
    assert message(text) == ":4: entity 2 is closed here, but no bracket of it is open."


def test_a_bracket_that_is_closed_twice(message):
    assert message(chain("(1-a", "1)", "1)")) == ":3: entity 1 is closed here, but no bracket of it is open."


@pytest.mark.parametrize("value", ["1", "(", ")", "()", "(1-a)b", "(1-a))", "((1-a)"])
def test_a_malformed_value_is_quoted(message, value):
    expected = f":2: expected brackets such as (1-person or 1) in Entity=, found {value!r}."
    assert message(chain("(9-a)", value)) == expected


def test_a_file_that_names_no_group(message):
    text = "# newdoc id = a\n# global.Entity = etype-infstat\n" + chain("(person-new)")
    assert message(text) == ":3: expected GRP or eid in global.Entity, found 'etype-infstat'."


def test_a_bracket_that_lacks_the_group(message):
    assert message("# global.Entity = etype-GRP\n" + chain("(person)")).startswith(":2: ")


def test_a_cycle_is_an_error_as_in_treebanks(message):
    assert message(row(1, "a", 2) + row(2, "b", 1)).startswith(":1: expected a tree")


def test_crlf_and_byte_order_mark_change_nothing(read):
    assert read("\ufeff# newdoc id = a\r\n" + DOG.replace("\n", "\r\n")) == read("# newdoc id = a\n" + DOG)


def test_real_documents(shared):
    file = shared / "data/ud_english_gum/coref-train.conllu"
    documents = read_entity_documents(file)
    text = file.read_text(encoding="utf-8")
    assert len(documents) == 87
    assert [d.name for d in documents] == [line[14:] for line in text.split("\n") if line.startswith("# newdoc id =")]
    mentions = [(d, m) for d in documents for m in d.mentions]
    assert all(1 <= m.start <= m.head <= m.end <= len(d.words) for d, m in mentions)
    misc = [line.split("\t")[9] for line in text.split("\n") if line and not line.startswith("#")]
    brackets = sum(value[7:].count("(") for cell in misc for value in cell.split("|") if value.startswith("Entity="))
    assert len(mentions) == brackets
    assert {m.kind for _, m in mentions} == {"pronoun", "proper", "nominal"}
