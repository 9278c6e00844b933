"""Word vectors from the package and from files of every kind."""

import gzip
import zipfile

import numpy as np
import pyarrow.parquet
import pytest
import torch

from headscope.data_modules.batches.word_vectors import PackagedGlove, VectorTable, load_vectors
from headscope.errors import InputError

ROWS = {"the": [0.5, -1.0, 2.0], "cat": [1.25, 0.0, -3.5], "dog": [9.0, 9.0, 9.0], "n't": [-0.5, 0.25, 1e-3]}
TEXT = "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in ROWS.items())
WORDS = {"The", "CAT", "n't", "unheard-of"}


@pytest.fixture
def vectors(tmp_path):
    """Writes a file of vectors and opens it."""

    def write_and_open(content, name="vectors.txt"):
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return load_vectors(str(tmp_path / name))

    return write_and_open


@pytest.fixture
def npz(tmp_path):
    """Saves arrays as npz and opens it."""

    def save_and_open(**arrays):
        np.savez(tmp_path / "vectors.npz", **arrays)
        return load_vectors(str(tmp_path / "vectors.npz"))

    return save_and_open


def assert_holds_the_rows(table: VectorTable):
    assert set(table.row) == {"the", "cat", "n't"}
    assert table.table.shape == (4, 3)
    assert table.table[0].abs().max() == 0
    for word, place in table.row.items():
        assert torch.equal(table.table[place], torch.tensor(ROWS[word]))


