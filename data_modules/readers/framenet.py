"""FrameNet XML in: annotated targets with their frame elements, from full-text and lexical-unit files."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headscope.errors import DataError
from headscope.files import data_files

NAMESPACE = re.compile(r"^\{[^}]*\}")
FORBIDDEN = ("<!DOCTYPE", "<!ENTITY")
CORE = ("Core", "Core-Unexpressed")
Span = tuple[int, int]  # inclusive characters


@dataclass(frozen=True)
class Element:
    """A frame element: its name, its characters, and whether it is core (None where the file does not say)."""

    name: str
    span: Span
    core: bool | None


@dataclass(frozen=True)
class FrameExample:
    """A sentence with one target."""

    text: str
    frame: str
    targets: tuple[Span, ...]
    elements: tuple[Element, ...]
    source: str


def framenet_files(path: str | Path) -> list[Path]:
    """The file itself, or the *.xml files of a folder."""
    return data_files(path, lambda file: file.suffix == ".xml", "*.xml files", "a FrameNet XML file")


def read_framenet(file: Path) -> list[FrameExample]:
    """Every annotated target of a file; sentences that nobody annotated have none."""
    root = parse_safely(file)
    core = core_elements(root)
    return [example for sentence in root.iter("sentence") for example in _examples(file, sentence, root, core)]


def parse_safely(file: Path) -> ElementTree.Element:
    """The tree without namespaces; a file that declares entities or a document type is refused unread."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: expected UTF-8 text ({error.reason} at byte {error.start}).") from error
    if any(word in text for word in FORBIDDEN):
        raise DataError(f"{file}: declares a document type or entities, which are not read.")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise DataError(f"{file}: is not well-formed XML ({error}).") from error
    for element in root.iter():
        element.tag = NAMESPACE.sub("", element.tag)
    return root


def core_elements(root: ElementTree.Element) -> set[str | None] | None:
    """The core elements that the header of a lexical unit names; None in full text."""
    header = root.find("header")
    named = [] if header is None else list(header.iter("FE"))
    return {element.get("name") for element in named if element.get("type") in CORE} if named else None


def _examples(
    file: Path, sentence: ElementTree.Element, root: ElementTree.Element, core: set[str | None] | None
) -> Iterator[FrameExample]:
    where = f"{file}: sentence {sentence.get('ID', '?')}"
    text = sentence.findtext("text")
    if not text:
        raise DataError(f"{where}: expected a <text>, found none.")
    for annotation in sentence.iter("annotationSet"):
        targets = tuple(_span(where, label, text) for label in _labels(annotation, "Target"))
        if targets and annotation.get("status") != "UNANN":
            elements = tuple(_element(where, label, text, core) for label in _labels(annotation, "FE") if label.get("start"))
            frame = annotation.get("frameName") or root.get("frame") or ""
            yield FrameExample(text, frame, targets, elements, f"{where}, annotationSet {annotation.get('ID', '?')}")


def _labels(annotation: ElementTree.Element, layer: str) -> Iterator[ElementTree.Element]:
    for found in annotation.iter("layer"):
        if found.get("name") == layer:
            yield from found.iter("label")


def _span(where: str, label: ElementTree.Element, text: str) -> Span:
    start, end = label.get("start", ""), label.get("end", "")
    if not start.isdecimal() or not end.isdecimal() or not int(start) <= int(end) < len(text):
        found = f"{start}-{end}"
        raise DataError(f"{where}: label {label.get('name')}: expected characters within 0-{len(text) - 1}, found {found}.")
    return int(start), int(end)


def _element(where: str, label: ElementTree.Element, text: str, core: set[str | None] | None) -> Element:
    name, kind = label.get("name", ""), label.get("coreType")
    is_core = kind in CORE if kind else name in core if core is not None else None
    return Element(name, _span(where, label, text), is_core)
