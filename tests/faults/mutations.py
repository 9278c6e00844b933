"""Damaged files for every reader: each is refused with one sentence that names the file, or read to the right counts.

    python -m tests.faults.mutations --count 20000 [--reader NAME] [--seed N]

Case N of a reader is always the same file; a failure is replayed with its `--reader`, its `--seed` and `--count 1`.
"""

import argparse
import logging
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headscope.errors import InputError
from tests.faults.mutated_readers import READERS, Reader

LONGEST_MESSAGE = 1000
PATIENCE = 20  # seconds for a file of a few kilobytes, on a busy machine
LARGEST = 200_000  # bytes
NUMBERS = (
    "0", "1", "2", "-1", "+1", "00", "1_0", " 1", "²", "٣", "１", "1.5", "1e999", "-inf", "nan", "0x1f", "9" * 5000,
    "1" + "0" * 20, "2147483648", "32768", "1/2", "", "½",
)  # fmt: skip
ODD = (
    b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\x85", b"\xe2\x80\xa8", b"\x0b", b"\x0c",
    b"\xc2\xa0", b"\x1c", b"\xe2\x80\x8b", b"\xf0\x9f\x98\x80", b"\xcc\x81", b"\x1b[2J", b"\\ud800", b"&#xD800;", b"&a;",
    b"|", b"=", b"-", b".", b"_", b"*", b"(", b")", b"#", b"\t", b" ", b"\n", b"\n\n", b'"', b"'", b",", b"<", b">", b"/>",
    b"[1/2]", b"[2/2]", b"Entity=", b"#begin document", b"#end document\n", b"# newdoc\n", b"# global.Entity = GRP\n",
    b" = = ", b" = T = \n", b"<!DOCTYPE x>", b"<sentence>", b"</sentence>", b"<text>", b"null", b"{}", b"[]", b"true",
)  # fmt: skip
NESTED = (
    (b"(", b""),
    (b"(NP", b""),
    (b"(1-x", b""),
    (b"<sentence>", b""),
    (b"<a>", b"</a>"),
    (b"[", b"]"),
    (b'{"a":', b"}"),
)
SEPARATORS = (b"\t", b" ", b",", b"|", b'"', b"-", b"\n")
Mutation = Callable[[random.Random, bytes], bytes]


def flip(draw: random.Random, content: bytes) -> bytes:
    """One bit of one byte."""
    at = draw.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]


def _part(draw: random.Random, content: bytes) -> tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice((1, 2, 5, 20, 200)))


def delete(draw: random.Random, content: bytes) -> bytes:
    """Some bytes are missing."""
    start, end = _part(draw, content)
    return content[:start] + content[end:]


def duplicate(draw: random.Random, content: bytes) -> bytes:
    """Some bytes stand twice, or a hundred times."""
    start, end = _part(draw, content)
    return content[:end] + content[start:end] * draw.choice((1, 1, 1, 100)) + content[end:]


def move(draw: random.Random, content: bytes) -> bytes:
    """Some bytes stand elsewhere."""
    start, end = _part(draw, content)
    rest = content[:start] + content[end:]
    at = draw.randrange(len(rest) + 1)
    return rest[:at] + content[start:end] + rest[at:]


def truncate(draw: random.Random, content: bytes) -> bytes:
    """The file ends too early."""
    return content[: draw.randrange(len(content))]


def insert(draw: random.Random, content: bytes) -> bytes:
    """Something odd stands where it should not."""
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(ODD) + content[at:]


def noise(draw: random.Random, content: bytes) -> bytes:
    """Some bytes are any."""
    start, end = _part(draw, content)
    return content[:start] + draw.randbytes(end - start) + content[end:]


def number(draw: random.Random, content: bytes) -> bytes:
    """A number is another, or none."""
    found = list(re.finditer(rb"[0-9]+", content))
    if not found:
        return insert(draw, content)
    match = draw.choice(found)
    return content[: match.start()] + draw.choice(NUMBERS).encode() + content[match.end() :]


def _fields(draw: random.Random, content: bytes, change: Callable[[list[bytes]], None]) -> bytes:
    separator = draw.choice(SEPARATORS)
    fields = content.split(separator)
    change(fields)
    return separator.join(fields)


