"""The map store: what is written comes back, what is damaged is found."""

import json
import logging
import resource
import signal
import subprocess

import numpy as np
import pytest

from headscope import drafts
from headscope.data_modules.batches import map_store
from headscope.data_modules.batches.map_store import MapStore, missing_shards, store_folder
from headscope.errors import InputError
from tests.commands import Command

SHAPES = [(2, 3, 3), (2, 5, 5), (2, 1, 1), (2, 4, 4), (2, 2, 2)]


@pytest.fixture
def arrays():
    """One float16 array per example."""
    random = np.random.default_rng(0)
    return [random.random(shape).astype(np.float16) for shape in SHAPES]


@pytest.fixture
def filled(tmp_path, arrays):
    """A store with every shard written, examples last to first."""
    return fill(MapStore(tmp_path / "store", SHAPES), arrays)


def fill(store, arrays):
    for shard in store.missing():
        store.write(shard, iter([(place, arrays[place]) for place in store.examples(shard)[::-1]]))
    return store


def assert_holds(store, arrays):
    assert store.missing() == []
    for place, array in enumerate(arrays):
        np.testing.assert_array_equal(store[place], array)
        assert store[place].dtype == np.float16


def names(store):
    return sorted(file.name for file in store.folder.iterdir())


def test_round_trip(filled, arrays):
    assert_holds(filled, arrays)
    assert_holds(MapStore(filled.folder, SHAPES), arrays)
    assert names(filled) == ["00000.json", "00000.npy"]


def test_nothing_written_is_missing_without_a_warning(tmp_path, caplog):
    assert MapStore(tmp_path / "store", SHAPES).missing() == [0]
    assert caplog.records == []


def test_several_shards(tmp_path, arrays, monkeypatch):
    """Sizes 18, 50, 2, 32, 8 start at 0, 18, 68, 70, 102: shards of 60 numbers hold 0-1, 2-4."""
    monkeypatch.setattr(map_store, "SHARD_NUMBERS", 60)
    store = MapStore(tmp_path / "store", SHAPES)
    assert store.missing() == store.shards == [0, 1]
    assert [store.examples(shard).tolist() for shard in store.shards] == [[0, 1], [2, 3, 4]]
    assert_holds(fill(store, arrays), arrays)
    assert names(store) == ["00000.json", "00000.npy", "00001.json", "00001.npy"]
    assert len(np.load(store.folder / "00000.npy")) == 68


def test_an_example_larger_than_a_shard(tmp_path, arrays, monkeypatch):
    monkeypatch.setattr(map_store, "SHARD_NUMBERS", 10)
    store = MapStore(tmp_path / "store", SHAPES)
    assert sorted(place for shard in store.shards for place in store.examples(shard)) == [0, 1, 2, 3, 4]
    assert_holds(fill(store, arrays), arrays)


def test_only_the_damaged_shard_is_missing(tmp_path, arrays, monkeypatch):
    monkeypatch.setattr(map_store, "SHARD_NUMBERS", 60)
    store = fill(MapStore(tmp_path / "store", SHAPES), arrays)
    (store.folder / "00001.npy").unlink()
    assert MapStore(store.folder, SHAPES).missing() == [1]


def truncate(folder):
    file = folder / "00000.npy"
    file.write_bytes(file.read_bytes()[:-10])


def flip_a_byte(folder):
    content = bytearray((folder / "00000.npy").read_bytes())
    content[-1] ^= 1
    (folder / "00000.npy").write_bytes(content)


def other_numbers(folder):
    np.save(folder / "00000.npy", np.zeros(3, dtype=np.float16))


