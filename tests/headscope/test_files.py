"""Files that appear only when whole, and results that are kept."""

import json

import pytest

from headscope.errors import DamagedFile
from headscope.files import appears_whole, content_sha256, once, read_json, write_atomically, write_csv, write_json


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    file = tmp_path / "deep" / "a.bin"
    write_atomically(file, b"old")
    with pytest.raises(RuntimeError), appears_whole(file) as draft:
        draft.write_bytes(b"half")
        assert draft.suffix == file.suffix
        raise RuntimeError
    assert (file.read_bytes(), hidden(file.parent)) == (b"old", [])
    write_atomically(file, b"new")
    assert (file.read_bytes(), hidden(file.parent)) == (b"new", [])


def test_a_folder_replaces_another_once_it_is_whole(tmp_path):
    folder = tmp_path / "model"
    for content in ("old", "new"):
        with appears_whole(folder) as draft:
            draft.mkdir()
            (draft / content).touch()
            assert not (folder / content).exists()
        assert [path.name for path in folder.iterdir()] == [content]
    with pytest.raises(RuntimeError), appears_whole(folder) as draft:
        draft.mkdir()
        raise RuntimeError
    assert ([path.name for path in folder.iterdir()], hidden(tmp_path)) == (["new"], [])


def test_json_and_rows(tmp_path):
    assert read_json(tmp_path / "none.json", dict, "") is None
    write_json(tmp_path / "a.json", {"é": [1, None]})
    assert json.loads((tmp_path / "a.json").read_text()) == {"é": [1, None]}
    assert read_json(tmp_path / "a.json", {"é": [(int, type(None))]}, "") == {"é": [1, None]}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"a": float("nan")})
    write_csv(tmp_path / "a.csv", [{"x": 1, "y": "a,b"}, {"x": 2}], ("x", "y"))
    assert (tmp_path / "a.csv").read_text() == 'x,y\n1,"a,b"\n2,\n'


def test_a_result_is_kept_for_each_object_and_each_class():
    calls = []

    class Reader:
        @once
        def read(self):
            calls.append(self)
            return [len(calls)]

    class Longer(Reader):
        @once
        def read(self):
            return [*super().read(), "more"]

    one, other = Reader(), Longer()
    assert one.read() is one.read()
    assert other.read() is other.read()
    assert (one.read(), other.read(), calls) == ([1], [2, "more"], [one, other])


NOT_WHAT_IT_SHOULD_BE = {
    "truncated": (b'{"jobs": [{"job": 0', "damaged, or not JSON"),
    "empty": (b"", "damaged, or not JSON"),
    "garbage": (b"\x00\xff\xfe", "damaged, or not JSON"),
    "a list": (b"[1]", "expected an object, found a list"),
    "a word for a number": (b'{"jobs": [{"job": "0"}]}', r"expected a whole number in jobs\[0\].job, found a text"),
    "true for a number": (b'{"jobs": [{"job": true}]}', "expected a whole number in .*, found true or false"),
    "a missing key": (b'{"jobs": [{"job": 0}, {}]}', r"expected job in jobs\[1\], found none"),
    "NaN": (b'{"jobs": [], "x": NaN}', "NaN is no number"),
    "a number without end": (b'{"jobs": [], "x": 1e999}', "1e999 is no number"),
    "a key twice": (b'{"jobs": [], "jobs": []}', "jobs is there twice"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "many digits": (b'{"jobs": ' + b"1" * 5000 + b"}", "damaged, or not JSON"),
}


@pytest.mark.parametrize("case", NOT_WHAT_IT_SHOULD_BE)
def test_json_that_is_not_what_it_should_be_gets_one_sentence(tmp_path, case):
    content, sentence = NOT_WHAT_IT_SHOULD_BE[case]
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DamagedFile, match=sentence) as told:
        read_json(tmp_path / "a.json", {"jobs": [{"job": int}]}, "use a new run_dir")
    assert str(told.value).startswith(f"{tmp_path / 'a.json'}: ")
    assert str(told.value).endswith("; use a new run_dir.")
    assert "\n" not in str(told.value)


def test_the_checksum_of_content_is_that_of_what_is_read_back(tmp_path):
    content = {"b": [0.1, 1e22, -0.0, 5e-324, None, True], "a": {"é\u2028": 2**70}}
    write_json(tmp_path / "a.json", content)
    assert content_sha256(read_json(tmp_path / "a.json", dict, "")) == content_sha256(content)
    assert content_sha256({**content, "b": [0.10000000000000002]}) != content_sha256({**content, "b": [0.1]})
