"""GLUE: official files by hand, the tokens of singles and pairs, what is refused, and batches."""

import json
import re

import pytest
import torch
from transformers import AutoModel

from headscope.contracts import Facts
from headscope.data_modules.glue import GlueDataModule, require_task, tasks_without_files
from headscope.data_modules.readers.glue import SAMPLE, TASKS, read_hub
from headscope.errors import ConfigError, InputError

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
CLS, SEP = 101, 102
PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
# The official header, two rows of dev, and the texts and labels that they mean.
OFFICIAL = {
    "mrpc": (
        "MRPC/dev.tsv",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        ['1\t70\t71\tHe said "no .\tHe refused .', "0\t80\t81\tA b .\tC d ."],
        [(('He said "no .', "He refused ."), 1), (("A b .", "C d ."), 0)],
    ),
    "stsb": (
        "STS-B/dev.tsv",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        ["0\tnews\tf\t2012\t1\tnone\tnone\tA b.\tC d.\t3.800", "1\tnews\tf\t2012\t1\tnone\tnone\tE.\tF.\t5.000"],
        [(("A b.", "C d."), 3.8), (("E.", "F."), 5.0)],
    ),
    "sst2": ("SST-2/dev.tsv", "sentence\tlabel", ["a fine film \t1", "dull \t0"], [(("a fine film ",), 1), (("dull ",), 0)]),
    "qqp": (
        "QQP/dev.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        ["7\t1\t2\tWho?\tWhat?\t0", "8\t3\t4\tWhy?\tHow come?\t1"],
        [(("Who?", "What?"), 0), (("Why?", "How come?"), 1)],
    ),
    "rte": (
        "RTE/dev.tsv",
        "index\tsentence1\tsentence2\tlabel",
        ["0\tIt rains.\tIt is dry.\tnot_entailment", "1\tIt rains.\tIt is wet.\tentailment"],
        [(("It rains.", "It is dry."), 1), (("It rains.", "It is wet."), 0)],
    ),
    "qnli": (
        "QNLI/dev.tsv",
        "index\tquestion\tsentence\tlabel",
        ["0\tWho?\tAnn did.\tentailment", "1\tWho?\tIt is late.\tnot_entailment"],
        [(("Who?", "Ann did."), 0), (("Who?", "It is late."), 1)],
    ),
    "mnli": (
        "MNLI/dev_matched.tsv",
        f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        [
            "0\t1\t1n\tfiction\t( a )\t( b )\t(ROOT)\t(ROOT)\tIt rains.\tIt pours.\tx\tx\tx\tx\tentailment\tneutral",
            "1\t1\t1c\tfiction\t( a )\t( b )\t(ROOT)\t(ROOT)\tIt rains.\tIt is dry.\tx\tx\tx\tx\tneutral\tcontradiction",
            "2\t1\t1e\tfiction\t( a )\t( b )\t(ROOT)\t(ROOT)\tIt rains.\tIt is wet.\tx\tx\tx\tx\tneutral\tentailment",
        ],
        [(("It rains.", "It pours."), 1), (("It rains.", "It is dry."), 2), (("It rains.", "It is wet."), 0)],
    ),
}
MRPC, SST2 = OFFICIAL["mrpc"][1], OFFICIAL["sst2"][1]


@pytest.fixture
def glue(tmp_path, minilm):
    """A datamodule on files that are given by their path inside the folder, as lines."""

    def write(task, files, folder=".", encoder=minilm, **options):
        for name, lines in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return GlueDataModule(task, dir=str(tmp_path / folder), encoder=encoder, **options)

    return write


@pytest.fixture
def films(glue):
    """The one item of a sentence's dev set."""
    return lambda text, **options: glue("sst2", {"dev.tsv": [SST2, f"{text}\t1"]}, **options).read_splits()["val"].items[0]


@pytest.fixture
def pairs(glue):
    """The one item of a pair's dev set."""
    return lambda one, two, **options: (
        glue("mrpc", {"dev.tsv": [MRPC, f"1\t1\t2\t{one}\t{two}"]}, **options).read_splits()["val"].items[0]
    )


def read(examples):
    return [(example.words, example.gold["label"].item()) for example in examples]


def same(found, expected):
    return found == [(texts, pytest.approx(label)) for texts, label in expected]


def host_batch(data):
    (batch,) = data.test_dataloader()
    return batch


