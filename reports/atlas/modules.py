"""ES modules of a page joined into one script: a page opened from disk may not load any, and readers have no bundler.

The modules keep to a part of the language that can be told line by line: `import { name } from "./file.js";`, and
`export` before a function, a class, or one `const` or `let`, each at the start of a line. All else is an error. Joined,
they share one scope, so no two of them may declare the same name.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

IMPORT = re.compile(r'^import \{\s*(\w+(?:,\s*\w+)*),?\s*\} from "\./(\w+\.js)";\n', re.M)
DECLARATION = re.compile(r"^(export )?(?:async function|function|class|const|let) (\w+)(?=[ (;].*(?<!,)$)", re.M)
EXPORT = re.compile(r"^export (?=async |function |class |const |let )", re.M)
# What would be an import, an export or a name for all modules, but is not written as above.
FORBIDDEN = re.compile(r"^(?:import|export|var|(?:const|let)\b|(?:async )?function\b|class\b).*", re.M)
ENDS_SCRIPT = re.compile(r"</script|<!--", re.I)


@dataclass(frozen=True)
class Module:
    """One file: what it imports, by file; the names that it declares, and those of them that it exports; its code."""

    name: str
    imports: dict[str, list[str]]
    declared: list[str]
    exported: set[str]
    code: str


def joined(entry: Path) -> str:
    """The entry and all that it imports as one script, each module once and after what it imports itself."""
    modules = list(in_order(entry.parent, entry.name, [], {}))
    require_exported(modules)
    require_different_names(modules)
    body = "\n".join(f"// {module.name}\n{module.code}" for module in modules)
    return f'"use strict";\n{{\n{body}}}\n'  # in a block, so that nothing becomes a property of the window


def in_order(folder: Path, name: str, above: Sequence[str], seen: dict[str, Module]) -> Iterator[Module]:
    """The modules below a module that were not seen yet, then itself; `above` are those whose imports led here."""
    if name in above:
        raise ValueError(f"{' imports '.join([*above, name])}: modules may not import each other in a circle.")
    if name in seen:
        return
    module = read_module(folder / name)
    for imported in module.imports:
        yield from in_order(folder, imported, [*above, name], seen)
    seen[name] = module
    yield module


def read_module(file: Path) -> Module:
    """A module taken apart; an error names the line that cannot be."""
    text = file.read_text(encoding="utf-8")
    if found := ENDS_SCRIPT.search(text):
        raise ValueError(f"{location(file, text, found.start())}: {found[0]} would end the script or hide its end.")
    imports: dict[str, list[str]] = {}
    for found in IMPORT.finditer(text):
        imports.setdefault(found[2], []).extend(re.findall(r"\w+", found[1]))
    declarations = list(DECLARATION.finditer(text))
    understood = {found.start() for found in (*IMPORT.finditer(text), *declarations)}
    for found in FORBIDDEN.finditer(text):
        if found.start() not in understood:
            raise ValueError(f"{location(file, text, found.start())}: “{found[0]}” cannot be joined with other modules.")
    return Module(
        name=file.name,
        imports=imports,
        declared=[found[2] for found in declarations],
        exported={found[2] for found in declarations if found[1]},
        code=EXPORT.sub("", IMPORT.sub("", text)),
    )


def require_exported(modules: Sequence[Module]) -> None:
    """Every name that is imported must be exported by the module that it is imported from."""
    by_name = {module.name: module for module in modules}
    for module in modules:
        for source, names in module.imports.items():
            if missing := sorted(set(names) - by_name[source].exported):
                raise ValueError(f"{module.name} imports {', '.join(missing)} from {source}, which does not export that.")


def require_different_names(modules: Sequence[Module]) -> None:
    """No name may be declared twice, whether it is exported or not."""
    seen: dict[str, str] = {}
    for module in modules:
        for name in module.declared:
            if name in seen:
                raise ValueError(f"{name} is declared in {seen[name]} and in {module.name}.")
            seen[name] = module.name


def location(file: Path, text: str, at: int) -> str:
    """A place in a file as messages give it."""
    return f"{file.name}:{text.count(chr(10), 0, at) + 1}"
