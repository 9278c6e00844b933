"""Articles in: plain text, or WikiText's raw form with ` = Title = ` lines and one paragraph a line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from pathlib import Path

from headscope.data_modules.readers.text import lines
from headscope.errors import DataError
from headscope.files import data_files

SIGN = "="
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
    text = [line for _, line in lines(file)]
    if not any(line.strip() for line in text):
        raise DataError(f"{file}: expected text, found an empty file.")
    if any(is_title(line) for line in text):
        return list(_titled(text))
    return [Article(file.stem, _paragraphs(text))]


def heading_level(line: str) -> int:
    """How many signs stand on either side of a heading such as ` = = History = = `; 0 where the line is none."""
    if not line.lstrip().startswith(SIGN):
        return 0
    words = line.split()
    before, after = (sum(1 for _ in takewhile(SIGN.__eq__, order)) for order in (words, reversed(words)))
    return min(before, after) if before + after < len(words) else 0


def is_title(line: str) -> bool:
    """Whether a line is ` = Title = `; sections within an article have more signs."""
    return heading_level(line) == 1


def _titled(text: list[str]) -> Iterator[Article]:
    article = Article("")
    for line in text:
        if is_title(line):
            if article.title or article.paragraphs:
                yield article
            article = Article(line.strip(" ="))
        elif line.strip() and not heading_level(line):
            article.paragraphs.append(JOINED.sub(r"\1", line).strip())
    yield article


def _paragraphs(text: list[str]) -> list[str]:
    """Blocks between blank lines; without any blank line between text, each line."""
    blocks = [list(block) for filled, block in groupby(text, key=lambda line: bool(line.strip())) if filled]
    return [" ".join(" ".join(block).split()) for block in (blocks if len(blocks) > 1 else ([line] for line in blocks[0]))]
