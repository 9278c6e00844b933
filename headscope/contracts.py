"""What passes through every door: which model, what a module must know of the data, what was found, and where it comes from.

A string in a dictionary can be dropped without anybody noticing; a field of these cannot. Nothing here computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from headscope.errors import ConfigError, require_choice
from headscope.layout import Layout

if TYPE_CHECKING:
    from torch import Tensor

INITS = ("pretrained", "embeddings", "normal")
DTYPES = ("float32", "bfloat16")
HEAD_COLUMNS = ("layer", "head", "quantity", "value", "n", "low", "high", "p")  # of heads.csv
NUMBERS = HEAD_COLUMNS[3:]
Row = Mapping[str, Any]  # of a table: a column's name and a cell that JSON can hold
Grid = Sequence[Sequence[float | None]]  # (layer, head); None or NaN where a value is not defined


def head_name(layer: int, head: int) -> str:
    """A head as the papers write it, from 1: `8-10`."""
    return f"{layer}-{head}"


def head_at(index: int, heads: int) -> str:
    """The name of the head at an index of an axis that has the heads of all layers, one layer after another."""
    return head_name(index // heads + 1, index % heads + 1)


@dataclass(frozen=True)
class EncoderSpec:
    """Which model, whole: whoever loads one honours every field of it, or refuses by name what it cannot honour.

    `name` is a hub id, a folder or `package:NAME/folder`; `init` keeps all weights, the embeddings or none; `change` is a
    file of what fine-tuning changed, added to the weights; `sha256` is what the weights must be.
    """

    name: str
    revision: str | None = None
    init: str = "pretrained"
    dtype: str = "float32"
    seed: int = 0
    change: str | None = None
    trust_remote_code: bool = False
    sha256: str | None = None

    def __post_init__(self) -> None:
        require_choice("encoder.init", self.init, INITS)
        require_choice("encoder.dtype", self.dtype, DTYPES)
        if self.change and self.init != "pretrained":
            raise ConfigError(f"encoder.change={self.change}: is of trained weights, so not with encoder.init={self.init}.")

    def at(self, name: str) -> EncoderSpec:
        """Another model, read in the same way."""
        return replace(self, name=name, revision=None, init="pretrained", change=None, sha256=None)


@dataclass(frozen=True)
class DrawnInput:
    """An input whose maps are kept for a picture: its index in the test part, its words or tokens, and their annotation.

    Governors are the indices of the words' syntactic heads from 1, 0 for ROOT; relations index `Facts.relations`; `marked`
    are the indices of tokens that have a part in what is looked for, by that part, such as target and element.
    """

    index: int
    tokens: tuple[str, ...]
    governors: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()
    title: str = ""
    marked: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass(frozen=True)
class PatternFacts:
    """What a classifier of attention patterns must know of labelled maps."""

    classes: tuple[str, ...]
    class_counts: tuple[int, ...]
    labels_sha256: str
    label_pairs: tuple[tuple[str, str], ...]  # of maps that were labelled twice
    tested: tuple[Row, ...]  # the name of every map of the test part
    votes: tuple[tuple[str, ...], ...] = ()  # of all who looked at each map, where several did


@dataclass(frozen=True)
class Facts:
    """What a module must know of the data to take its shape."""

    kind: str  # of data: treebank, segments, glue, ...
    layers: int = 0
    heads: int = 0
    hidden_size: int = 0
    hidden_layer: int | None = None  # whose hidden states there are
    vector_size: int = 0
    maps: str | None = None  # what a map holds, attention or gradients; None where there are no maps
    tuned: bool = False  # whether a second model's maps are beside the first's
    layout: Layout = Layout()  # of the inputs
    encoder: EncoderSpec | None = None  # for those who load the model with a head of their own
    encoder_sha256: str | None = None
    relations: tuple[str, ...] = ()  # names of the dependency relations
    separators: bool = False  # whether a unit behind the last word stands for [SEP]
    features: bool = False  # whether tokens are annotated with linguistic features
    task: str | None = None  # of GLUE
    objective: str | None = None  # of a language model whose tokens are labelled: masked or causal
    mask_token: int | None = None  # the id that hides what is asked for, where tokens are masked
    labels: bool = True  # whether what is tested has the labels of its task
    drawn: tuple[DrawnInput, ...] = ()
    notes: tuple[str, ...] = ()  # what the data say beneath tables
    token_names: Callable[[Sequence[int]], list[str]] | None = None  # of ids, as the tokenizer writes them
    coreference: bool = False  # whether noun-pronoun links are those of annotated entities
    filters: Mapping[str, int] = field(default_factory=dict[str, int])  # what each filter of the reader removed
    patterns: PatternFacts | None = None


@dataclass(frozen=True)
class Section:
    """What quantities belong to; `prefix` sets their names apart where other sections use the same."""

    name: str
    label: str
    prefix: str = ""


OTHER = Section("other", "other")


@dataclass(frozen=True)
class Quantity:
    """A number per head: what people call it and what it means, for tables, figures, the page and the docs.

    `better` says which end is the remarkable one, where one is. A quantity may be `one_of` a family, such as role or
    pattern, and is then the one that `which` names. A headline is among the first things told of a head.
    """

    name: str
    label: str
    description: str = ""
    unit: str = ""
    better: Literal["high", "low"] | None = None
    section: Section = OTHER
    one_of: str = ""
    which: str = ""
    headline: bool = False

    @property
    def title(self) -> str:
        """The label with the unit, unless it says it already."""
        return self.label if not self.unit or self.unit in self.label else f"{self.label} ({self.unit})"

    def said_by(self, layout: Layout) -> Quantity:
        """The same in words about a model's own special tokens."""
        return replace(self, label=layout.said(self.label), description=layout.said(self.description))

    def to_json(self) -> dict[str, Any]:
        """As results.json keeps it, under its name."""
        return {name: value for name, value in asdict(self).items() if name != "name"}

    @classmethod
    def from_json(cls, name: str, content: Mapping[str, Any]) -> Quantity:
        """What `to_json` wrote."""
        known = {one.name for one in fields(cls)} - {"name", "section"}
        section = Section(**content["section"]) if "section" in content else OTHER
        return cls(name=name, section=section, **{key: value for key, value in content.items() if key in known})


