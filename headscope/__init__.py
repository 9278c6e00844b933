"""headscope: find out what the attention heads of a transformer do.

In a notebook: `import headscope as hs`, then `hs.load(name)`, `hs.run(experiment, ...)`, `hs.open(folder)`.
"""

import warnings
from importlib import import_module
from typing import Any

# Imported on use: the kernel imports nothing, and `import headscope` costs nothing.
NOTEBOOK = {
    "load": "headscope.notebook.model:load",
    "run": "headscope.notebook.runs:run",
    "open": "headscope.notebook.runs:open_folder",
}


def __getattr__(name: str) -> Any:
    if name not in NOTEBOOK:
        raise AttributeError(f"module 'headscope' has no attribute {name!r}")
    module, _, function = NOTEBOOK[name].partition(":")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")  # of tqdm, which nobody here asked for bars
        return getattr(import_module(module), function)


def __dir__() -> list[str]:
    return sorted([*globals(), *NOTEBOOK])
