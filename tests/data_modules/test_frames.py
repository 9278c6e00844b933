"""FrameNet files and the paper's filters."""

import pytest

from headscope.data_modules.frames import SAMPLE, FrameDataModule, distance, filtered
from headscope.data_modules.readers.framenet import Element, FrameExample, framenet_files, read_framenet
from headscope.errors import InputError

TEXT = "Ann gave the old clock to Bo ."
WHOLE = """<?xml version="1.0" encoding="UTF-8"?>
<fullTextAnnotation xmlns="http://framenet.icsi.berkeley.edu">
  <sentence ID="7">
    <text>{text}</text>
    <annotationSet status="UNANN" ID="1"><layer name="PENN"><label start="0" end="2" name="NP"/></layer></annotationSet>
    <annotationSet luName="give.v" frameName="Giving" status="MANUAL" ID="2">
      <layer rank="1" name="Target"><label start="4" end="7" name="Target"/></layer>
      <layer rank="1" name="FE">{elements}<label itype="DNI" name="Time"/></layer>
    </annotationSet>
  </sentence>
</fullTextAnnotation>"""
ELEMENTS = (
    '<label start="0" end="2" name="Donor"/><label start="9" end="21" name="Theme"/>'
    '<label start="26" end="27" name="Recipient"/>'
)
LEXICAL_UNIT = """<lexUnit frame="Giving" xmlns="http://framenet.icsi.berkeley.edu">
  <header><frame><FE name="Donor" type="Core"/><FE name="Place" type="Peripheral"/></frame></header>
  <subCorpus><sentence ID="9"><text>He gives here .</text><annotationSet status="MANUAL" ID="3">
    <layer name="Target"><label start="3" end="7" name="Target"/></layer>
    <layer name="FE"><label start="0" end="1" name="Donor"/><label start="9" end="12" name="Place"/></layer>
  </annotationSet></sentence></subCorpus>
</lexUnit>"""


@pytest.fixture
def written(tmp_path):
    def write(content):
        file = tmp_path / "frames.xml"
        file.write_text(content, encoding="utf-8")
        return file

    return write


def example(text, target, *elements):
    """Spans by the words they cover, from 0."""

    def span(first, last):
        words = text.split()
        start = len(" ".join([*words[:first], ""]))
        return start, start + len(" ".join(words[first : last + 1])) - 1

    found = tuple(Element("E", span(first, last), core) for first, last, core in elements)
    return FrameExample(text, "F", (span(*target),), found, "")


def test_full_text_by_hand(written):
    (found,) = read_framenet(written(WHOLE.format(text=TEXT, elements=ELEMENTS)))
    assert (found.text, found.frame, found.targets) == (TEXT, "Giving", ((4, 7),))
    assert [(e.name, e.span, e.core) for e in found.elements] == [
        ("Donor", (0, 2), None),
        ("Theme", (9, 21), None),
        ("Recipient", (26, 27), None),
    ]


def test_a_lexical_unit_says_which_elements_are_core(written):
    (found,) = read_framenet(written(LEXICAL_UNIT))
    assert (found.frame, [(e.name, e.core) for e in found.elements]) == ("Giving", [("Donor", True), ("Place", False)])


def test_each_filter_in_turn_counts_what_it_removes():
    words = "a b c d e f g h i j"
    long = example(f"{words} k l m", (0, 0), (5, 5, True))
    peripheral = example(words, (0, 0), (5, 5, False))
    wide = example(words, (0, 0), (4, 7, True))
    near = example(words, (4, 4), (5, 6, None), (3, 3, True))
    good = example(words, (4, 5), (7, 9, True), (6, 6, True))
    kept, removed = filtered([long, peripheral, wide, near, good], 12, 3, 2)
    assert [len(found.elements) for found in kept] == [1]
    assert list(removed.values()) == [1, 1, 1, 1]
    both = example(words, (4, 5), (7, 9, True), (0, 1, True))
    one_long = example(words, (0, 0), (2, 3, True), (5, 9, True))
    kept, removed = filtered([long, peripheral, wide, near, good, both, one_long], 12, 3, 2, keep="sentences")
    assert (kept, list(removed.values())) == ([both], [1, 1, 2, 2])  # a sentence goes with any core element that fails
    assert list(removed)[2:] == ["with an element of over 3 words", "with an element less than 2 words away"]
    assert distance(good, good.targets[0], good.elements[0].span) == 2


def test_links_join_all_pieces_of_target_and_elements(written, minilm):
    file = written(WHOLE.format(text=TEXT, elements=ELEMENTS))
    data = FrameDataModule(encoder=minilm, test=str(file))
    item = data.read_splits()["test"].items[0]
    tokens = minilm.tokenizer().convert_ids_to_tokens(item.input_ids.tolist())
    ends = item.example.gold["links"].reshape(-1, 2).tolist()
    # Ann is next to the target; the other elements are one and four words away from it.
    assert {(tokens[a], tokens[b]) for a, b in ends} == {("gave", "bo")}
    marked = data.facts().drawn[0].marked
    assert {part: [tokens[index] for index in indices] for part, indices in marked.items()} == {
        "target": ["gave"],
        "element": ["bo"],
    }


def test_the_sample_passes_as_its_card_says(minilm):
    data = FrameDataModule(encoder=minilm)
    assert len(data.read_splits()["test"]) == 45
    assert sum(data.removed.values()) == 15
    assert all(len(item.example.gold["links"]) for item in data.read_splits()["test"].items)
    assert framenet_files(SAMPLE)[0].name == "sample.xml"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("<fullTextAnnotation><sentence>", "is not well-formed XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "declares a document type or entities"),
        (WHOLE.format(text="", elements=""), ":3: expected a <text> in the sentence, found an empty one."),
        (
            WHOLE.format(text=TEXT, elements='<label start="9" end="99" name="Theme"/>'),
            "label Theme: expected characters within",
        ),
        (WHOLE.format(text=TEXT, elements='<label start="9" end="5" name="Theme"/>'), "found 9-5"),
    ],
)
def test_bad_files_are_refused_with_file_and_element(written, content, sentence):
    file = written(content)
    with pytest.raises(InputError, match="frames.xml") as error:
        read_framenet(file)
    assert sentence in str(error.value)


def test_no_entity_is_ever_expanded(written):
    with pytest.raises(InputError, match="which are not read"):
        read_framenet(written('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>'))


def test_nothing_left_says_what_each_filter_removed(written, minilm):
    file = written(WHOLE.format(text=TEXT, elements=ELEMENTS))
    with pytest.raises(InputError, match="none of 1 annotated targets is left"):
        FrameDataModule(encoder=minilm, test=str(file), max_words=3).read_examples()
    with pytest.raises(InputError, match="no such file"):
        framenet_files(file.parent / "missing.xml")


def test_the_real_files(shared, minilm):
    folder = str(shared / "data" / "framenet15_fulltext")
    data = FrameDataModule(encoder=minilm, test=folder)
    assert (len(data.read_splits()["test"]), list(data.removed.values())) == (49, [11038, 646, 9, 6, 80])
    every_target = FrameDataModule(encoder=minilm, test=folder, one_target=False)
    assert (len(every_target.read_splits()["test"]), list(every_target.removed.values())) == (219, [11038, 28, 51, 492])
