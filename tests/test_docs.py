"""The README, docs/ and the site: sizes, links, a page with all its parts for every experiment, no request to elsewhere."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headscope
from docs.generate import experiments, reference
from headscope.runs.help import CONF

PROJECT = Path(__file__).parents[1]
DOCS = PROJECT / "docs"
MOST_BYTES = {"README.md": 9_000, "docs/images/atlas.png": 200_000}
MOST_BYTES_OF_A_FIGURE = 60_000
LINKING = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((PROJECT / "data_modules" / "samples").rglob("*.md")),
]
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a page asks for when it is opened: scripts, styles, pictures, frames.
ASKED_FOR = re.compile(r"<(?:script|img|iframe|link|source)\b[^>]*?\b(?:src|href)=[\"']?([^\"'\s>]+)")
WITHOUT_FORMULA = ("report",)  # which computes nothing
# Experiments whose run on the sample is not kept yet: `python -m docs.generate.samples FOLDER NAME`.
NOT_KEPT: set[str] = set()
SECTIONS = ("What it computes", "Command", "Output", "Figure", "Published", "What differs")
WRITTEN = ("What it computes", "Command", "What differs")


def slug(heading):
    """The anchor of a heading, which GitHub and MkDocs make alike."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower())


def headings(text):
    return HEADING.findall(FENCE.sub("", text))


def dead_links(page):
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(PROJECT)}: {link}: no such file"
        elif anchor and anchor not in map(slug, HEADING.findall(FENCE.sub("", target.read_text(encoding="utf-8")))):
            yield f"{page.relative_to(PROJECT)}: {link}: no such heading"


def test_no_link_is_dead():
    assert [link for page in LINKING for link in dead_links(page)] == []


def test_a_dead_link_is_found(tmp_path, monkeypatch):
    page = PROJECT / "docs" / "faq.md"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "[a](no.md) [b](faq.md#no) `[c](no.md)` [d](https://e.f)\n# Yes")
    assert [link.partition(": ")[2] for link in dead_links(page)] == ["no.md: no such file", "faq.md#no: no such heading"]


def test_the_readme_and_its_picture_are_small():
    assert {name: (PROJECT / name).stat().st_size <= most for name, most in MOST_BYTES.items()} == dict.fromkeys(
        MOST_BYTES, True
    )
    assert "docs/images/atlas.png" in (PROJECT / "README.md").read_text(encoding="utf-8")


def test_the_readme_s_table_has_every_experiment_and_no_other():
    text = (PROJECT / "README.md").read_text(encoding="utf-8").partition("## Experiments")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == experiments.names()


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_has_a_page_with_formula_command_output_and_figure(name):
    text = (experiments.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert [title for title in headings(text) if title in SECTIONS] == list(WRITTEN)
    assert ("$$" in text) == (name not in WITHOUT_FORMULA)
    assert "python train.py" in text.partition("## Command")[2].partition("\n## ")[0]
    assert bool(experiments.sample(name)) == (name not in NOT_KEPT)
    if name in NOT_KEPT:
        return
    made = experiments.output(name) + experiments.figure(name) + experiments.published(name)
    assert [title for title in headings(made) if title in SECTIONS] == [one for one in SECTIONS if one not in WRITTEN]
    assert "python train.py" in experiments.output(name)
    figures = experiments.sample(name)["figure"]
    assert bool(figures) == (f"(samples/{name}.png)" in experiments.figure(name))
    if figures:
        assert 0 < (experiments.SAMPLES / f"{name}.png").stat().st_size <= MOST_BYTES_OF_A_FIGURE


def test_no_page_is_about_an_experiment_that_is_not_there():
    assert {file.stem for file in experiments.FOLDER.glob("*.md")} - {"README"} == set(experiments.names())
    assert {file.stem for file in experiments.SAMPLES.iterdir()} <= set(experiments.names())


def test_samples_name_no_folder_of_a_machine():
    said = {file.name: file.read_text(encoding="utf-8") for file in experiments.SAMPLES.iterdir() if file.suffix != ".png"}
    assert [name for name, text in said.items() if re.search(r"(?<![\w.])/(?:tmp|home|root|work|var|mnt)/", text)] == []


def test_published_figures_and_comments_come_from_the_configuration():
    text = experiments.published("clark_relations")
    assert "| det | 8-11 94.3 (51.7, 1) |" in text
    assert "shows these figures only if the model is pre-trained." in text
    assert "| fit pretrained mrpc | 87.9 | 82.3 |  |" in experiments.published("kovaleva_glue")
    assert "| qnli | 0.78 |" in experiments.published("pande_sieves")
    assert "| Attention + GloVe | 77 |" in experiments.published("clark_table3")
    assert "6 to 10" in experiments.published("clark_clusters")  # which inherits it
    said = dict(experiments.comments("data.", CONF / "data" / "glue.yaml"))
    assert said["data.sample"] == "inputs of what is tested, drawn at random by the seed"
    said = dict(experiments.comments("", CONF / "analyses" / "roles.yaml"))
    assert said["analyses.roles.distribution"] == "or student"


def test_the_reference_has_signatures_and_docstrings():
    text = reference.page("notebook")
    assert "## headscope.notebook.model" in text
    assert "load(name: str, **options: Any) -> Model" in text
    assert "The model behind a hub id or a folder" in text
    assert "Maps.plot(layer: int, head: int) -> Figure" in text
    assert "Maps._map(" not in text


def test_python_on_the_pages_uses_what_there_is():
    """It parses, and every name after `hs.` is one of the front door's."""
    pages = [page.read_text(encoding="utf-8") for page in LINKING]
    blocks = [block for page in pages for block in PYTHON.findall(page) if "import headscope as hs" in block]
    nodes = [node for block in blocks for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "hs"}
    assert {"load", "run"} <= used <= set(headscope.NOTEBOOK)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` builds it; a warning ends it with a status."""
    pytest.importorskip("material", reason="needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    arguments = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # what Material says of its own future
    done = subprocess.run([sys.executable, *arguments], cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.mark.slow
def test_the_site_has_a_page_of_every_experiment_with_formulas_and_keys(site):
    for name in experiments.names():
        text = (site / "experiments" / f"{name}.html").read_text(encoding="utf-8")
        assert ("<math" in text) == (name not in WITHOUT_FORMULA), name
        assert "$$" not in text and not re.search(r"formula\d+x", text), name
        assert 'id="keys"' in text, name
        parts = [part for part in re.findall(r'<h2 id="([\w-]+)"', text) if part in map(slug, SECTIONS)]
        assert parts == list(map(slug, SECTIONS)) or name in NOT_KEPT, name
    assert "<merror" not in "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.html"))


@pytest.mark.slow
def test_no_page_of_the_site_asks_for_anything_elsewhere(site):
    pages = list(site.rglob("*.html"))
    asked = {found for page in pages for found in ASKED_FOR.findall(page.read_text(encoding="utf-8"))}
    assert len(pages) > 40
    assert [one for one in asked if re.match(r"(?:[a-z]+:)?//", one)] == []
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*", styles) == []
