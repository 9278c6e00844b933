import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from headscope.data_modules.encoders.weight_change import tensors_sha256
from headscope.data_modules.patterns.labels import CLASSES, MapName
from headscope.data_modules.patterns.sources import StoredSource
from headscope.data_modules.patterns.stored import CHECKSUM, quantised, read_maps, restored, row_tolerance, write_maps
from headscope.data_modules.patterns.votes import COLUMNS, VotedMap, majority, read_votes, write_votes
from headscope.errors import InputError

LENGTHS = (3, 9, 128)


def some_maps(seed=0):
    random = np.random.default_rng(seed)
    maps = [random.dirichlet(np.full(n, 0.1), size=n).astype(np.float32) for n in LENGTHS]
    classes = [np.array([1, *[0] * (n - 2), 2], dtype=np.int8) for n in LENGTHS]
    return maps, classes, [np.array([-1, *[0] * (n - 2), -1], dtype=np.int8) for n in LENGTHS]


def rows_of(sums, votes=(("block", "block", "diagonal"),) * 3):
    names = [MapName("mpnet+mrpc" if n else "minilm", "abc", "ewt", "val", n, 1, n + 1) for n in range(len(sums))]
    rows = zip(names, votes, sums, strict=True)
    return [VotedMap(name, "random", tuple(one), majority(one) or "block", sha) for name, one, sha in rows]


@pytest.fixture
def stored(tmp_path):
    sums = write_maps(tmp_path / "maps.safetensors", *some_maps())
    write_votes(tmp_path / "votes.csv", rows_of(sums))
    return tmp_path


def test_maps_come_back_within_half_a_level(stored):
    maps, classes, sentences = some_maps()
    for one, found, kinds, numbers in zip(maps, read_maps(stored / "maps.safetensors"), classes, sentences, strict=True):
        for row, cells in zip(one.tolist(), quantised(one).tolist(), strict=True):
            for weight, level in zip(row, cells, strict=True):
                assert abs(weight**0.5 - level / 255) <= 0.5 / 255 + 1e-6
        assert abs(found.weights - one).max() < 0.006
        np.testing.assert_allclose(found.weights.sum(1), 1, atol=1e-5)
        assert (found.token_class.tolist(), found.sentence.tolist()) == (kinds.tolist(), numbers.tolist())


def test_a_row_may_be_off_by_half_a_level_of_each_cell():
    for one in some_maps()[0]:
        cells = quantised(one)
        for row, allowed in zip(cells.tolist(), row_tolerance(cells).tolist(), strict=True):
            bound = sum(((level + 0.5) / 255) ** 2 - (level / 255) ** 2 for level in row)
            assert allowed == pytest.approx(bound + 1e-3)
        assert (abs(restored(cells).sum(1) - 1) <= row_tolerance(cells)).all()


def test_exact_maps_come_back_as_they_were(tmp_path):
    maps, classes, sentences = some_maps()
    write_maps(tmp_path / "maps.safetensors", maps, classes, sentences, exact=True)
    for one, found in zip(maps, read_maps(tmp_path / "maps.safetensors"), strict=True):
        np.testing.assert_allclose(found.weights, one, atol=1e-6)


def changed(file, **tensors):
    """The same file with other tensors and the checksum of these."""
    with safe_open(file, "pt") as opened:
        whole = {name: opened.get_tensor(name) for name in opened.keys()} | tensors  # noqa: SIM118
        about = {**opened.metadata(), CHECKSUM: json.dumps(tensors_sha256(whole))}
    save_file(whole, file, about)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cells: cells.float().div(255).square().index_fill(0, torch.tensor([4]), float("nan")), "map 0 holds NaN"),
        (lambda cells: torch.zeros_like(cells), "map 0: row 1 sums to 0.000; rows of attention sum to 1."),
        (lambda cells: cells[:-1], "expected 16474 numbers in cells for maps of these lengths."),
    ],
)
def test_what_is_no_attention_is_refused(stored, change, message):
    file = stored / "maps.safetensors"
    with safe_open(file, "pt") as opened:
        cells = opened.get_tensor("cells")
    changed(file, cells=change(cells))
    with pytest.raises(InputError, match=message):
        read_maps(file)