@dataclass(frozen=True)
class HeadValues:
    """A quantity of every head, with counts, the ends of intervals and p-values where they are known."""

    quantity: Quantity
    value: Grid
    n: Grid | None = None
    low: Grid | None = None
    high: Grid | None = None
    p: Grid | None = None

    def rows(self) -> Iterator[Row]:
        """One row per head, from 1, as heads.csv has them; columns that are not known are not there."""
        columns = {name: grid for name in NUMBERS if (grid := getattr(self, name)) is not None}
        for layer, values in enumerate(self.value):
            for head in range(len(values)):
                cells = {name: number(grid[layer][head]) for name, grid in columns.items()}
                if (count := cells.get("n")) is not None:
                    cells["n"] = int(count)
                yield {"layer": layer + 1, "head": head + 1, "quantity": self.quantity.name, **cells}


@dataclass(frozen=True)
class Findings:
    """What a module found: named numbers, tables, per-head quantities by name, data of drawings, and files of rows.

    `notes` are the lines to say beneath a table, by its name: what is in it and what is not, or why it is empty.
    """

    metrics: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    heads: Mapping[str, HeadValues] = field(default_factory=dict[str, HeadValues])
    drawings: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    files: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def head_rows(self) -> list[Row]:
        """The rows of heads.csv."""
        return [row for values in self.heads.values() for row in values.rows()]


def by_name(values: Iterable[HeadValues]) -> dict[str, HeadValues]:
    """Per-head quantities as findings hold them."""
    return {one.quantity.name: one for one in values}


def joined(findings: Iterable[Findings]) -> Findings:
    """The findings of several analyses as one."""
    found = list(findings)
    names = [one.name for one in fields(Findings)]
    return Findings(**{name: {key: one for part in found for key, one in getattr(part, name).items()} for name in names})


