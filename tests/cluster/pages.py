"""The commands of docs/clusters, as the tests run them: with stand-ins for what a reader has, and shortened."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.readme_commands import FENCE, commands_of, words_of

PAGES = Path(__file__).parents[2] / "docs" / "clusters"
WRITTEN = {"SHARED": "/shared", "OUTPUTS": "outputs/", "ADDRESS": "address=auto"}  # others, as HOST0, as they are
PYTHON = {"python": [sys.executable], "torchrun": [sys.executable, "-m", "torch.distributed.run"]}


def command(page: str, *parts: str, **names: object) -> list[str]:
    """The words of the one command of a page that has all parts; names, such as SHARED=folder, stand in for a reader's."""
    found = [one for one in commands_of(text_of(page)) if all(part in one for part in parts)]
    assert len(found) == 1, f"{page}.md has {len(found)} commands with {' and '.join(parts)}"
    return [whole for word in words_of(substituted(found[0], names)) for whole in PYTHON.get(word, [word])]


def script(page: str, part: str, **names: object) -> str:
    """The one script of a page that has a part."""
    (found,) = [block for block in FENCE.findall(text_of(page)) if block.startswith("#!") and part in block]
    return substituted(found, names).replace(" python ", f" {sys.executable} ")


def text_of(page: str) -> str:
    """What the page says."""
    return (PAGES / f"{page}.md").read_text(encoding="utf-8")


def substituted(text: str, names: Mapping[str, object]) -> str:
    """With the folders, the hosts and the cluster of a test in the place of the page's."""
    for name, value in names.items():
        text = text.replace(WRITTEN.get(name, name), str(value))
    return text


def arguments(words: list[str]) -> list[str]:
    """What follows train.py in a command."""
    return words[words.index("train.py") + 1 :]


def folder(words: list[str]) -> Path:
    """The run_dir of a command."""
    (found,) = [word.removeprefix("run_dir=") for word in words if word.startswith("run_dir=")]
    return Path(found)
