"""The packaged GLUE samples: enough of everything, no text twice, and as their card describes them."""

import re
from collections import Counter
from statistics import mean

import pytest

from headscope.data_modules.readers.glue import SAMPLE

TASKS = {
    "MRPC": (["#1 String", "#2 String"], "Quality", {"0", "1"}),
    "QQP": (["question1", "question2"], "is_duplicate", {"0", "1"}),
    "STS-B": (["sentence1", "sentence2"], "score", None),
    "SST-2": (["sentence"], "label", {"0", "1"}),
    "RTE": (["sentence1", "sentence2"], "label", {"entailment", "not_entailment"}),
    "QNLI": (["question", "sentence"], "label", {"entailment", "not_entailment"}),
    "MNLI": (["sentence1", "sentence2"], "gold_label", {"entailment", "neutral", "contradiction"}),
}
SPLITS = ("train", "dev")


def file_of(task, split):
    return SAMPLE / task / ("dev_matched.tsv" if (task, split) == ("MNLI", "dev") else f"{split}.tsv")


def header_of(task, split):
    return file_of(task, split).read_text(encoding="utf-8").split("\n")[0].split("\t")


def rows_of(task, split):
    """The rows of a file, read without the reader."""
    header, *lines = file_of(task, split).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]


def labels_of(task, split):
    return [row[TASKS[task][1]] for row in rows_of(task, split)]