@pytest.mark.parametrize("task", TASKS)
def test_every_task_reads_the_packaged_sample(task, minilm):
    data = GlueDataModule(task, encoder=minilm)
    folder = SAMPLE / TASKS[task].folder
    dev = folder / ("dev_matched.tsv" if task == "mnli" else "dev.tsv")
    assert data.files() == [folder / "train.tsv", dev]
    for split, file in (("train", folder / "train.tsv"), ("val", dev)):
        assert len(data.read_examples()[split]) == len(file.read_text().splitlines()) - 1
    assert {len(example.words) for example in data.read_examples()["train"]} == {1 if task == "sst2" else 2}
    assert data.facts().task == task
    assert (data.facts().kind, data.facts().features, data.facts().tuned) == ("glue", False, False)
    assert require_task(data.facts()) is TASKS[task]


@pytest.mark.parametrize("task", OFFICIAL)
def test_the_official_columns_by_hand(task, glue):
    name, header, rows, expected = OFFICIAL[task]
    data = glue(task, {name: [header, *rows]})
    assert same(read(data.read_examples()["val"]), expected)
    assert {example.gold["label"].shape for example in data.read_examples()["val"]} == {(1,)}


def test_columns_are_found_by_name_in_any_order(glue):
    data = glue("qqp", {"dev.tsv": ["is_duplicate\tquestion2\tmore\tquestion1", "1\tWhat?\tx\tWho?"]})
    assert read(data.read_examples()["val"]) == [(("Who?", "What?"), 1)]


def test_train_of_mnli_has_fewer_columns_than_dev(glue):
    name, header, rows, _ = OFFICIAL["mnli"]
    short = header.replace("\tlabel2\tlabel3\tlabel4\tlabel5", "")
    train = "0\t1\t1n\tfiction\ta\tb\tc\td\tIt rains.\tIt is wet.\tentailment\tentailment"
    data = glue("mnli", {name: [header, *rows], "MNLI/train.tsv": [short, train]})
    assert read(data.read_examples()["train"]) == [(("It rains.", "It is wet."), 0)]


@pytest.mark.parametrize(("inside", "folder"), [("MRPC/", "."), ("MRPC/", "MRPC"), ("", ".")])
def test_the_folder_is_the_parent_or_the_one_of_the_task(inside, folder, glue, tmp_path):
    _, header, rows, expected = OFFICIAL["mrpc"]
    data = glue("mrpc", {f"{inside}dev.tsv": [header, *rows], f"{inside}train.tsv": [header, rows[1]]}, folder)
    assert read(data.read_examples()["val"]) == expected
    assert read(data.read_examples()["train"]) == expected[1:]
    assert data.files() == [tmp_path / inside / "train.tsv", tmp_path / inside / "dev.tsv"]


def test_the_folder_of_another_task_beside_it_is_not_read(glue):
    files = {name: [header, *rows] for name, header, rows, _ in OFFICIAL.values()}
    for task, (_, _, _, expected) in OFFICIAL.items():
        assert same(read(glue(task, files).read_examples()["val"]), expected)


def test_a_home_folder_is_found(glue, minilm, tmp_path, monkeypatch):
    glue("sst2", {"SST-2/dev.tsv": [SST2, "fine\t1"]})
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read(GlueDataModule("sst2", dir="~", encoder=minilm).read_examples()["val"]) == [(("fine",), 1)]


def test_windows_line_ends_a_byte_order_mark_and_empty_lines(glue, tmp_path):
    (tmp_path / "dev.tsv").write_bytes(b"\xef\xbb\xbf" + f"{MRPC}\r\n1\t1\t2\tA.\tB.\r\n\r\n0\t1\t2\tC.\tD.\r\n".encode())
    assert read(glue("mrpc", {}).read_examples()["val"]) == [(("A.", "B."), 1), (("C.", "D."), 0)]


def test_only_a_line_feed_ends_a_line(glue):
    data = glue("sst2", {"dev.tsv": [SST2, "one\u2028two\x0bthree\x85four\t1", "next\t0"]})
    assert read(data.read_examples()["val"]) == [(("one\u2028two\x0bthree\x85four",), 1), (("next",), 0)]


