"""Articles in: plain text, or WikiText's raw form with ` = Title = ` lines and one paragraph a line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from headscope.errors import DataError
from headscope.files import data_files

HEADING = re.compile(r"^\s*(=(?: =)*)\s.+\s\1\s*$")
JOINED = re.compile(r" @([-,.])@ ")  # how WikiText writes a hyphen, comma or point inside a word or number


@dataclass
class Article:
    """The paragraphs between two titles, in order."""

    title: str
    paragraphs: list[str] = field(default_factory=list)


def text_files(path: str | Path) -> list[Path]:
    """The file itself, or all files of a folder but hidden ones and data cards."""
    return data_files(path, lambda file: file.name[0] != "." and file.suffix != ".md", "text files", "a text file")


def read_articles(file: Path) -> list[Article]:
    """The articles of a file; a file without titles is one article."""
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: expected UTF-8 text ({error.reason} at byte {error.start}).") from error
    if not any(line.strip() for line in lines):
        raise DataError(f"{file}: expected text, found an empty file.")
    if any(is_title(line) for line in lines):
        return list(_titled(lines))
    return [Article(file.stem, list(_paragraphs(lines)))]


def is_title(line: str) -> bool:
    """Whether a line is ` = Title = `; sections within an article have more signs."""
    match = HEADING.match(line)
    return bool(match) and match[1] == "="


def _titled(lines: list[str]) -> Iterator[Article]:
    article = Article("")
    for line in lines:
        if is_title(line):
            if article.title or article.paragraphs:
                yield article
            article = Article(line.strip(" ="))
        elif line.strip() and not HEADING.match(line):
            article.paragraphs.append(JOINED.sub(r"\1", line).strip())
    yield article


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Blocks between blank lines; without any blank line between text, each line."""
    blocks = re.split(r"\n\s*\n", "\n".join(lines).strip())
    yield from (" ".join(block.split()) for block in (blocks if len(blocks) > 1 else lines) if block.strip())
