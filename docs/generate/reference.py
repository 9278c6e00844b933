"""The Python reference: modules, classes and functions with their docstrings, read from the source and never imported."""

import ast
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
ROOMS = {
    "notebook": "what a notebook calls: `headscope.load`, `headscope.run`, `headscope.open`",
    "headscope": "the kernel: what passes through every door",
    "data_modules": "text in, attention out",
    "analysis": "what needs no training",
    "probes": "what learns from maps",
    "finetune": "GLUE, disabling heads, sweeps",
    "runs": "a run from configuration to results",
    "reports": "results read back, figures, the atlas",
    "live": "the atlas with its models behind it",
    "tools": "the labelling page, changes of weights",
}
Definition = ast.FunctionDef | ast.AsyncFunctionDef


def index() -> str:
    """The page that leads to those of the rooms."""
    rows = "\n".join(f"- [{name_of(room)}]({room}.md): {what}" for room, what in ROOMS.items())
    return f"# Python reference\n\nMade from the docstrings; names that begin with an underscore are left out.\n\n{rows}\n"


def name_of(room: str) -> str:
    return "headscope" if room == "headscope" else f"headscope.{room}"


def page(room: str) -> str:
    """All modules of a room."""
    files = sorted((PROJECT / room).rglob("*.py"), key=lambda file: (file.parent != PROJECT / room, file))
    parts = [module(file) for file in files]
    return f"# {name_of(room)}\n\n{ROOMS[room].capitalize()}.\n\n" + "".join(part for part in parts if part)


def module(file: Path) -> str:
    """What a module says of itself, and what it offers; nothing where it is empty."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parts = file.relative_to(PROJECT).with_suffix("").parts
    dotted = ".".join(parts if parts[0] == "headscope" else ("headscope", *parts)).removesuffix(".__init__")
    body = "".join(members(tree))
    said = ast.get_docstring(tree) or ""
    return f"## {dotted}\n\n{said}\n\n{body}" if said or body else ""


def members(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield class_text(node)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield f"{signature(node)}{said_of(node)}"


def class_text(node: ast.ClassDef) -> str:
    """Its bases, docstring and fields, then its public methods."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    methods = [one for one in node.body if isinstance(one, Definition)]
    built = next((ast.unparse(one.args).removeprefix("self, ") for one in methods if one.name == "__init__"), None)
    fields = [ast.unparse(one) for one in node.body if isinstance(one, ast.AnnAssign)]
    lines = [f"class {node.name}({bases})" if bases else f"class {node.name}"]
    lines += [f"    {field}" for field in fields]
    lines += [f"    {node.name}({built})"] if built and built != "self" else []
    text = f"### {node.name}\n\n" + block(lines) + said_of(node)
    for method in methods:
        if not method.name.startswith("_"):
            text += f"{signature(method, node.name)}{said_of(method)}"
    return text


def signature(node: Definition, owner: str = "") -> str:
    """As it is written, without its body and without self."""
    arguments = ast.unparse(node.args).removeprefix("self, ").removeprefix("cls, ")
    arguments = "" if arguments in ("self", "cls") else arguments
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    is_property = any(getattr(one, "id", "") in ("property", "cached_property") for one in node.decorator_list)
    called = f"{owner}.{node.name}" if owner else node.name
    return block([f"{called}{returned.replace(' ->', ':')}" if is_property else f"{called}({arguments}){returned}"])


def block(lines: list[str]) -> str:
    return "```python\n" + "\n".join(lines) + "\n```\n\n"


def said_of(node: Definition | ast.ClassDef) -> str:
    said = ast.get_docstring(node)
    return f"{said}\n\n" if said else ""