@pytest.mark.parametrize(("limit", "expected"), [(None, 4), (1, 1), (3, 3), (4, 4), (100, 4)])
def test_the_limit_takes_the_first_of_each_split(limit, expected, glue):
    rows = [f"{word}\t{place % 2}" for place, word in enumerate(NUMBERS[:4])]
    data = glue("sst2", {"dev.tsv": [SST2, "", *rows], "train.tsv": [SST2, *rows[::-1]]}, limit=limit)
    assert [example.words for example in data.read_examples()["val"]] == [(word,) for word in NUMBERS[:expected]]
    assert [example.words for example in data.read_examples()["train"]] == [(word,) for word in NUMBERS[3::-1][:expected]]


def test_what_lies_beyond_the_limit_is_not_checked(glue):
    assert read(glue("sst2", {"dev.tsv": [SST2, "a\t1", "b\t7"]}, limit=1).read_examples()["val"]) == [(("a",), 1)]


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_that_is_no_whole_number_from_one_is_refused(limit, minilm):
    with pytest.raises(ConfigError, match=f"^data.limit={limit}: expected a whole number from 1"):
        GlueDataModule("mrpc", encoder=minilm, limit=limit)


def test_dev_is_for_validation_and_for_the_test(glue):
    data = glue("sst2", {"dev.tsv": [SST2, "a\t1", "b\t0"], "train.tsv": [SST2, "c\t1"]})
    assert read(data.read_examples()["test"]) == read(data.read_examples()["val"]) == [(("a",), 1), (("b",), 0)]
    assert data.source().examples == {"train": 1, "val": 2, "test": 2}
    assert sorted(data.source().data) == sorted(map(str, data.files()))


def test_train_is_tested_where_that_is_asked_for(glue):
    files = {"dev.tsv": [SST2, "a\t1", "b\t0"], "train.tsv": [SST2, "c\t1"]}
    data = glue("sst2", files, test_on="train")
    assert read(data.read_examples()["test"]) == read(data.read_examples()["train"]) == [(("c",), 1)]
    assert read(data.read_examples()["val"]) == [(("a",), 1), (("b",), 0)]
    with pytest.raises(ConfigError, match="^data.test_on=dev: expected val, train or test.$"):
        glue("sst2", files, test_on="dev")


TEST_SETS = {
    "mrpc": ("MRPC/test.tsv", "index\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t7\t8\tA b .\tC d .", ("A b .", "C d .")),
    "sst2": ("SST-2/test.tsv", "index\tsentence", "0\ta fine film", ("a fine film",)),
    "qqp": ("QQP/test.tsv", "id\tquestion1\tquestion2", "0\tWho?\tWhat?", ("Who?", "What?")),
    "qnli": ("QNLI/test.tsv", "index\tquestion\tsentence", "0\tWho?\tAnn did.", ("Who?", "Ann did.")),
    "mnli": ("MNLI/test_matched.tsv", "index\tsentence1\tsentence2", "0\tIt rains.\tIt pours.", ("It rains.", "It pours.")),
}


@pytest.mark.parametrize("task", TEST_SETS)
def test_the_official_test_sets_have_texts_and_no_labels(task, glue, ready, tmp_path):
    name, header, row, texts = TEST_SETS[task]
    data = glue(task, {name: [header, row]}, test_on="test", maps=False)
    (example,) = data.read_examples()["test"]
    assert (example.words, example.gold) == (texts, {})
    assert data.files() == [tmp_path / name]
    assert "label" not in host_batch(ready(data))["gold"]
    with pytest.raises(ConfigError, match="^data.test_on=test: GLUE keeps the labels"):
        require_task(data.facts())
    with pytest.raises(InputError, match=f"expected {name} there, found none"):
        glue(task, {}, "elsewhere", test_on="test")


def test_only_the_files_of_the_stages_are_read_and_named(glue, tmp_path):
    files = {"dev.tsv": [SST2, "a\t1"], "train.tsv": [SST2, "no label\t7"], "test.tsv": ["index\tsentence", "0\tb"]}
    data = glue("sst2", files)
    data.require(["test"])
    assert data.files() == [tmp_path / "dev.tsv"]
    assert list(data.source().data) == [str(tmp_path / "dev.tsv")]
    both = glue("sst2", files | {"train.tsv": [SST2, "c\t0"]}, test_on="test")
    both.require(["fit", "test"])
    assert both.files() == [tmp_path / name for name in ("train.tsv", "dev.tsv", "test.tsv")]
    assert [example.words for example in both.read_examples()["test"]] == [("b",)]