@dataclass(frozen=True)
class Source:
    """Where numbers come from, as far as a datamodule knows: models, files by checksum, and how much of them was used."""

    encoder: Mapping[str, Any]
    data: Mapping[str, str]  # checksums by file
    examples: Mapping[str, int]  # by split
    tuned_encoder: Mapping[str, Any] | None = None
    vectors: Mapping[str, Any] | None = None
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    words_without_pieces: Mapping[str, int] = field(default_factory=dict[str, int])
    layout: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of the inputs; BERT's where nothing is said
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])  # checksums of other files: weights, vectors, parser


@dataclass(frozen=True)
class Provenance(Source):
    """All that decides the numbers of a run: the source, and the command, configuration, code and machine."""

    command: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seed: int = 0
    git: Mapping[str, Any] | None = None
    packages: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    hardware: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0
    trained_parameters: int | None = None  # of the module; None where nothing was trained

    def as_source(self) -> Source:
        """Without what was the run's own."""
        return Source(**{one.name: getattr(self, one.name) for one in fields(Source)})


@dataclass(frozen=True)
class RunResults:
    """What results.json holds. `quantities` explains the names in heads.csv; `runs` are the folders of runs inside.

    `files` are the checksums of what else the run left and others may read; `notes` are the lines beneath tables.
    """

    experiment: str
    metrics: Mapping[str, float | None]
    tables: Mapping[str, Sequence[Row]]
    provenance: Provenance
    quantities: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])
    drawings: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    runs: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def to_json(self) -> dict[str, Any]:
        """Plain content for JSON; numbers that are not defined become null."""
        content = {
            "experiment": self.experiment,
            "metrics": defined(self.metrics),
            "tables": defined(self.tables),
            "quantities": {name: quantity.to_json() for name, quantity in self.quantities.items()},
            "drawings": defined(self.drawings),
            "provenance": defined(asdict(self.provenance)),
        }
        optional = {"runs": dict(self.runs), "files": dict(self.files), "notes": defined(self.notes)}
        return content | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> RunResults:
        """What `to_json` wrote."""
        known = {one.name for one in fields(Provenance)}
        provenance = Provenance(**{key: value for key, value in content["provenance"].items() if key in known})
        quantities = {name: Quantity.from_json(name, one) for name, one in content.get("quantities", {}).items()}
        plain = {key: content[key] for key in ("experiment", "metrics", "tables")}
        return cls(
            **plain,
            provenance=provenance,
            quantities=quantities,
            drawings=content.get("drawings", {}),
            runs=content.get("runs", {}),
            files=content.get("files", {}),
            notes=content.get("notes", {}),
        )


@dataclass(frozen=True)
class ChildRun:
    """A finished run inside a run: the row of a table that it is, the value that the row was run for, and what it left."""

    row: str
    value: Any
    results: RunResults
    heads: Sequence[Row]  # of its heads.csv, as text


def number(value: Any) -> float | None:
    """A plain number, or None for what is not defined."""
    if value is None:
        return None
    value = float(value)
    return value if value - value == 0 else None  # neither NaN nor infinite


def defined(value: Any) -> Any:
    """The same as plain containers, with None for every number that is not defined."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {key: defined(part) for key, part in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [defined(part) for part in cast("Sequence[Any]", value)]
    return value


class DataModule(Protocol):
    """What a run asks of data, besides being a LightningDataModule."""

    def require(self, stages: Sequence[str]) -> None:
        """Read the data, and find out before any work whether it has what all stages need."""
        ...

    def facts(self) -> Facts:
        """What a module must know of it."""
        ...

    def source(self) -> Source:
        """Where its numbers come from."""
        ...


class Module(Protocol):
    """What a run asks of a probe, an analysis or a classifier, besides being a LightningModule."""

    def findings(self) -> Findings:
        """What it found, beyond the metrics that it logged."""
        ...


class Figure(Protocol):
    """Draws what a run found into a folder."""

    def __call__(self, results: RunResults, heads: Sequence[Row], folder: Path) -> None: ...


class Classifier(Protocol):
    """How likely each class of each map is."""

    def probabilities(self, maps: Tensor, real: Tensor, token_class: Tensor) -> Tensor: ...
