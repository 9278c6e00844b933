"""A progress bar for long loops, silent where nobody watches."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import track

Item = TypeVar("Item")


def progress(items: Sequence[Item], description: str) -> Iterable[Item]:
    """The items, with rate and time left shown on a terminal."""
    console = Console(stderr=True)
    return track(items, description, console=console, disable=not console.is_terminal, transient=True)