def test_a_sample_is_drawn_by_the_seed_from_what_is_tested_alone(glue):
    files = {name: [SST2, *(f"{kind} {n}\t1" for n in range(200))] for name, kind in (("dev.tsv", "d"), ("train.tsv", "t"))}

    def tested(**options):
        splits = glue("sst2", files, **options).read_examples()
        assert (len(splits["train"]), len(splits["val"])) == (200, 200)
        return [int(example.words[0].split()[1]) for example in splits["test"]]

    found = tested(sample=50, seed=1)
    assert found == sorted(set(found)) and len(found) == 50  # in the order of the file, none twice
    assert found != list(range(50)) and max(found) > 150
    assert tested(sample=50, seed=1) == found != tested(sample=50, seed=2)
    assert tested(sample=200) == tested(sample=1000) == list(range(200))
    # Every input is as likely as any other.
    counts = [0] * 200
    for seed in range(100):
        for index in tested(sample=20, seed=seed):
            counts[index] += 1
    assert sum(counts) == 2000 and max(counts) < 28 and sum(counts[:100]) == pytest.approx(1000, abs=100)
    with pytest.raises(ConfigError, match="^data.sample=0: expected a whole number from 1"):
        tested(sample=0)


def test_without_train_only_a_fit_is_refused(glue, tmp_path):
    data = glue("sst2", {"dev.tsv": [SST2, "a\t1"]})
    assert sorted(data.read_examples()) == ["test", "val"]
    assert data.files() == [tmp_path / "dev.tsv"]
    data.require(["validate", "test"])
    with pytest.raises(ConfigError, match="has no train.tsv, which is needed here; data.dir="):
        data.require(["fit"])


