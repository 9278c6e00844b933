"""The notebooks of docs/notebooks: `python -m tests.notebooks [NAME …]` runs them anew and keeps their outputs, small.

Each runs in an empty folder with the packages of this environment, offline. `--check` keeps nothing and compares what they
give with what is kept.
"""

import base64
import io
import json
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PATIENCE = 600  # seconds that a cell may take
COLOURS = 256  # of a kept picture, as many as a palette has
PNG = "image/png"
CHECK = "--check"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TRAINS = "3_"  # whose numbers come from training, which is not the same on another processor
# Of the atlas, what a file can hold without growing large; a reader who runs the cell gets the page.
PAGE = "<p><i>The page of the atlas stands here when the cell is run.</i></p>"


def executed(notebook: Path, folder: Path) -> Any:
    """The notebook after a run in a folder; an error of a cell is raised."""
    import nbformat
    from nbclient import NotebookClient

    content = nbformat.read(notebook, as_version=4)
    before = dict(os.environ)
    os.environ |= {"HF_HUB_OFFLINE": "1", "HEADSCOPE_CACHE": str(folder / "cache")}
    try:
        NotebookClient(content, timeout=PATIENCE, resources={"metadata": {"path": str(folder)}}).execute()
    finally:
        os.environ.clear()
        os.environ.update(before)
    return content


def slim(content: Any, folder: Path) -> Any:
    """The same without times and paths of this machine, with pictures of few colours, and without whole pages."""
    for cell in content.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:  # what tells how far a long run is goes to the standard error
            cell.outputs = whole([output for output in cell.outputs if output.get("name") != "stderr"])
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PNG in data:
                data[PNG] = few_colours(data[PNG])
            if "<iframe" in data.get("text/html", ""):
                data["text/html"] = PAGE
            for kind in ("text/plain", "text/html"):
                if kind in data:
                    data[kind] = data[kind].replace(f"{folder.resolve()}/", "")
            if "text" in output:
                output["text"] = output["text"].replace(f"{folder.resolve()}/", "")
    return content


def whole(outputs: list[Any]) -> list[Any]:
    """The outputs of a cell with neighbours of one stream joined: a kernel sends its lines in one piece or in several."""
    found: list[Any] = []
    for output in outputs:
        if found and output.get("name") and output["name"] == found[-1].get("name"):
            found[-1] = type(output)(found[-1] | {"text": joined(found[-1]["text"]) + joined(output["text"])})
        else:
            found.append(output)
    return found


def joined(text: str | list[str]) -> str:
    """A text that a file may hold as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def cells(content: Any) -> list[Any]:
    """The cells that are run."""
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def kinds(cell: Any) -> list[list[str]]:
    """Of each output of a cell, in which forms it is there."""
    return [sorted(output.get("data", {"text": None})) for output in whole(cell["outputs"])]


def plain(cell: Any) -> str:
    """What a cell shows as text: tables, numbers, printed lines."""
    parts = [output.get("data", {}).get("text/plain", output.get("text", "")) for output in whole(cell["outputs"])]
    return "\n".join(map(joined, parts))


def differences(notebook: Path, now: Any) -> list[str]:
    """The cells that give something else than the file shows: other kinds of output, or other numbers."""
    kept, found = cells(json.loads(notebook.read_text(encoding="utf-8"))), []
    for before, after in zip(kept, cells(now), strict=True):
        numbers = [[float(number) for number in NUMBER.findall(plain(cell))] for cell in (before, after)]
        alike = len(numbers[0]) == len(numbers[1]) and all(
            math.isclose(*pair, rel_tol=0.02, abs_tol=0.05) for pair in zip(*numbers, strict=True)
        )
        if kinds(before) != kinds(after) or not (alike or notebook.name.startswith(TRAINS)):
            found.append(f"{notebook.name}: {joined(before['source'])}\nkept:\n{plain(before)}\nnow:\n{plain(after)}")
    return found


def few_colours(png: str) -> str:
    """A picture as base64, in a palette: a third of the bytes."""
    from PIL import Image

    kept = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(png))) as picture:
        picture.convert("RGB").quantize(COLOURS).save(kept, "PNG", optimize=True)
    return base64.b64encode(kept.getvalue()).decode()


def main() -> None:
    """Run those that are named, or all."""
    import nbformat

    names = [word for word in sys.argv[1:] if word != CHECK]
    for notebook in NOTEBOOKS:
        if not names or any(name in notebook.name for name in names):
            with tempfile.TemporaryDirectory() as folder:
                content = slim(executed(notebook, Path(folder)), Path(folder))
            if CHECK in sys.argv:
                if wrong := differences(notebook, content):
                    raise SystemExit("\n\n".join(wrong))
            else:
                content.metadata["language_info"] = {"name": "python"}
                nbformat.write(content, notebook)
            print(f"{notebook.name}: {notebook.stat().st_size / 1000:.0f} KB", flush=True)


if __name__ == "__main__":
    main()
