"""What the system refuses is a sentence, an override is blamed only for what it did, and a defect shows as one."""

import errno
import os
import subprocess

import pytest
from hydra.errors import InstantiationException

from headscope.runs.explain import defect_line, explain
from tests.commands import Command
from tests.runs.conftest import PROJECT, train

PROBE = ("experiment=clark_probe_right_branching", "~figures", "data.limit=4")
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["train.py", *sys.argv[2:]]
runpy.run_path("train.py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "/disk/a.csv: no space is left on this disk; free some"),
        (errno.EDQUOT, "/disk/a.csv: your quota on this disk is used up"),
        (errno.EROFS, "/disk/a.csv: this disk can only be read"),
        (errno.EACCES, "/disk/a.csv: permission denied"),
        (errno.ENOTDIR, "/disk/a.csv: a file stands where a folder should be"),
        (errno.ENAMETOOLONG, "/disk/a.csv: the name is too long for this disk"),
        (errno.EMFILE, "/disk/a.csv: too many files are open"),
    ],
)
def test_what_the_system_refuses_is_a_sentence(number, sentence):
    error = OSError(number, os.strerror(number), "/disk/a.csv")
    assert explain(error)[0] == 1
    assert explain(error)[1].startswith(sentence)
    wrapped = InstantiationException("Error in call to target")
    wrapped.__cause__ = error
    assert explain(wrapped) == explain(error)


def test_what_libraries_say_of_the_system_is_the_same_sentence():
    rust = RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert explain(rust) == (1, explain(OSError(errno.ENOSPC, ""))[1])
    assert "set HOME" in explain(RuntimeError("Could not determine home directory."))[1]


def test_an_error_that_was_dealt_with_is_not_what_a_defect_comes_from():
    try:
        try:
            raise FileNotFoundError(errno.ENOENT, "No such file", "a.txt")
        except FileNotFoundError:
            raise KeyError("a defect")  # noqa: B904
    except KeyError as error:
        assert explain(error, []) == (1, None)


def test_an_override_is_blamed_only_for_what_it_did():
    many = ["trainer.max_epochs=many"]
    assert explain(TypeError("'<' not supported between instances of 'str' and 'int'"), many)[0] == 2
    assert explain(ValueError("invalid literal for int() with base 10: 'many'"), many)[0] == 2
    assert explain(ValueError("Expecting value: line 1 column 1 (char 0)"), many) == (1, None)
    assert explain(ValueError("too many values of type str to unpack"), ["seed=0,1"]) == (1, None)


def test_a_defect_says_what_to_report():
    line = defect_line({"torch": "2.9", "scipy": None})
    assert line.startswith(
        "this is a defect of headscope; please report it with the traceback above, the command and Python 3."
    )
    assert line.endswith(", torch 2.9.")


def test_a_file_in_the_place_of_the_run_s_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/below"):
        status, out, err = train(*PROBE, f"run_dir={tmp_path / folder}")
        assert (status, out, err.count("\n")) == (1, "", 1), err
        assert err.startswith(f"{tmp_path / 'file'}")
        assert "a file stands where a folder should be" in err


def test_a_disk_that_takes_no_more_leaves_nothing_half_written(tmp_path):
    command = Command("-c", LIMITED, "2000", *PROBE, "logger=[]", "hydra.output_subdir=null", f"run_dir={tmp_path}")
    _, err = command.communicate()
    assert command.returncode == 1, err
    assert err.splitlines()[-1].startswith(f"{tmp_path / 'config.json'}: is larger than this disk or `ulimit -f` allows")
    assert "Traceback" not in err
    assert list(tmp_path.glob("*.json")) == list(tmp_path.glob(".*.json")) == []


def test_output_that_nobody_reads_any_more(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    command = Command(str(PROJECT / "train.py"), "--help", stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    err = command.stderr.read()
    assert (command.wait(), err.count("\n")) == (1, 1), err
    assert "whoever read what is printed" in err