DAMAGES = {
    "truncated": truncate,
    "one byte": flip_a_byte,
    "no array": lambda folder: (folder / "00000.npy").unlink(),
    "other length": other_numbers,
    "garbage note": lambda folder: (folder / "00000.json").write_text("no json"),
    "empty note": lambda folder: (folder / "00000.json").write_text(""),
    "note of something else": lambda folder: (folder / "00000.json").write_text(json.dumps({"md5": "0"})),
    "wrong checksum": lambda folder: (folder / "00000.json").write_text(json.dumps({"sha256": "0"})),
    "binary note": lambda folder: (folder / "00000.json").write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_reported_and_mended(filled, arrays, caplog, damage):
    damage(filled.folder)
    store = MapStore(filled.folder, SHAPES)
    with caplog.at_level(logging.WARNING):
        assert store.missing() == [0]
    assert caplog.messages == [f"{filled.folder}/00000.npy: damaged map store, writing this part again."]
    assert_holds(fill(store, arrays), arrays)


@pytest.mark.parametrize(("file", "content"), [("00000.npy", ""), ("00000.json", "[]"), ("00000.json", "null")])
def test_an_empty_array_or_a_note_that_is_no_object_is_damage(filled, file, content):
    (filled.folder / file).write_text(content)
    assert MapStore(filled.folder, SHAPES).missing() == [0]


def test_a_shard_without_note_is_missing(filled, arrays):
    (filled.folder / "00000.json").unlink()
    store = MapStore(filled.folder, SHAPES)
    assert store.missing() == [0]
    assert_holds(fill(store, arrays), arrays)


def test_the_draft_of_a_killed_writer_is_no_shard(filled, arrays):
    half_written = (filled.folder / "00000.npy").read_bytes()[:100]
    for file in filled.folder.iterdir():
        file.unlink()
    (filled.folder / "00000.0123456789abcdef.tmp").write_bytes(half_written)
    store = MapStore(filled.folder, SHAPES)
    assert store.missing() == [0]
    assert_holds(fill(store, arrays), arrays)


def test_a_writer_that_fails_leaves_nothing(tmp_path, arrays):
    def failing():
        yield 0, arrays[0]
        raise RuntimeError("the encoder stopped")

    store = MapStore(tmp_path / "store", SHAPES)
    with pytest.raises(RuntimeError, match="the encoder stopped"):
        store.write(0, failing())
    assert names(store) == []
    assert store.missing() == [0]


def test_key_depends_on_description_and_every_array():
    def key(description, *examples):
        return MapStore.key(description, [[np.array(array, dtype=np.int32) for array in arrays] for arrays in examples])

    same = key({"a": 1, "b": 2}, ([1, 2], [0, 1]), ([3], [0]))
    assert key({"b": 2, "a": 1}, ([1, 2], [0, 1]), ([3], [0])) == same
    others = [
        key({"a": 1, "b": 3}, ([1, 2], [0, 1]), ([3], [0])),
        key({"a": 1, "b": 2}, ([1, 2], [0, 2]), ([3], [0])),
        key({"a": 1, "b": 2}, ([1], [2, 0, 1]), ([3], [0])),
        key({"a": 1, "b": 2}, ([3], [0]), ([1, 2], [0, 1])),
        key({"a": 1, "b": 2}, ([1, 2], [0, 1])),
    ]
    assert len({same, *others}) == 6


@pytest.fixture
def no_room():
    """No file of this process may grow beyond 150 bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_and_no_draft_stays(tmp_path, arrays, no_room):
    store, asked = MapStore(tmp_path / "store", SHAPES), []

    def encoder():
        asked.append(True)
        yield from enumerate(arrays)

    with pytest.raises(InputError) as caught:
        store.write(0, encoder())
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}/store: the map store cannot be written (File too large); it takes 0.00 GiB; ")
    assert said.endswith("give data.cache=false, or HEADSCOPE_CACHE=<another folder>.")
    assert asked == []  # room is taken before the encoder runs
    assert names(store) == []


def test_a_folder_that_cannot_be_made_is_told(tmp_path, arrays):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=f"^{tmp_path}/file/store: the map store cannot be written "):
        MapStore(tmp_path / "file" / "store", SHAPES).write(0, enumerate(arrays))


def test_a_home_that_is_unknown_is_told():
    with pytest.raises(InputError, match=r"^data.cache_dir=~nobody-of-this-name/cache: no home folder is known"):
        store_folder("~nobody-of-this-name/cache")


@pytest.mark.parametrize("damage", [truncate, lambda folder: (folder / "00000.npy").unlink()])
def test_a_shard_that_is_damaged_after_it_was_checked_is_told(filled, damage):
    store = MapStore(filled.folder, SHAPES)
    assert store.missing() == []
    damage(filled.folder)
    with pytest.raises(InputError, match=f"^{filled.folder}/00000.npy: was removed or damaged since this run checked it"):
        store[0]


WRITER = """
import sys, time
from pathlib import Path
from headscope.files import appears_whole
with appears_whole(Path(sys.argv[1])) as draft:
    draft.write_bytes(bytes(100))
    print("writes", flush=True)
    time.sleep(600)
"""


def test_the_draft_of_a_killed_writer_is_removed_and_that_of_a_living_one_stays(filled):
    store = MapStore(filled.folder, SHAPES)
    writer = Command("-c", WRITER, str(filled.folder / "00001.npy"), stderr=subprocess.DEVNULL)
    assert writer.stdout.readline() == "writes\n"
    drafts._looked_through.clear()  # as in a new process
    assert missing_shards({"maps": store}, 0, 1) == []
    (draft,) = filled.folder.glob(".*.00001.npy")
    assert draft.stat().st_size == 100
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    drafts._looked_through.clear()
    assert missing_shards({"maps": store}, 0, 1) == []
    assert names(store) == ["00000.json", "00000.npy"]
