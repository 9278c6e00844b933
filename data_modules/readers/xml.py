"""XML in, as nodes that know their line: nothing is fetched or expanded, and nothing nests without end."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from headscope.errors import DataError

DEEPEST = 50
SEPARATOR = " "  # between namespace and name; no name can hold one


@dataclass(slots=True)
class Node:
    """An element without its namespace."""

    name: str
    attributes: dict[str, str]
    line: int
    parts: list[str] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What stands before its first child."""
        return "".join(self.parts)

    def named(self, name: str) -> list["Node"]:
        """Its children of a name."""
        return [child for child in self.children if child.name == name]

    def below(self, name: str) -> Iterator["Node"]:
        """It and all that is below it, of a name, in the order of the file."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if node.name == name:
                yield node
            waiting += reversed(node.children)


def read_xml(file: Path) -> Node:
    """The root of a UTF-8 file; one that declares a document type or entities is refused before they are read."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror or error}).") from error
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{file}:{line}: expected UTF-8 text ({error.reason}).") from error
    return _TreeOf(file).parse(content)


class _TreeOf:
    """Builds the nodes of a file as expat goes through it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.path = [Node("", {}, 0)]
        self.parser = expat.ParserCreate("utf-8", SEPARATOR)
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = lambda _: self.path.pop()
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._refuse

    def parse(self, content: bytes) -> Node:
        root = self.path[0]
        try:
            self.parser.Parse(content, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise DataError(f"{self.file}:{error.lineno}: is not well-formed XML ({reason}).") from error
        return root.children[0]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        if len(self.path) > DEEPEST:
            raise DataError(f"{self.file}:{line}: expected elements at most {DEEPEST} deep, found more.")
        node = Node(name.rpartition(SEPARATOR)[2], attributes, line)
        self.path[-1].children.append(node)
        self.path.append(node)

    def _characters(self, text: str) -> None:
        if not self.path[-1].children:
            self.path[-1].parts.append(text)

    def _refuse(self, *_: Any) -> None:
        line = self.parser.CurrentLineNumber
        raise DataError(f"{self.file}:{line}: declares a document type or entities, which are not read.")