def refused(data, error=InputError):
    with pytest.raises(error) as found:
        data.read_examples()
    sentence = str(found.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("task", OFFICIAL)
def test_a_missing_column_is_named_with_its_file(task, glue, tmp_path):
    name, header, rows, _ = OFFICIAL[task]
    for column in (*TASKS[task].texts, TASKS[task].label):
        without = "\t".join(word if word != column else "other" for word in header.split("\t"))
        sentence = refused(glue(task, {name: [without, *rows]}))
        assert sentence.startswith(f"{tmp_path / name}:1: expected a column {column!r}, found ")


@pytest.mark.parametrize(("row", "found"), [("1\t1\t2\tA.", 4), ("1\t1\t2\tA.\tB.\tC.", 6), ("no tab", 1)])
def test_a_wrong_number_of_columns_is_refused_with_its_line(row, found, glue, tmp_path):
    sentence = refused(glue("mrpc", {"dev.tsv": [MRPC, "1\t1\t2\tA.\tB.", "", row]}))
    assert sentence == f"{tmp_path}/dev.tsv:4: expected 5 tab-separated columns, found {found}."


@pytest.mark.parametrize("limit", [None, 2])
def test_broken_lines_of_qqp_are_skipped_and_counted(limit, glue, tmp_path, caplog):
    name, header, (row, *_), _ = OFFICIAL["qqp"]
    data = glue("qqp", {name: [header, row, "7\t8\t9\tCut", "short?", row]}, limit=limit)
    assert len(data.read()["val"]) == 2
    assert f"{tmp_path / name}: skipped 2 lines of too few columns, the first is 3." in caplog.text


@pytest.mark.parametrize(
    ("task", "label", "expected"),
    [
        ("mrpc", "2", "0 or 1"),
        ("sst2", "positive", "0 or 1"),
        ("sst2", "", "0 or 1"),
        ("qqp", "-1", "0 or 1"),
        ("rte", "Entailment", "entailment or not_entailment"),
        ("qnli", "neutral", "entailment or not_entailment"),
        ("mnli", "-", "entailment or neutral or contradiction"),
    ],
)
def test_a_label_outside_the_set_is_refused_with_its_line(task, label, expected, glue, tmp_path):
    name, header, rows, _ = OFFICIAL[task]
    values = dict(zip(header.split("\t"), rows[0].split("\t"), strict=True)) | {TASKS[task].label: label}
    sentence = refused(glue(task, {name: [header, rows[1], "\t".join(values.values())]}))
    assert sentence == f"{tmp_path / name}:3: expected a label {expected}, found {label!r}."


@pytest.mark.parametrize("score", ["5.001", "-0.1", "nan", "inf", "-inf", "", "three", "3,8"])
def test_a_score_out_of_range_or_no_number_is_refused_with_its_line(score, glue, tmp_path):
    name, header, rows, _ = OFFICIAL["stsb"]
    sentence = refused(glue("stsb", {name: [header, rows[0], rows[0].replace("3.800", score)]}))
    assert sentence == f"{tmp_path / name}:3: expected a score from 0 to 5, found {score!r}."


@pytest.mark.parametrize(("score", "expected"), [("0", 0.0), ("0.000", 0.0), ("5", 5.0), ("2.5", 2.5)])
def test_the_ends_of_the_scale_are_scores(score, expected, glue):
    name, header, rows, _ = OFFICIAL["stsb"]
    (example,) = glue("stsb", {name: [header, rows[0].replace("3.800", score)]}).read_examples()["val"]
    assert example.gold["label"].tolist() == [expected]


@pytest.mark.parametrize("rows", [[MRPC], [MRPC, "", " "]])
def test_a_file_without_examples_is_refused(rows, glue, tmp_path):
    assert refused(glue("mrpc", {"dev.tsv": rows})) == f"{tmp_path}/dev.tsv: expected at least one example, found none."


def test_an_empty_file_is_refused(glue, tmp_path):
    assert refused(glue("mrpc", {"dev.tsv": []})).startswith(f"{tmp_path}/dev.tsv")


def test_an_empty_train_file_is_refused_too(glue, tmp_path):
    sentence = refused(glue("sst2", {"dev.tsv": [SST2, "a\t1"], "train.tsv": [SST2]}))
    assert sentence == f"{tmp_path}/train.tsv: expected at least one example, found none."


def test_a_file_in_another_encoding_is_refused_with_its_line(glue, tmp_path):
    (tmp_path / "dev.tsv").write_bytes(b"sentence\tlabel\ncaf\xe9\t1\n")
    assert refused(glue("sst2", {})).startswith(f"{tmp_path}/dev.tsv:2: expected UTF-8 text")


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_the_dev_file_is_refused(folder, glue, tmp_path):
    with pytest.raises(InputError, match=f"^{re.escape(str(tmp_path / folder))}: expected MNLI/dev_matched.tsv there"):
        glue("mnli", {"MNLI/train.tsv": ["x"], "MNLI/dev.tsv": ["x"]}, folder)


@pytest.mark.parametrize("task", ["cola", "MRPC", ""])
def test_an_unknown_task_is_refused_with_those_there_are(task, minilm):
    names = "mrpc, stsb, sst2, qqp, rte, qnli or mnli"
    with pytest.raises(ConfigError, match=f"^data.task={task}: expected {names}.$"):
        GlueDataModule(task, encoder=minilm)


def test_data_of_another_kind_has_no_task():
    with pytest.raises(ConfigError, match="needs data=glue, found data of kind segments.$"):
        require_task(Facts("segments"))


def test_the_hub_without_a_network_is_a_clear_error(minilm, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)  # none of what was downloaded before
    data = GlueDataModule("mrpc", dir="hub", encoder=minilm)
    assert data.files() == []
    sentence = refused(data)
    assert sentence.startswith("data.dir=hub: nyu-mll/glue cannot be reached (")
    assert sentence.endswith("); name a folder instead.")


@pytest.mark.parametrize(
    ("task", "dev", "row", "expected"),
    [
        ("mrpc", "validation", {"sentence1": "A.", "sentence2": "B.", "label": 1}, (("A.", "B."), 1)),
        ("stsb", "validation", {"sentence1": "A.", "sentence2": "B.", "label": 3.25}, (("A.", "B."), 3.25)),
        ("sst2", "validation", {"sentence": "A.", "label": 0}, (("A.",), 0)),
        ("qqp", "validation", {"question1": "A?", "question2": "B?", "label": 1}, (("A?", "B?"), 1)),
        ("rte", "validation", {"sentence1": "A.", "sentence2": "B.", "label": 1}, (("A.", "B."), 1)),
        ("qnli", "validation", {"question": "A?", "sentence": "B.", "label": 0}, (("A?", "B."), 0)),
        ("mnli", "validation_matched", {"premise": "A.", "hypothesis": "B.", "label": 2}, (("A.", "B."), 2)),
    ],
)
def test_the_columns_and_labels_of_the_hub(task, dev, row, expected, monkeypatch):
    rows = [row | {"idx": 0}, row | {"idx": 1}]
    asked = []
    monkeypatch.setattr("datasets.load_dataset", lambda *name: asked.append(name) or {"train": rows, dev: rows[:1]})
    found = read_hub(task, TASKS[task], limit=None)
    assert asked == [("nyu-mll/glue", task)]
    assert {split: read(examples) for split, examples in found.items()} == {"train": [expected] * 2, "val": [expected]}
    assert len(read_hub(task, TASKS[task], limit=1)["train"]) == 1


def test_the_test_set_of_the_hub_has_no_labels(monkeypatch):
    row = {"premise": "A.", "hypothesis": "B.", "label": 2}
    splits = {"train": [row], "validation_matched": [row], "test_matched": [row | {"label": -1}]}
    monkeypatch.setattr("datasets.load_dataset", lambda *name: splits)
    (example,) = read_hub("mnli", TASKS["mnli"], None, test=True)["test"]
    assert (example.words, example.gold) == (("A.", "B."), {})


def test_a_sentence_by_hand(films):
    item = films("Hello world.")
    assert item.input_ids.tolist() == [CLS, 7592, 2088, 1012, SEP]
    assert item.model_inputs["token_type_ids"].tolist() == [0] * 5
    assert item.example.gold["token_class"].tolist() == [1, 0, 0, 3, 2]
    assert item.example.gold["label"].tolist() == [1]
    assert item.word_ids.tolist() == [0, 1, 2, 3, 4]
    assert item.size == 5
    assert "features" not in item.example.gold


def test_a_pair_by_hand(pairs):
    item = pairs("Hello world.", "Good bye, all")
    assert item.input_ids.tolist() == [CLS, 7592, 2088, 1012, SEP, 2204, 9061, 1010, 2035, SEP]
    assert item.model_inputs["token_type_ids"].tolist() == [0] * 5 + [1] * 5
    assert item.example.gold["token_class"].tolist() == [1, 0, 0, 3, 2, 0, 0, 3, 0, 2]
    assert item.size == 10


def test_a_sentence_is_cut_to_max_pieces(films):
    assert films(" ".join(NUMBERS), max_pieces=6).input_ids.tolist() == [CLS, 2028, 2048, 2093, 2176, SEP]
    assert len(films(" ".join(NUMBERS * 20)).input_ids) == 128


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(100, 4, {(13, 4)}), (4, 100, {(4, 13)}), (100, 100, {(8, 9), (9, 8)}), (12, 9, {(8, 9), (9, 8)}), (10, 7, {(10, 7)})],
)
def test_the_longer_text_is_cut_first(first, second, kept, pairs, minilm):
    words = [(NUMBERS * 10)[:count] for count in (first, second)]
    item = pairs(*(" ".join(part) for part in words), max_pieces=20)
    ids = item.input_ids.tolist()
    end = ids.index(SEP)
    one, two = (minilm.tokenizer().convert_tokens_to_ids(part) for part in words)
    assert (end - 1, len(ids) - end - 2) in kept
    assert ids == [CLS, *one[: end - 1], SEP, *two[: len(ids) - end - 2], SEP]
    assert item.model_inputs["token_type_ids"].tolist() == [0] * (end + 1) + [1] * (len(ids) - end - 1)
    assert len(item.example.gold["token_class"]) == item.size == 20


