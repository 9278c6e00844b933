"""Every reader of a file with small valid files, and an independent count of what a file holds.

A count is of plain loops over the text that share nothing with the reader; None where a file has no cheap one.
"""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import torch
from safetensors.torch import save
from torch import nn

from headscope.contracts import Provenance, RunResults
from headscope.data_modules import documents, frames, glue, segments, treebank
from headscope.data_modules.batches.word_vectors import VectorFile
from headscope.data_modules.encoders.weight_change import add_change
from headscope.data_modules.patterns.labels import read_labels
from headscope.data_modules.patterns.votes import read_votes
from headscope.data_modules.readers.articles import read_articles
from headscope.data_modules.readers.conll2012 import read_conll2012
from headscope.data_modules.readers.conllu import read_conllu
from headscope.data_modules.readers.coreference import read_documents
from headscope.data_modules.readers.entities import read_entity_documents
from headscope.data_modules.readers.framenet import read_framenet
from headscope.data_modules.readers.glue import TASKS, Task, read_tsv
from headscope.data_modules.readers.three_columns import read_three_columns
from headscope.reports.results import finished_results
from headscope.tools.label.journal import Journal
from headscope.tools.label.tables import PACKAGED

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Reader:
    """How a file is read, and what comes of it in numbers; `counted` finds the same numbers in the bytes."""

    file: str
    seeds: tuple[bytes, ...]
    read: Callable[[Path], Counts | None]
    counted: Callable[[bytes], Counts | None] = lambda _: None


def rows_of(content: bytes) -> list[str]:
    """The lines of a text file; only a line feed ends one."""
    return [line.rstrip("\r\n") for line in content.decode("utf-8-sig").split("\n")]


def first_blocks(file: Path, count: int, skip: int = 0) -> bytes:
    """Some sentences of a CoNLL-U file."""
    return ("\n\n".join(file.read_text(encoding="utf-8").split("\n\n")[skip : skip + count]) + "\n\n").encode()


def first_lines(file: Path, count: int) -> bytes:
    """The first lines of a file."""
    with file.open("rb") as stream:
        return b"".join(islice(stream, count))


def conllu_sentences(content: bytes) -> Iterator[list[list[str]]]:
    """The columns of the words of each sentence."""
    words: list[list[str]] = []
    for line in [*rows_of(content), ""]:
        if not line.strip() and words:
            yield words
            words = []
        elif line.strip() and line[0] != "#" and line.split("\t")[0].isdigit():
            words.append(line.split("\t"))


def count_conllu(content: bytes) -> Counts:
    sentences = list(conllu_sentences(content))
    return len(sentences), sum(map(len, sentences)), sum(int(word[6]) for words in sentences for word in words)


def read_treebank(file: Path) -> Counts:
    found = read_conllu([file])
    return len(found), sum(len(s.words) for s in found), sum(sum(s.governors) for s in found)


EMPTY_NODES = b"""# newdoc id = a
# global.Entity = eid-etype
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\tEntity=(e1-x
2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\tEntity=(e2[1/2]-x)
2.1\tyou\tyou\tPRON\t_\t_\t_\t_\t_\tEntity=(e3-x)
3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No|Entity=(e2[2/2]-x)e1)

"""


def count_entities(content: bytes) -> Counts | None:
    """Words and mentions; none where pieces and empty nodes make mentions that are not counted."""
    lines = rows_of(content)
    entities = [line.partition("Entity=")[2].partition("|")[0] for line in lines if line.strip() and line[0] != "#"]
    numbers = [line.split("\t")[0] for line in lines if line.strip() and line[0] != "#"]
    if any("[" in entity for entity in entities) or any("." in number or "-" in number for number in numbers):
        return None
    return len(numbers), sum(entity.count("(") for entity in entities)


def count_documents(reader: Callable[[Path], list]) -> Callable[[Path], Counts]:
    def read(file: Path) -> Counts:
        found = reader(file)
        return sum(len(d.words) for d in found), sum(len(d.mentions) for d in found)

    return read


