"""A progress bar for long loops, silent where nobody watches."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

from data_modules.ranks import is_first_process

Item = TypeVar("Item")


def progress(items: Sequence[Item], description: str) -> Iterable[Item]:
    """The items, with rate and time left shown on a terminal."""
    console = Console(stderr=True)
    hidden = not (console.is_terminal and is_first_process())
    return track(items, description, console=console, disable=hidden, transient=True)