def test_more_pieces_than_positions_are_refused(films):
    with pytest.raises(ConfigError, match="^data.max_pieces=513: the encoder has 512 positions"):
        films("a", max_pieces=513)


def test_a_model_without_token_types_gets_none(pairs, random_encoder, tmp_path):
    encoder = random_encoder("distilbert")
    options = tmp_path / "distilbert" / "tokenizer_config.json"
    options.write_text(json.dumps(json.loads(options.read_text()) | {"model_input_names": ["input_ids", "attention_mask"]}))
    item = pairs("Hello", "all", encoder=encoder)
    assert item.input_ids.tolist() == [CLS, 7592, SEP, 2035, SEP]
    assert item.model_inputs == {}


def test_labels_are_whole_numbers_in_a_batch(glue, ready):
    name, header, rows, _ = OFFICIAL["mnli"]
    batch = host_batch(ready(glue("mnli", {name: [header, *rows]}, maps=False)))
    labels = dict(zip(batch["index"].tolist(), batch["gold"]["label"].tolist(), strict=True))
    assert batch["gold"]["label"].dtype == torch.int64
    assert labels == {0: [1], 1: [2], 2: [0]}


def test_scores_are_floats_in_a_batch(glue, ready):
    name, header, rows, _ = OFFICIAL["stsb"]
    data = ready(glue("stsb", {name: [header, *rows]}, maps=False))
    batch = data.on_after_batch_transfer(host_batch(data), 0)
    assert batch.gold["label"].dtype == torch.float32
    assert batch.maps is None
    expected = torch.tensor([[3.8], [5.0]])
    assert torch.equal(batch.gold["label"], expected[batch.index])