CONLL2012 = b"""#begin document (nw/a/0001); part 000
nw/a/0001   0   0   The     DT    (TOP(S(NP(NP*   -   -   -   -   *   (0
nw/a/0001   0   1   owner   NN    *)              -   -   -   -   *   -
nw/a/0001   0   2   of      IN    (PP*            -   -   -   -   *   -
nw/a/0001   0   3   the     DT    (NP*            -   -   -   -   *   (1
nw/a/0001   0   4   shop    NN    *)))            -   -   -   -   *   1)|0)
nw/a/0001   0   5   saw     VBD   (VP*            -   -   -   -   *   -
nw/a/0001   0   6   her     PRP   (NP*))))        -   -   -   -   *   (0)

nw/a/0001   0   0   Tom     NNP   (TOP(NP(NP*)    -   -   -   -   *   (2|(3)
nw/a/0001   0   1   and     CC    *               -   -   -   -   *   -
nw/a/0001   0   2   Ann     NNP   (NP*)))         -   -   -   -   *   2)

#end document
#begin document (nw/a/0001); part 001
nw/a/0001   1   0   Paris   NNP   (TOP(NP*))      -   -   -   -   *   (0)

#end document
"""


def count_conll2012(content: bytes) -> Counts:
    words = [line.replace("\t", " ").split(" ") for line in rows_of(content) if line.strip() and line[0] != "#"]
    return len(words), sum([cell for cell in word if cell][-1].count("(") for word in words)


LITBANK = b"""#begin document (emma_brat); part 0
emma_brat\t0\t0\tEmma\t_\t_\t_\t_\t_\t_\t_\t_\t(0)
emma_brat\t0\t1\tand\t_\t_\t_\t_\t_\t_\t_\t_\t
emma_brat\t0\t2\tthe\t_\t_\t_\t_\t_\t_\t_\t_\t(1
emma_brat\t0\t3\tman\t_\t_\t_\t_\t_\t_\t_\t_\t1)

#end document
"""
THREE_COLUMNS = b"""# begin document sea
0\tThe\t(1(2
1\tcaptain\t2)
2\tof\t_
3\tthe\t(3
4\tship\t3)1)
5\tsaw\t-
6\ther\t(4|(5)
7\tsister\t4)
# end document
"""


def count_three_columns(content: bytes) -> Counts:
    rows = [line for line in rows_of(content) if line.strip() and line[0] != "#"]
    columns = [line.split("\t") if "\t" in line else line.split(" ") for line in rows]
    return len(columns), sum(column[-1].count("(") for column in columns)


def count_framenet(content: bytes) -> Counts:
    targets = elements = 0
    text = content.decode("utf-8-sig").replace("{", "x").replace("}", "x")  # ElementTree's own signs around a namespace
    for sentence in ElementTree.fromstring(text).iter():
        if sentence.tag.rpartition("}")[2] != "sentence":
            continue
        for annotation in sentence:
            layers = [layer for layer in annotation if layer.tag.rpartition("}")[2] == "layer"]
            labels = [(layer.get("name"), label) for layer in layers for label in layer if label.tag.endswith("label")]
            labels = [(name, label) for name, label in labels if label.tag.rpartition("}")[2] == "label"]
            is_set = annotation.tag.rpartition("}")[2] == "annotationSet" and annotation.get("status") != "UNANN"
            if is_set and any(name == "Target" for name, _ in labels):
                targets += 1
                elements += sum(name == "FE" and "start" in label.attrib for name, label in labels)
    return targets, elements


def read_frames(file: Path) -> Counts:
    found = read_framenet(file)
    return len(found), sum(len(example.elements) for example in found)


