"""Tables of labels: what is written is read back, what cannot be is named by its line; two passes side by side."""

import pytest

from headscope.data_modules.patterns.labels import (
    COLUMNS,
    Label,
    MapName,
    label_pairs,
    labelled,
    read_labels,
    unlabelled,
    write_labels,
)
from headscope.errors import InputError

HEADER = ",".join(COLUMNS)
NAME = MapName("minilm", "abc", "mrpc", "val", 3, 2, 11)
ROWS = [
    Label(NAME, "block"),
    Label(NAME, "diagonal", 2),
    Label(MapName("minilm", "abc", "rte", "val", 0, 6, 1), ""),
    Label(MapName("minilm", "abc", "sst2", "train", 5, 1, 12), "vertical_diagonal"),
]


def test_what_is_written_is_read_back(tmp_path):
    write_labels(tmp_path / "labels.csv", ROWS)
    assert (tmp_path / "labels.csv").read_text().splitlines()[:2] == [HEADER, "minilm,abc,mrpc,val,3,2,11,block,1"]
    assert read_labels(tmp_path / "labels.csv") == ROWS


def test_passes_and_pairs():
    assert labelled(ROWS) == [ROWS[0], ROWS[3]]
    assert labelled(ROWS, passed=2) == [ROWS[1]]
    assert label_pairs(ROWS) == [("block", "diagonal")]
    assert [row.label for row in unlabelled(ROWS)] == [""] * 4
    assert (NAME.input, NAME.head_index) == (("mrpc", "val", 3), ("minilm", 2, 11))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "labels.csv:1: expected the columns encoder"),
        (f"{HEADER}\n", "labels.csv: expected labelled maps, found an empty table."),
        (f"{HEADER}\nminilm,a,mrpc,val,0,1,1,blocks,1\n", "labels.csv:2: expected a label of vertical, diagonal"),
        (f"{HEADER}\nminilm,a,cola,val,0,1,1,block,1\n", "labels.csv:2: expected a task of mrpc"),
        (f"{HEADER}\nminilm,a,mrpc,dev,0,1,1,block,1\n", "labels.csv:2: expected a split of train, val, test, found 'dev'."),
        (f"{HEADER}\nminilm,a,mrpc,val,x,1,1,block,1\n", "labels.csv:2: expected a whole number in the column example"),
        (f"{HEADER}\nminilm,a,mrpc\n", "labels.csv:2: expected 9 columns, found fewer."),
        (f"{HEADER}\nminilm,a,mrpc,val,0,1,1,block,1,2\n", "labels.csv:2: expected 9 columns, found more."),
        (f"{HEADER},pass\nminilm,a,mrpc,val,0,1,1,block,1,2\n", "labels.csv:1: expected every column once, found"),
        (f"{HEADER}\nminilm,a,mrpc,val,0,0,1,block,1\n", "labels.csv:2: expected a whole number from 1 in the column layer"),
        (f"{HEADER}\nminilm,a,mrpc,val,0,1,1,block,3\n", "labels.csv:2: expected 1 or 2 in the column pass, found '3'."),
        (f"{HEADER}\nminilm,a,mrpc,val,٣,1,1,block,1\n", "labels.csv:2: expected a whole number in the column example"),
        (
            f"{HEADER}\nminilm,a,mrpc,val,{'9' * 5000},1,1,,1\n",
            "labels.csv:2: expected a whole number in the column example",
        ),
        (f"{HEADER}\n{'m' * 200_000},a,mrpc,val,0,1,1,,1\n", "labels.csv:2: is no row of a table (field larger"),
        (f'{HEADER}\n"minilm,a\n', "labels.csv:2: is no row of a table (unexpected end of data)."),
        (
            f"{HEADER}\n\n" + "minilm,a,mrpc,val,0,1,1,block,1\n" * 2,
            "labels.csv:4: this map has a label of pass 1 already.",
        ),
        (
            f"{HEADER}\n" + "minilm,a,mrpc,val,0,1,1,block,1\n" * 2,
            "labels.csv:3: this map has a label of pass 1 already.",
        ),
    ],
)
def test_bad_tables_are_one_sentence(text, sentence, tmp_path):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read_labels(tmp_path / "labels.csv")
    assert str(caught.value).startswith(f"{tmp_path}/{sentence}")


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name, reason in (("none.csv", ": cannot be read .No such file"), ("binary.csv", ":1: expected UTF-8 text")):
        with pytest.raises(InputError, match=f"{name}{reason}"):
            read_labels(tmp_path / name)