def test_maps_with_nan_are_never_written(tmp_path):
    maps, classes, sentences = some_maps()
    maps[1][2, 2] = np.nan
    with pytest.raises(InputError, match="map 1 holds NaN or infinity; expected weights from 0 to 1."):
        write_maps(tmp_path / "maps.safetensors", maps, classes, sentences)
    assert not list(tmp_path.iterdir())


def test_a_file_whose_checksum_differs_is_refused(stored):
    content = bytearray((stored / "maps.safetensors").read_bytes())
    content[-1] ^= 1
    (stored / "maps.safetensors").write_bytes(content)
    with pytest.raises(InputError, match=r"maps.safetensors: its maps have the sha256 \w{16}…, not \w{16}…: damaged."):
        read_maps(stored / "maps.safetensors")
    (stored / "maps.safetensors").write_bytes(b"no")
    with pytest.raises(InputError, match="expected a safetensors file of attention maps, found something else."):
        read_maps(stored / "maps.safetensors")


def test_maps_that_the_table_does_not_name_are_refused(stored):
    source = StoredSource(stored / "maps.safetensors", stored / "votes.csv")
    assert [one.label for one in source.examples(torch.device("cpu"))] == [CLASSES.index("block")] * 3
    rows = read_votes(stored / "votes.csv")
    write_votes(stored / "votes.csv", [rows[1], rows[0], rows[2]])
    with pytest.raises(InputError, match=r"map 0 has the sha256 \w{16}, not \w{16} as .*votes.csv:2 says."):
        StoredSource(stored / "maps.safetensors", stored / "votes.csv").examples(torch.device("cpu"))
    write_votes(stored / "votes.csv", rows[:2])
    with pytest.raises(InputError, match="holds 3 maps, .*votes.csv names 2."):
        StoredSource(stored / "maps.safetensors", stored / "votes.csv").examples(torch.device("cpu"))


def test_votes_are_shares_of_classes(stored):
    rows = read_votes(stored / "votes.csv")
    assert rows == rows_of([row.map_sha256 for row in rows])
    assert rows[0].soft.tolist() == pytest.approx([0, 1 / 3, 0, 2 / 3, 0])
    assert [row.map.encoder for row in rows] == ["minilm", "mpnet+mrpc", "mpnet+mrpc"]
    pairs = StoredSource(stored / "maps.safetensors", stored / "votes.csv").label_pairs
    assert pairs == [("block", "block"), ("block", "diagonal"), ("block", "diagonal")] * 3


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("vote_2", "stripes", "votes.csv:2: expected vertical, .* in the column vote_2, found 'stripes'."),
        ("vote_2", "vertical", r"votes.csv:2: its votes \(block, vertical, diagonal\) have no majority; a vote_4"),
        ("label", "diagonal", "votes.csv:2: expected the label block, which has most votes, found 'diagonal'."),
        ("layer", "0", "votes.csv:2: expected a whole number from 1 in the column layer, found '0'."),
        ("map", "7", "votes.csv:2: expected map 0, the next one, found '7'."),
        ("encoder", "", "votes.csv:2: expected something in the column encoder, found nothing."),
    ],
)
def test_rows_that_cannot_be_name_their_line(stored, column, value, message):
    header, first, *rest = (stored / "votes.csv").read_text().splitlines()
    cells = dict(zip(COLUMNS, first.split(","), strict=True)) | {column: value}
    (stored / "votes.csv").write_text("\n".join([header, ",".join(cells.values()), *rest]))
    with pytest.raises(InputError, match=message):
        read_votes(stored / "votes.csv")


def test_a_fourth_vote_decides(stored):
    rows = rows_of(["a", "b", "c"], [("block", "diagonal", "vertical", "diagonal"), ("block",) * 3, ("block",) * 3])
    write_votes(stored / "votes.csv", rows)
    assert read_votes(stored / "votes.csv")[0].label == "diagonal"