def glue_reader(task: Task) -> Reader:
    def read(file: Path) -> Counts:
        return (len(read_tsv(file, task, None)),)

    def counted(content: bytes) -> Counts:
        header, *rows = [line.split("\t") for line in rows_of(content) if line.strip(" ")]
        texts = [header.index(column) for column in task.texts]
        whole = [row for row in rows if not task.broken_rows or len(row) >= len(header)]
        return (sum(all(row[index].strip() for index in texts) for row in whole),)

    return Reader(task.dev_file, (first_lines(glue.SAMPLE / task.folder / task.dev_file, 5),), read, counted)


WIKI = b""" = Tea = \n\n Tea is a well @-@ known drink of 1 @,@ 000 kinds .\n = = History = = \n It came from China .
 = Coffee = \n\n Coffee is black .\n It is hot .\n"""


def read_text_letters(file: Path) -> Counts:
    """How many letters all paragraphs have."""
    return (sum(letter.isalpha() for article in read_articles(file) for text in article.paragraphs for letter in text),)


def count_letters(content: bytes) -> Counts:
    """The same: all but those of headings, which have a title among them or are no headings."""
    words = [line.split() for line in rows_of(content)]
    signs = [
        (
            next((n for n, word in enumerate(line) if word != "="), 0),
            next((n for n, w in enumerate(line[::-1]) if w != "="), 0),
        )
        for line in words
    ]
    titled = any(min(pair) == 1 for pair in signs)
    kept = [line for line, pair in zip(words, signs, strict=True) if not (titled and min(pair))]
    return (sum(letter.isalpha() for line in kept for word in line for letter in word),)


def read_label_table(file: Path) -> Counts:
    found = read_labels(file)
    return len(found), sum(bool(label.label) for label in found), sum(label.map.example for label in found)


def count_labels(content: bytes) -> Counts:
    rows = list(csv.reader(io.StringIO("\n".join(rows_of(content)), newline="")))
    header, *rows = [row for row in rows if row]
    label, example = header.index("label"), header.index("example")
    return len(rows), sum(bool(row[label]) for row in rows), sum(int(row[example]) for row in rows)


LABELS = b"""encoder,sha256,task,split,example,layer,head,label,pass
minilm,0a1b,mrpc,val,3,2,11,block,1
minilm+sst2,2c3d,sst2,val,17,6,1,,1
minilm,0a1b,mrpc,val,3,2,11,vertical_diagonal,2
"""


def read_vote_table(file: Path) -> Counts:
    found = read_votes(file)
    return len(found), sum(len(row.votes) for row in found), sum(row.map.example for row in found)


def count_votes(content: bytes) -> Counts:
    rows = list(csv.reader(io.StringIO("\n".join(rows_of(content)), newline="")))
    header, *rows = [row for row in rows if row]
    votes, example = [header.index(f"vote_{n}") for n in range(1, 5)], header.index("example")
    return len(rows), sum(bool(row[vote]) for row in rows for vote in votes), sum(int(row[example]) for row in rows)


MAP = {"encoder": "minilm", "sha256": "0" * 64, "task": "mrpc", "split": "val", "example": 3, "layer": 2, "head": 11}
ACTIONS = [
    {"action": "label", **MAP, "pass": 1, "before": "", "label": "block", "tab": "a", "time": "2024-01-01T00:00:00"},
    {"action": "undo", **MAP, "pass": 1, "before": "block", "label": "", "tab": "a", "time": "2024-01-01T00:00:01"},
    {"action": "export"},
    {"action": "label", **MAP, "pass": 2, "before": "", "label": "vertical", "tab": "b", "time": "2024-01-01T00:00:02"},
]


def read_journal(file: Path) -> Counts:
    journal = Journal(file)
    journal.close()
    return len(journal.actions), journal.exported


def count_journal(content: bytes) -> Counts:
    kinds = [json.loads(line)["action"] for line in content.split(b"\n")[:-1]]
    last = max((index for index, kind in enumerate(kinds) if kind == "export"), default=-1)
    return sum(kind != "export" for kind in kinds), sum(kind != "export" for kind in kinds[: last + 1])


