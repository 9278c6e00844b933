"""FrameNet XML in: annotated targets with their frame elements, from full-text and lexical-unit files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headscope.data_modules.readers.text import shown, whole_number
from headscope.data_modules.readers.xml import Node, read_xml
from headscope.errors import DataError
from headscope.files import data_files

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
    root = read_xml(file)
    core = core_elements(root)
    return [example for sentence in root.below("sentence") for example in _examples(file, sentence, root, core)]


def core_elements(root: Node) -> set[str | None] | None:
    """The core elements that the header of a lexical unit names; None in full text."""
    named = [element for header in root.named("header") for element in header.below("FE")]
    return {one.attributes.get("name") for one in named if one.attributes.get("type") in CORE} if named else None


def _examples(file: Path, sentence: Node, root: Node, core: set[str | None] | None) -> Iterator[FrameExample]:
    texts = [node.text for node in sentence.named("text")]
    if len(texts) != 1 or not texts[0].strip():
        found = f"{len(texts)} of them" if len(texts) > 1 else "an empty one" if texts else "none"
        raise DataError(f"{file}:{sentence.line}: expected a <text> in the sentence, found {found}.")
    if inner := next((node for child in sentence.children for node in child.below("sentence")), None):
        raise DataError(f"{file}:{inner.line}: expected the end of the sentence, found another inside it.")
    number = sentence.attributes.get("ID", "?")
    for annotation in sentence.named("annotationSet"):
        targets = tuple(_span(file, label, texts[0]) for label in _labels(annotation, "Target"))
        elements = tuple(_element(file, label, texts[0], core) for label in _labels(annotation, "FE") if _has_span(label))
        if targets and annotation.attributes.get("status") != "UNANN":
            frame = annotation.attributes.get("frameName") or root.attributes.get("frame") or ""
            source = f"{file}: sentence {number}, annotationSet {annotation.attributes.get('ID', '?')}"
            yield FrameExample(texts[0], frame, targets, elements, source)


def _labels(annotation: Node, layer: str) -> Iterator[Node]:
    for found in annotation.named("layer"):
        if found.attributes.get("name") == layer:
            yield from found.named("label")


def _has_span(label: Node) -> bool:
    """Whether an element is in the text: one that is only understood has no characters."""
    return "start" in label.attributes or "end" in label.attributes


def _span(file: Path, label: Node, text: str) -> Span:
    start, end = (label.attributes.get(edge, "") for edge in ("start", "end"))
    first, last = whole_number(start, len(text) - 1), whole_number(end, len(text) - 1)
    if first is None or last is None or first > last:
        name, found = shown(label.attributes.get("name", "")), shown(f"{start}-{end}")
        raise DataError(f"{file}:{label.line}: label {name}: expected characters within 0-{len(text) - 1}, found {found}.")
    return first, last


def _element(file: Path, label: Node, text: str, core: set[str | None] | None) -> Element:
    name, kind = label.attributes.get("name", ""), label.attributes.get("coreType")
    is_core = kind in CORE if kind else name in core if core is not None else None
    return Element(name, _span(file, label, text), is_core)
