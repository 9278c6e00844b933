"""A file that was damaged since it was last used is told; what cannot be remembered breaks nothing."""

import json
import logging
import os

import pytest

from headscope import files
from headscope.data_modules.batches.word_vectors import load_vectors
from headscope.data_modules.first_use import require_as_before
from headscope.errors import InputError

TEXT = "".join(f"word{number} {number}.5 {number}.25\n" for number in range(50))


@pytest.fixture
def used(tmp_path, monkeypatch):
    """A file that was used once, with a record of its own."""
    monkeypatch.setenv("HEADSCOPE_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "vectors.txt"
    file.write_text(TEXT)
    require_as_before(file)
    return file


def change(file, content, same_date=False):
    """Other content; checksums are read anew, as in another process."""
    date = file.stat().st_mtime_ns
    file.write_text(content)
    os.utime(file, ns=(date, date if same_date else date + 10**9))
    files._kept_sha256.cache_clear()


def test_the_record_holds_what_was_used(used, tmp_path):
    (entry,) = json.loads((tmp_path / "cache" / "checksums.json").read_text()).values()
    assert entry["size"] == len(TEXT)
    assert entry["sha256"] == files.file_sha256(used)
    require_as_before(used)


def test_other_bytes_at_the_same_size_and_date_are_an_error(used):
    change(used, TEXT.replace("word7 7.5", "word7 8.5"), same_date=True)
    for _ in range(2):
        with pytest.raises(InputError, match=f"^{used}: its content has changed .* it is damaged; get it again, or touch"):
            require_as_before(used)
    os.utime(used)
    require_as_before(used)


@pytest.mark.parametrize("kept", [len(TEXT) // 2, TEXT.index("\n") + 1, 5])
def test_a_file_that_was_cut_is_an_error(used, kept):
    change(used, TEXT[:kept])
    for _ in range(2):
        with pytest.raises(InputError, match=f"^{used}: has {kept:,} bytes and had {len(TEXT):,} when it was last used"):
            require_as_before(used)


@pytest.mark.parametrize("content", [TEXT.replace("word7 7.5", "word7 8.5"), TEXT + "more 1 2\n", "other 1 2\n"])
def test_a_file_that_was_replaced_is_told_once(used, content, caplog):
    change(used, content)
    with caplog.at_level(logging.WARNING):
        require_as_before(used)
        require_as_before(used)
    (message,) = caplog.messages
    assert message.startswith(f"{used}: has other content than when it was last used")


def test_the_same_content_with_another_date_is_fine(used, caplog):
    change(used, TEXT)
    require_as_before(used)
    assert caplog.messages == []


@pytest.mark.parametrize("record", ["", "{", "[]", "null", '{"/a": 3}', '{"/a": {"size": "1"}}', "[" * 100000, "\x00"])
def test_a_damaged_record_is_started_anew(used, record, tmp_path):
    (tmp_path / "cache" / "checksums.json").write_text(record)
    require_as_before(used)
    assert list(json.loads((tmp_path / "cache" / "checksums.json").read_text())) == [str(used)]


@pytest.mark.parametrize("folder", ["/dev/null", "/proc/no/such", "~nobody-of-this-name/cache"])
def test_a_cache_folder_that_cannot_be_written_breaks_nothing(used, folder, monkeypatch):
    monkeypatch.setenv("HEADSCOPE_CACHE", folder)
    require_as_before(used)


def test_files_that_are_gone_are_forgotten(used, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the 1 2\n")
    used.unlink()
    require_as_before(other)
    assert list(json.loads((tmp_path / "cache" / "checksums.json").read_text())) == [str(other)]


def test_vectors_cut_at_the_end_of_a_line_are_refused(used):
    """Nothing in such a file says that lines are missing."""
    assert len(load_vectors(str(used)).table({"word1", "word40"}).row) == 2
    change(used, TEXT[: TEXT.index("word30")])
    with pytest.raises(InputError, match="so it was cut; get it again"):
        load_vectors(str(used)).table({"word1", "word40"})
