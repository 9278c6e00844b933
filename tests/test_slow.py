from pathlib import Path

from tests.slow import LIMIT, listed, long_ones

PROJECT = Path(__file__).parents[1]


def test_every_listed_test_is_there():
    for name in listed():
        file, function = name.partition("[")[0].split("::")
        assert f"def {function}(" in (PROJECT / file).read_text(encoding="utf-8"), name


def test_calls_that_took_too_long_are_read_from_a_log():
    log = f"{LIMIT + 1:.2f}s call     tests/a.py::test_b[two words]\n{LIMIT - 1:.2f}s call     tests/a.py::test_c\n"
    log += f"{LIMIT + 2:.2f}s setup    tests/a.py::test_d\n"
    assert long_ones(log) == ["tests/a.py::test_b[two words]"]
