"""Which tests are left to `make test-all`: those that took longer than LIMIT seconds when all ran on two quiet cores.

python -m pytest -n auto --durations=0 -vv > LOG; python -m tests.slow LOG     writes tests/slow.txt anew from such a run

A test that is known to take long from the start says so itself, by @pytest.mark.slow.
"""

import re
import sys
from pathlib import Path

LIMIT = 2
LIST = Path(__file__).with_name("slow.txt")
# Not `setup`: what several tests share would only be made for the next of them.
TIMED = re.compile(r"(\d+\.\d+)s call +(tests/.*\S)")


def listed() -> set[str]:
    """The names of the tests, as pytest gives them."""
    return set(LIST.read_text(encoding="utf-8").splitlines())


def long_ones(log: str) -> list[str]:
    """The names of the tests that took too long in a run, from what it printed."""
    return sorted(name for seconds, name in TIMED.findall(log) if float(seconds) > LIMIT)


if __name__ == "__main__":
    LIST.write_text(
        "".join(f"{name}\n" for name in long_ones(Path(sys.argv[1]).read_text(encoding="utf-8"))), encoding="utf-8"
    )