@pytest.fixture(scope="module")
def card():
    return (SAMPLE / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tables(card):
    """The tables of the card as rows of cells by their first one, in their order."""
    blocks = re.findall(r"(?:^\|.*\n)+", card, re.M)
    return [{(cells := cut(line))[0]: cells[1:] for line in block.strip().split("\n")[2:]} for block in blocks]


def cut(line):
    return [cell.strip() for cell in line.strip()[1:-1].split("|")]


@pytest.mark.parametrize("task", TASKS)
def test_there_are_enough_examples_and_every_label_occurs(task):
    labels = TASKS[task][2]
    for split, least in zip(SPLITS, (60, 30), strict=True):
        found = labels_of(task, split)
        assert len(found) >= least
        if labels:
            assert set(found) == labels
        else:
            assert all(0 <= float(score) <= 5 for score in found)
            assert {min(int(float(score)), 4) for score in found} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("task", TASKS)
def test_no_text_occurs_twice(task):
    texts = [
        " ".join(row[name].lower().split()) for split in SPLITS for row in rows_of(task, split) for name in TASKS[task][0]
    ]
    assert [text for text, count in Counter(texts).items() if count > 1] == []


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", SPLITS)
def test_the_files_are_plain_ascii_without_stray_space(task, split):
    raw = file_of(task, split).read_bytes()
    assert raw.isascii()
    assert raw.endswith(b"\n")
    assert b"\r" not in raw
    for row in rows_of(task, split):
        for name in TASKS[task][0]:
            assert row[name] == " ".join(row[name].split()) != ""


@pytest.mark.parametrize("task", TASKS)
def test_numbers_of_rows_and_identifiers_are_their_own(task):
    for split in SPLITS:
        rows = rows_of(task, split)
        if "index" in rows[0]:
            assert [row["index"] for row in rows] == [str(place) for place in range(len(rows))]
        if "id" in rows[0]:
            assert len({row["id"] for row in rows}) == len(rows)


def test_there_is_a_folder_for_every_task_and_no_other_file():
    found = {str(path.relative_to(SAMPLE)) for path in SAMPLE.rglob("*") if path.is_file()}
    expected = {str(file_of(task, split).relative_to(SAMPLE)) for task in TASKS for split in SPLITS}
    assert found == expected | {"README.md"}


def test_the_card_names_the_columns_of_text_and_label(tables):
    assert list(tables[0]) == list(TASKS)
    for task, (texts, label, labels) in TASKS.items():
        _, of_texts, of_label, of_labels = tables[0][task]
        assert of_texts == ", ".join(f"`{name}`" for name in texts)
        assert of_label == f"`{label}`"
        if labels:
            assert set(re.findall(r"[01]\b|[a-z]+(?:_[a-z]+)?(?=`)", of_labels)) == labels


def test_the_card_names_all_columns_in_their_order(tables):
    assert list(tables[1]) == list(TASKS)
    for task in TASKS:
        named = re.findall(r"`([^`]+)`", tables[1][task][0])
        if task == "MNLI":
            assert named[-3:] == ["label1", "label5", "gold_label"]
            assert header_of(task, "train") == [*named[:-2], "gold_label"]
            assert header_of(task, "dev") == [*named[:-2], "label2", "label3", "label4", "label5", "gold_label"]
        else:
            assert header_of(task, "train") == header_of(task, "dev") == named


def counted(task, split):
    """The labels of a file as the card tells of them."""
    found = Counter(labels_of(task, split))
    if task == "STS-B":
        return f"mean score {mean(map(float, labels_of(task, split))):.2f}"
    if task == "MNLI":
        assert len(set(found.values())) == 1
        return f"{found['neutral']} of each"
    if task in ("RTE", "QNLI"):
        return f"{found['entailment']} entailment, {found['not_entailment']} not"
    return f"{found['1']} of 1, {found['0']} of 0"


def test_the_sizes_and_labels_of_the_card(tables):
    assert list(tables[2]) == [*TASKS, "all"]
    for task in TASKS:
        sizes, found = [len(rows_of(task, split)) for split in SPLITS], labels_of(task, "dev")
        most = f"{100 * max(Counter(found).values()) / len(found):.1f}" if TASKS[task][2] else ""
        assert tables[2][task] == [*map(str, sizes), counted(task, "train"), counted(task, "dev"), most]
    totals = [sum(len(rows_of(task, split)) for task in TASKS) for split in SPLITS]
    assert tables[2]["all"][:2] == list(map(str, totals))


def test_the_scores_of_the_card(tables):
    for split in SPLITS:
        bands = Counter(min(int(float(score)), 4) for score in labels_of("STS-B", split))
        assert tables[3][split] == [str(bands[band]) for band in range(5)]


def test_the_mean_numbers_of_words_of_the_card(card):
    (told,) = re.findall(r"Mean number of words separated by white space, in train: (.*?)\.\n", card, re.S)
    told = dict(re.findall(r"([A-Z-]+(?:-2)?) ([\d.]+(?:\s+and\s+[\d.]+)?)", told))
    assert set(told) == set(TASKS)
    for task, (texts, _, _) in TASKS.items():
        lengths = [f"{mean(len(row[name].split()) for row in rows_of(task, 'train')):.1f}" for name in texts]
        assert re.findall(r"[\d.]+", told[task]) == lengths


def test_one_dev_example_weighs_what_the_card_says(card):
    weights = [100 / len(rows_of(task, "dev")) for task in TASKS]
    assert f"about 3 points of accuracy ({min(weights):.1f} to {max(weights):.1f})" in card


def test_empty_columns_hold_an_x_as_the_card_says():
    for split in SPLITS:
        for row in rows_of("STS-B", split):
            assert {row[name] for name in ("genre", "filename", "year", "old_index", "source1", "source2")} == {"x"}
        for row in rows_of("MNLI", split):
            text = {"index", "genre", "sentence1", "sentence2", "gold_label"}
            assert {value for name, value in row.items() if name not in text} == {"x"}


def test_the_genres_of_mnli_are_those_of_the_card():
    rows = [row for split in SPLITS for row in rows_of("MNLI", split)]
    assert {row["genre"] for row in rows} == {"telephone", "fiction", "letters", "travel", "government"}
    for row in rows:
        if row["genre"] == "telephone":
            assert row["sentence1"] == row["sentence1"].lower()
            assert not re.search(r"[.,;:!?]", row["sentence1"])