def test_batches_are_padded(glue, ready):
    rows = ["1\t1\t2\tHello world.\tBye, all.", "0\t1\t2\tHello\tBye"]
    data = ready(glue("mrpc", {"dev.tsv": [MRPC, *rows]}, maps=False))
    host = host_batch(data)
    assert host["index"].tolist() == [0, 1]
    assert host["input_ids"].tolist()[1] == [CLS, 7592, SEP, 9061, SEP, 0, 0, 0, 0, 0]
    assert host["token_type_ids"].tolist()[1] == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert host["attention_mask"].tolist()[1] == [1] * 5 + [0] * 5
    assert host["gold"]["token_class"].tolist()[1] == [1, 0, 2, 0, 2, *[-100] * 5]
    batch = data.on_after_batch_transfer(host, 0)
    assert batch.mask.tolist() == [[True] * 10, [True] * 5 + [False] * 5]
    assert sorted(batch.inputs) == ["attention_mask", "input_ids", "token_type_ids"]


def test_maps_are_those_of_the_model_on_each_pair_alone(glue, random_encoder, ready):
    encoder = random_encoder("bert")
    rows = ["1\t1\t2\tHello world.\tBye, all.", "0\t1\t2\tHello\tBye"]
    data = ready(glue("mrpc", {"dev.tsv": [MRPC, *rows]}, encoder=encoder))
    batch = data.on_after_batch_transfer(host_batch(data), 0)
    model = AutoModel.from_pretrained(encoder.folder, attn_implementation="eager").eval()
    for place, size in ((0, 10), (1, 5)):
        ids, types = (batch.inputs[name][place : place + 1, :size] for name in ("input_ids", "token_type_ids"))
        with torch.no_grad():
            expected = torch.cat(model(ids, token_type_ids=types, output_attentions=True).attentions)
        torch.testing.assert_close(batch.maps[place, :, :, :size, :size], expected, atol=1e-5, rtol=0)


def test_the_training_batches_hold_every_example_once(glue, ready):
    rows = [f"{' '.join(NUMBERS[: place % 10 + 1])}\t{place % 2}" for place in range(25)]
    data = ready(glue("sst2", {"dev.tsv": [SST2, rows[0]], "train.tsv": [SST2, *rows]}, maps=False, batch_size=8))
    batches = list(data.train_dataloader())
    assert sorted(len(batch["index"]) for batch in batches) == [1, 8, 8, 8]
    index = torch.cat([batch["index"] for batch in batches])
    labels = torch.cat([batch["gold"]["label"][:, 0] for batch in batches])
    assert sorted(index.tolist()) == list(range(25))
    assert labels.tolist() == [place % 2 for place in index.tolist()]


def test_tasks_whose_files_are_missing_are_told(tmp_path):
    assert tasks_without_files(None, ["train", "val"]) == tasks_without_files("hub", ["train", "val"]) == {}
    for folder, files in {"RTE": ("train.tsv", "dev.tsv"), "MNLI": ("dev_matched.tsv",)}.items():
        (tmp_path / folder).mkdir()
        for name in files:
            (tmp_path / folder / name).touch()
    assert set(TASKS) - set(tasks_without_files(str(tmp_path), ["train", "val"])) == {"rte"}
    assert set(TASKS) - set(tasks_without_files(str(tmp_path), ["val"])) == {"rte", "mnli"}
    assert tasks_without_files(str(tmp_path), ["train", "val"])["mnli"].endswith("no MNLI/train.tsv and dev_matched.tsv")
