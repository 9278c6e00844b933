"""Files that appear only when whole, and results that are kept."""

import json

import pytest

from headscope.files import appears_whole, once, read_json, write_atomically, write_csv, write_json


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
    assert read_json(tmp_path / "none.json") is None
    write_json(tmp_path / "a.json", {"é": [1, None]})
    assert read_json(tmp_path / "a.json") == json.loads((tmp_path / "a.json").read_text()) == {"é": [1, None]}
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
