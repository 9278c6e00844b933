"""Configuration files parsed once for all who read them: Hydra reads some forty for a run, and those twice.

What is kept is kept by the text, so a file that changes is parsed again.
"""

import copy
from typing import Any

import yaml


def parse_once() -> None:
    """Put a memory before the parser that OmegaConf calls."""
    known: dict[str, Any] = {}
    parse = yaml.load

    def load(stream: Any, Loader: Any) -> Any:  # the names that OmegaConf gives them
        if Loader.__name__ != "OmegaConfLoader" or not getattr(stream, "seekable", bool)():
            return parse(stream, Loader)
        text = stream.read()
        if text not in known:
            stream.seek(0)  # and not the text: an error names the file
            known[text] = parse(stream, Loader)
        return copy.deepcopy(known[text])

    yaml.load = load