def zipped(tmp_path, **files):
    with zipfile.ZipFile(tmp_path / "content", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.txt", text)
    return (tmp_path / "content").read_bytes()


def test_text_file(vectors):
    assert_holds_the_rows(vectors(TEXT).table(WORDS))


def test_gzipped_text_file(vectors):
    assert_holds_the_rows(vectors(gzip.compress(TEXT.encode()), "vectors.txt.gz").table(WORDS))


def test_zipped_text_file(vectors, tmp_path):
    assert_holds_the_rows(vectors(zipped(tmp_path, glove=TEXT), "vectors.zip").table(WORDS))


def test_zip_of_two_files_is_named(vectors, tmp_path):
    source = vectors(zipped(tmp_path, small=TEXT, large=TEXT), "vectors.zip")
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.zip: expected one .txt file in the archive, found 2"):
        source.table(WORDS)


def test_npz(npz):
    assert_holds_the_rows(npz(words=np.array(list(ROWS)), vectors=np.array(list(ROWS.values()))).table(WORDS))


@pytest.mark.parametrize("ending", ["\n", " \n", "\r\n"])
def test_word2vec_header_and_line_ends(vectors, ending):
    assert_holds_the_rows(vectors(("4 3\n" + TEXT).replace("\n", ending)).table(WORDS))


def test_words_with_spaces(vectors):
    table = vectors("the 1 2\n. . . 3 4\nat name@domain.com 5 6\n").table({". . .", "at name@domain.com"})
    assert table.table[table.rows([". . .", "at name@domain.com", "."])].tolist() == [[3, 4], [5, 6], [0, 0]]


def test_rows_are_found_by_lower_case_and_unknown_words_are_zero(vectors):
    table = vectors(TEXT).table(WORDS)
    found = table.table[table.rows(["THE", "unheard-of", "N'T", "dog"])]
    assert torch.equal(found, torch.tensor([ROWS["the"], [0.0] * 3, ROWS["n't"], [0.0] * 3]))


def test_no_known_word_leaves_the_zero_row(vectors, npz):
    in_npz = npz(words=np.array(["the"]), vectors=np.ones((1, 4)))
    for source, size in [(vectors(TEXT), 3), (vectors("0 5\n", "header.txt"), 5), (in_npz, 4), (PackagedGlove(), 50)]:
        assert torch.equal(source.table({"xyzzy-no-such-word"}).table, torch.zeros(1, size))


def test_packaged_glove_equals_its_files():
    glove = load_vectors()
    index = pyarrow.parquet.read_table(glove.words_file)["index"].to_pylist()
    expected = np.load(glove.vectors_file, mmap_mode="r")
    table = glove.table({"The", "king", "unbelievable", "%", "xyzzy-no-such-word"})
    assert set(table.row) == {"the", "king", "unbelievable", "%"}
    for word, place in table.row.items():
        np.testing.assert_array_equal(table.table[place].numpy(), expected[index.index(word)])
    assert glove.files == [glove.vectors_file]


def test_packaged_glove_is_glove():
    """The first numbers of `the` in glove.6B.50d.txt."""
    table = load_vectors().table({"the"})
    np.testing.assert_allclose(table.table[1, :4].numpy(), [0.418, 0.24968, -0.41242, 0.1217], atol=1e-6)


@pytest.mark.parametrize(
    ("line", "found"), [("cat 1 2", 2), ("cat 1 2 3 4", 4), ("cat", 0), ("cat 1 2 3 4 5 6", 6), ("", 0)]
)
def test_rows_of_unequal_width_are_named(vectors, tmp_path, line, found):
    with pytest.raises(InputError) as caught:
        vectors(f"the 1 2 3\nof 4 5 6\n{line}\n").table(WORDS)
    assert str(caught.value) == f"{tmp_path}/vectors.txt:3: expected 3 numbers after the word, found {found}."


@pytest.mark.parametrize(("size", "numbers"), [(3, 1), (5, 2), (25, 12)])
def test_a_row_of_half_the_width_is_named(vectors, tmp_path, size, numbers):
    text = f"the{' 1' * size}\ncat{' 1' * numbers}\n"
    with pytest.raises(InputError, match=f":2: expected {size} numbers after the word, found {numbers}"):
        vectors(text).table(WORDS)


@pytest.mark.parametrize("numbers", ["1 x 3", "x 2 3", "1 2 1,5"])
def test_what_is_no_number_is_named(vectors, tmp_path, numbers):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.txt:2: expected numbers after the word"):
        vectors(f"the 1 2 3\ncat {numbers}\n").table(WORDS)


def test_empty_file_is_named(vectors, tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.txt:1: expected a word and its numbers, found ''"):
        vectors("").table(WORDS)


@pytest.mark.parametrize(
    "arrays",
    [
        {"words": np.array(["the"])},
        {"words": np.array(["the"], dtype=object), "vectors": np.ones((1, 2))},
        {"words": np.array(["the"]), "vectors": np.ones((2, 2))},
        {"words": np.array(["the", "cat"]), "vectors": np.ones(2)},
    ],
    ids=["no vectors", "pickled words", "unequal", "one axis"],
)
def test_npz_of_other_arrays_is_named(npz, tmp_path, arrays):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.npz: expected "):
        npz(**arrays).table(WORDS)


def test_damaged_npz_is_named(vectors, tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.npz: expected an npz"):
        vectors(b"no archive", "vectors.npz").table(WORDS)


def test_missing_file_and_package_are_named(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/none.txt: no such file"):
        load_vectors(str(tmp_path / "none.txt"))
    with pytest.raises(InputError, match=r"the packaged vectors \(no-such-package\) is not installed"):
        PackagedGlove("no_such_package")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("latin1.txt", "the 1 2\ncafé 3 4\n".encode("latin-1")),
        ("damaged.gz", b"no archive"),
        ("cut.gz", gzip.compress(TEXT.encode() * 100, mtime=0)[:-20]),
        ("damaged.zip", b"no archive"),
        ("empty.npz", b""),
        ("header.txt", b"two words\nthe 1 2\n"),
    ],
)
def test_other_damage_is_named(vectors, name, content):
    with pytest.raises(InputError, match=name):
        vectors(content, name).table(WORDS)


def test_vectors_of_one_number_are_no_header(vectors):
    assert vectors("the 0.5\ncat 0.25\n").size() == 1


def test_first_word_may_hold_a_space(vectors):
    table = vectors("a\u00a0b 1 2\nthe 3 4\n").table({"the"})
    assert table.table[table.rows(["the"])].tolist() == [[3, 4]]
