"""Real data sets, where they are at hand: as many examples as a plain loop over their lines finds."""

import pytest

from headscope.data_modules.readers.conllu import conllu_files, read_conllu
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.framenet import framenet_files
from headscope.data_modules.readers.glue import TASKS, read_tsv
from tests.faults.mutated_readers import (
    count_conllu,
    count_framenet,
    count_letters,
    read_frames,
    read_text_letters,
)


@pytest.mark.parametrize(("folder", "sentences"), [("ud_english_ewt", [2001, 12544]), ("ud_english_gum", [5209])])
def test_every_sentence_of_a_treebank(folder, sentences, shared):
    files = conllu_files(shared / "data" / folder)
    found = [read_conllu([file]) for file in files]
    assert [len(one) for one in found] == sentences
    for file, one in zip(files, found, strict=True):
        words, governors = sum(len(s.words) for s in one), sum(sum(s.governors) for s in one)
        assert count_conllu(file.read_bytes()) == (len(one), words, governors)


def test_every_document_and_mention_of_gum(shared):
    (file,) = conllu_files(shared / "data/ud_english_gum")
    documents = read_entity_documents(file)
    assert (len(documents), sum(len(d.mentions) for d in documents)) == (87, 24871)


def test_every_target_and_element_of_framenet(shared):
    files = framenet_files(shared / "data/framenet15_fulltext")
    found = [read_frames(file) for file in files]
    assert tuple(map(sum, zip(*found, strict=True))) == (11828, 21419)
    assert [count_framenet(file.read_bytes()) for file in files] == found


@pytest.mark.parametrize(
    ("task", "name", "examples"),
    [
        ("mrpc", "train.tsv", 3668),
        ("mrpc", "dev.tsv", 408),
        ("stsb", "train.tsv", 5749),
        ("stsb", "dev.tsv", 1500),
        ("sst2", "train.tsv", 67349),
        ("sst2", "dev.tsv", 872),
        ("rte", "train.tsv", 2490),
        ("rte", "dev.tsv", 277),
        ("qnli", "dev.tsv", 2732),
        ("mnli", "dev_matched.tsv", 4908),
    ],
)
def test_every_line_of_glue(task, name, examples, shared):
    file = shared / "data/glue" / TASKS[task].folder / name
    assert len(read_tsv(file, TASKS[task], None)) == examples == file.read_bytes().count(b"\n") - 1


def test_every_letter_of_wikitext(shared):
    file = shared / "data/wikitext/wiki.raw"
    assert read_text_letters(file) == count_letters(file.read_bytes())