VECTORS = b"the 0.1 0.2 -0.3\n, 1 2 3\nold cat 4 5 6e-2\ncat 7 8 9\n"
WORDS = {"the", ",", "cat", "old cat", "dog"}


def read_vectors(file: Path) -> Counts:
    table = VectorFile(str(file)).table(WORDS)
    assert len(table.row) + 1 == len(table.table)
    return (table.table.shape[0],)


def zipped(content: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("vectors.txt", content)
    return archive.getvalue()


def npz() -> bytes:
    archive = io.BytesIO()
    np.savez(archive, words=np.array(sorted(WORDS)), vectors=np.arange(15, dtype=np.float16).reshape(5, 3))
    return archive.getvalue()


def read_change(file: Path) -> None:
    """The change of a tiny model's weights."""
    add_change(nn.Linear(4, 3), file)


def weight_change() -> bytes:
    parts = {"weight.left": torch.ones(3, 2), "weight.right": torch.ones(2, 4), "bias": torch.zeros(3)}
    return save({name: part.half() for name, part in parts.items()})


def read_results(file: Path) -> None:
    finished_results(file.parent)


def results() -> bytes:
    found = RunResults(
        "clark_relations", {"accuracy": 0.5}, {"best": [{"relation": "det", "accuracy": 0.9}]},
        Provenance(encoder={"name": "e"}, data={"f": "0"}, examples={"test": 1}, command="train.py", seed=0),
    )  # fmt: skip
    return json.dumps(found.to_json()).encode()


SENTENCES = tuple(first_blocks(treebank.SAMPLE / "train.conllu", 2, skip) for skip in (0, 40, 100))
ENTITIES = (first_blocks(documents.SAMPLE / "documents.conllu", 2), EMPTY_NODES)
FRAMES = (first_lines(frames.SAMPLE / "sample.xml", 32) + b"</fullTextAnnotation>\n",)
ARTICLES = (WIKI, first_lines(segments.SAMPLE / "articles.txt", 3), b"One line\nand more.\n\nTwo.\n")
READERS: dict[str, Reader] = {
    "conllu": Reader("t.conllu", (*SENTENCES, EMPTY_NODES), read_treebank, count_conllu),
    "entities": Reader("t.conllu", ENTITIES, count_documents(read_entity_documents), count_entities),
    "conll2012": Reader("t_conll", (CONLL2012, LITBANK), count_documents(read_conll2012), count_conll2012),
    "three_columns": Reader("t.conll", (THREE_COLUMNS,), count_documents(read_three_columns), count_three_columns),
    "coreference": Reader("t", (CONLL2012, LITBANK, THREE_COLUMNS, *ENTITIES), count_documents(read_documents)),
    "framenet": Reader("t.xml", FRAMES, read_frames, count_framenet),
    **{f"glue_{name}": glue_reader(task) for name, task in TASKS.items()},
    "articles": Reader("t.txt", ARTICLES, read_text_letters, count_letters),
    "labels": Reader("labels.csv", (LABELS,), read_label_table, count_labels),
    "votes": Reader("votes.csv", (first_lines(PACKAGED, 6),), read_vote_table, count_votes),
    "journal": Reader(
        "t.journal", (b"".join(json.dumps(row).encode() + b"\n" for row in ACTIONS),), read_journal, count_journal
    ),
    "vectors": Reader("v.txt", (VECTORS, b"4 3\n" + VECTORS), read_vectors),
    "vectors_npz": Reader("v.npz", (npz(),), read_vectors),
    "vectors_gz": Reader("v.txt.gz", (gzip.compress(VECTORS, mtime=0),), read_vectors),
    "vectors_zip": Reader("v.zip", (zipped(VECTORS),), read_vectors),
    "results": Reader("results.json", (results(),), read_results),
    "weight_change": Reader("c.safetensors", (weight_change(),), read_change),
}
