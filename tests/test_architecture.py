"""Who may import whom (the kernel none, data_modules the kernel, ...), no cycles, no properties that read files."""

import ast
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests import commands

PROJECT = Path(__file__).parents[1]
KERNEL = "kernel"
ROOMS = ("analysis", "data_modules", "finetune", "live", "notebook", "probes", "reports", "runs", "tools")
# What each room may import besides itself. `runs` builds the rest through _target_ in the configuration.
MAY_IMPORT = {
    KERNEL: set(),
    "data_modules": {KERNEL},
    "analysis": {KERNEL, "data_modules"},
    "probes": {KERNEL, "data_modules"},
    "finetune": {KERNEL, "data_modules"},
    "reports": {KERNEL},
    "runs": {KERNEL, "reports"},
    "tools": {KERNEL, "data_modules"},
    "live": {KERNEL, "data_modules", "finetune", "reports"},
    "notebook": {KERNEL, "data_modules", "finetune", "reports", "runs"},
}
READS = {"open", "read_text", "read_bytes", "read_json", "load", "stat", "is_file", "exists", "glob", "rglob", "iterdir"}


def modules():
    """Every module of the package by its import name, with its file."""
    found = {f"headscope.{file.stem}": file for file in (PROJECT / "headscope").glob("*.py") if file.stem != "__init__"}
    for room in ROOMS:
        for file in (PROJECT / room).rglob("*.py"):
            parts = file.relative_to(PROJECT).with_suffix("").parts
            if file.stem != "__init__":
                found[".".join(("headscope", *parts))] = file
    return found


def imports(file):
    """The modules of the package that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("headscope"):
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("headscope"))


MODULES = modules()
IMPORTED = {name: {one for one in imports(file) if one in MODULES} for name, file in MODULES.items()}


def room_of(module):
    part = module.split(".")[1]
    return part if part in ROOMS else KERNEL


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_what_it_may(room):
    forbidden = [
        f"{module} imports {other}"
        for module, imported in IMPORTED.items()
        for other in imported
        if room_of(module) == room and room_of(other) not in MAY_IMPORT[room] | {room}
    ]
    assert forbidden == []


def test_there_is_no_cycle_of_imports():
    done, path, cycles = set(), [], []

    def visit(module):
        if module in path:
            cycles.append(" -> ".join([*path[path.index(module) :], module]))
        elif module not in done:
            path.append(module)
            for other in sorted(IMPORTED[module]):
                visit(other)
            path.pop()
            done.add(module)

    for module in MODULES:
        visit(module)
    assert cycles == []


def properties(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = {getattr(one, "id", getattr(one, "attr", None)) for one in node.decorator_list}
            if names & {"property", "cached_property"}:
                yield node


def test_no_property_reads_a_file():
    found = [
        f"{module}.{node.name}"
        for module, file in MODULES.items()
        for node in properties(ast.parse(file.read_text(encoding="utf-8")))
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and getattr(call.func, "attr", getattr(call.func, "id", "")) in READS
    ]
    assert found == []


FOLLOWED = """
import json, os, sys, threading
project, files, known = sys.argv[1], set(), set()

def follow(frame, event, _):
    code = frame.f_code
    if code in known:
        return
    known.add(code)
    file = os.path.realpath(code.co_filename)
    # Functions alone: the bodies of modules and classes run on import, whoever imports them.
    if code.co_flags & 1 and file.startswith(project) and file.endswith(".py") and "/.venv/" not in file:
        files.add(os.path.relpath(file, project))

sys.argv = ["train.py", "experiment=clark_relations", "data.limit=20", "analyses.relations.relations=[det]", *sys.argv[2:]]
sys.argv += ["analyses.relations.min_count=1", "analyses.relations.replicates=5"]
threading.setprofile(follow)
sys.setprofile(follow)
from headscope.runs.cli import main
main()
sys.setprofile(None)
print(json.dumps(sorted(files)))
"""
MOST_FILES = 22


def test_one_sentence_passes_few_files_and_the_docs_name_them(tmp_path):
    done = commands.run("-c", FOLLOWED, str(PROJECT), f"run_dir={tmp_path}")
    assert done.returncode == 0, done.stderr
    files = {file for file in json.loads(done.stdout.splitlines()[-1]) if not file.startswith("tests/")}  # not ours
    told = (PROJECT / "docs" / "extending.md").read_text(encoding="utf-8").partition("**The way of a sentence**")[2]
    way, guards = (set(re.findall(r"`([\w/]+\.py)`", part)) for part in told.split("Guards stand beside the way"))
    assert len(way) <= MOST_FILES
    assert way | guards == files
    assert not way & guards


def test_every_package_is_in_the_wheel():
    import tomllib

    listed = set(tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    packages = {name.rpartition(".")[0] for name in MODULES} | {"headscope.conf"}
    folders = defaultdict(list)
    for name in packages:
        folders[name].append(name)
    assert listed >= packages
    assert all((PROJECT / Path(*name.split(".")[1:]) / "__init__.py").is_file() for name in listed - {"headscope"})