def swap_fields(draw: random.Random, content: bytes) -> bytes:
    """Two fields or lines change places, most often neighbours."""

    def swap(fields: list[bytes]) -> None:
        one = draw.randrange(len(fields))
        other = draw.choice((min(one + 1, len(fields) - 1), draw.randrange(len(fields))))
        fields[one], fields[other] = fields[other], fields[one]

    return _fields(draw, content, swap)


def change_field(draw: random.Random, content: bytes) -> bytes:
    """A field or line is gone, empty, double, odd, or that of another place."""

    def change(fields: list[bytes]) -> None:
        at = draw.randrange(len(fields))
        new = ([], [b""], [fields[at]] * 2, [draw.choice(ODD)], [draw.choice(fields)], [fields[at] * 500])
        fields[at : at + 1] = draw.choice(new)

    return _fields(draw, content, change)


def nest(draw: random.Random, content: bytes) -> bytes:
    """Brackets without end."""
    opened, closed = draw.choice(NESTED)
    depth, at = draw.choice((3, 60, 1200)), draw.randrange(len(content) + 1)
    end = draw.randrange(at, len(content) + 1)
    return content[:at] + opened * depth + content[at:end] + closed * depth + content[end:]


def line_ends(draw: random.Random, content: bytes) -> bytes:
    """Another system's line ends, or another's encoding."""
    way = draw.randrange(4)
    if way == 3:
        return content.decode("utf-8", "replace").encode(draw.choice(("utf-16", "utf-8-sig", "utf-32")))
    return content.replace(b"\n", (b"\r\n", b"\r", b"\n\n")[way])


MUTATIONS: tuple[Mutation, ...] = (
    flip, delete, duplicate, move, truncate, insert, insert, noise, number, number, swap_fields, change_field, change_field,
    nest, line_ends,
)  # fmt: skip


def mutated(reader: Reader, name: str, case: int) -> bytes:
    """A damaged file; the same for the same case."""
    draw = random.Random(f"{name} {case}")
    content = draw.choice(reader.seeds)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 5))):
        if content:
            content = draw.choice(MUTATIONS)(draw, content)[:LARGEST]
    return content


class TooLong(BaseException):
    """No reader catches it by accident."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Interrupts what takes too long."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(reader: Reader, file: Path, content: bytes) -> tuple[str, str]:
    """`refused`, `read` or `failed`, and why."""
    file.write_bytes(content)
    try:
        with limited(PATIENCE):
            found = reader.read(file)
    except InputError as error:
        message = str(error)
        whole = file.name in message and len(message.splitlines()) == 1 and len(message) < LONGEST_MESSAGE
        return ("refused", message) if whole and message.endswith(".") else ("failed", f"message {message[:2000]!r}")
    except TooLong:
        return "failed", f"took over {PATIENCE} s"
    except Exception as error:  # what this is here to find
        return "failed", f"{type(error).__name__}: {str(error)[:200]}"
    try:
        expected = reader.counted(content)
    except Exception as error:  # what a plain loop cannot count should not have been read
        return "failed", f"read {found}, which cannot be counted ({type(error).__name__}: {str(error)[:200]})"
    if expected is not None and found != expected:
        return "failed", f"read {found}, a plain count is {expected}"
    return "read", ""


def check(name: str, seed: int, count: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """How many cases were refused and read, and a line for each that failed."""
    reader, outcomes, failures = READERS[name], Counter(), []
    for case in range(seed, seed + count):
        kind, why = outcome(reader, folder / reader.file, mutated(reader, name, case))
        outcomes[kind] += 1
        if kind == "failed":
            failures.append(f"--reader {name} --seed {case} --count 1: {why}")
    return outcomes, failures


def main() -> int:
    """Run many cases and print a table; 1 where any failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutations")
    parser.add_argument("--count", type=int, default=300, help="files for each reader (300)")
    parser.add_argument("--reader", choices=READERS, action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first file (0)")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'reader':16}{'files':>8}{'refused':>9}{'read':>8}{'failed':>8}{'seconds':>9}")
    failed = 0
    for name in given.reader or READERS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcomes, failures = check(name, given.seed, given.count, Path(folder))
        seconds = time.monotonic() - began
        numbers = f"{outcomes['refused']:9}{outcomes['read']:8}{outcomes['failed']:8}{seconds:9.1f}"
        print(f"{name:16}{given.count:8}{numbers}", flush=True)
        for line in failures[:10]:
            print(f"  {line}", flush=True)
        failed += len(failures)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
