"""What MkDocs asks while it builds the site: the navigation, generated pages, links out of docs/, formulas."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from docs.generate import experiments, formulas, reference

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
# Files outside docs/ that are pages of the site too; their links work on GitHub as well as here.
OUTSIDE = {
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{f"data_modules/samples/{kind}/README.md": f"samples/{kind}.md"
       for kind in ("articles", "coreference", "frames", "glue", "patterns", "treebank")},
    "data_modules/samples/patterns/RUBRIC.md": "samples/rubric.md",
}  # fmt: skip
INSIDE = {page: source for source, page in OUTSIDE.items()}
GENERATED = ("reference/index.md", *(f"reference/{room}.md" for room in reference.ROOMS), *INSIDE)
LINK = re.compile(r"(?P<before>\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
CELL = re.compile(r"<td.*?</td>", re.DOTALL)
CODE = re.compile(r"(?<=<code>)[^<]+")
JOINT = re.compile(r"(?<=\w[._/])(?=\w)")
MORE = "More"
found: dict[str, dict[str, str]] = {}  # formulas of each page


def on_config(config: Any) -> Any:
    """The navigation: what exists of what mkdocs.yml names, and behind it the pages that it does not name."""
    nav = list(existing(config["nav"]))
    named = set(paths(nav))
    unnamed = sorted(page for page in pages() if page not in named)
    config["nav"] = [*nav, {MORE: unnamed}] if unnamed else nav
    return config


def pages() -> Iterator[str]:
    """The pages that are written in docs/."""
    return (file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md"))


def existing(entries: list[Any]) -> Iterator[Any]:
    """The entries whose pages exist; `experiments` stands for all experiments by paper, a folder with /* for its files."""
    for entry in entries:
        ((title, target),) = entry.items() if isinstance(entry, dict) else [(None, entry)]
        if isinstance(target, list):
            if inner := list(existing(target)):
                yield {title: inner}
        elif target == "experiments":
            for paper, members in experiments.by_paper().items():
                yield {paper: [{name: f"experiments/{name}.md"} for name in members]}
        elif target == "reference":
            yield from ({reference.name_of(room): f"reference/{room}.md"} for room in reference.ROOMS)
        elif target in GENERATED or (DOCS / target).is_file():
            yield entry


def paths(entries: list[Any]) -> Iterator[str]:
    """The pages that a navigation names."""
    for entry in entries:
        target = next(iter(entry.values())) if isinstance(entry, dict) else entry
        yield from paths(target) if isinstance(target, list) else [target]


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made here, and those outside docs/."""
    made = {page: (PROJECT / source).read_text(encoding="utf-8") for page, source in INSIDE.items()}
    made["reference/index.md"] = reference.index()
    made |= {f"reference/{room}.md": reference.page(room) for room in reference.ROOMS}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The whole text of a page: experiments composed, links led to pages, formulas taken out until Markdown is done."""
    path = page.file.src_uri
    folder, _, name = path.rpartition("/")
    if folder == "experiments":
        name = name.removesuffix(".md")
        markdown = f"{markdown}\n{experiments.index()}" if name == "README" else experiments.page(name, markdown)
    markdown = led_inside(markdown, path)
    markdown, found[path] = formulas.taken_out(markdown)
    return markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Formulas in their places; names in cells of tables broken at their joints alone."""
    return CELL.sub(jointed, formulas.put_back(html, found.pop(page.file.src_uri, {})))


def jointed(cell: re.Match[str]) -> str:
    """The cell, whose names in code may go on in the next line behind a dot, a slash or an underscore."""
    return CODE.sub(lambda code: JOINT.sub("<wbr>", code[0]), cell[0])


def led_inside(markdown: str, page: str) -> str:
    """Links to files outside docs/ lead to their pages; those of pages that come from outside are read from there."""
    here = posixpath.dirname(INSIDE.get(page, f"docs/{page}"))

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, match["path"]))
        inside = OUTSIDE.get(target) or target.removeprefix("docs/")
        if target not in OUTSIDE and not target.startswith("docs/"):
            return match[0]  # which MkDocs refuses, in its words
        return f"{match['before']}{posixpath.relpath(inside, posixpath.dirname(page) or '.')}{match['anchor'] or ''}"

    return LINK.sub(led, markdown)
