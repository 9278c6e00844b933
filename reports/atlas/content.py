"""The atlas of a model: what its runs found out about each head, joined into what atlas.json and the page hold."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headscope.contracts import NUMBERS, Grid, Quantity, Row, RunResults, head_name
from headscope.layout import Layout
from headscope.published import figures_beside
from headscope.reports.evidence import is_sample
from headscope.reports.results import finished_results, read_heads

BEST_RELATIONS = 5
ALL = "all"
HeadRow = dict[str, str]  # of heads.csv


@dataclass(frozen=True)
class Measured:
    """A quantity with its rows as the run wrote them, under the name that tells it from those of other parts."""

    quantity: Quantity
    part: str
    rows: list[HeadRow]

    @property
    def name(self) -> str:
        """As the joined table has it."""
        return self.quantity.section.prefix + self.quantity.name

    def grid(self, column: str) -> list[list[float | None]] | None:
        """A column as rows of layers, None for what is not known; None altogether where only values are."""
        cells = {(int(row["layer"]), int(row["head"])): row[column] for row in self.rows}
        if column != "value" and not any(cells.values()):
            return None
        layers, heads = (max(axis) for axis in zip(*cells, strict=True))
        texts = [[cells.get((layer, head), "") for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
        return [[float(text) if text else None for text in row] for row in texts]


@dataclass(frozen=True)
class Part:
    """A finished run that the atlas is made of; `published` holds the figures of each experiment that it stands for."""

    name: str
    folder: Path
    results: RunResults
    measured: Sequence[Measured] = ()
    tables: Sequence[str] = ()
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_part(name: str, folder: Path, tables: Sequence[str], published: Mapping[str, Mapping[str, Any]]) -> Part:
    """What a finished run left."""
    results = finished_results(folder)
    if results is None:
        raise FileNotFoundError(f"{folder}: expected a finished run.")
    by_name: dict[str, list[HeadRow]] = {}
    for row in read_heads(folder):
        by_name.setdefault(row["quantity"], []).append(row)
    unknown = {name: Quantity(name, name.replace("_", " ")) for name in by_name}
    meanings = {**unknown, **results.quantities}
    measured = [Measured(meanings[quantity], name, rows) for quantity, rows in by_name.items()]
    return Part(name, folder, results, measured, tables, published)


@dataclass(frozen=True)
class Model:
    """One model, the runs that looked at it, and what they left out; `least_words` are behind whatever is called best."""

    name: str
    parts: Sequence[Part]
    left_out: Sequence[Row]
    least_words: int = 1

    def measured(self) -> list[Measured]:
        """All per-head results, in the order of the parts."""
        return [one for part in self.parts for one in part.measured]

    def layout(self) -> Layout:
        """Of the model's inputs, as its runs say it."""
        return Layout.from_json(next((part.results.provenance.layout for part in self.parts), None))

    def head_rows(self) -> list[HeadRow]:
        """The joined table."""
        return [{**row, "quantity": one.name} for one in self.measured() for row in one.rows]

    def grids(self) -> dict[str, Grid]:
        """The values of every quantity by name, as far as any is known."""
        return {one.name: one.grid("value") or [] for one in self.measured() if any(row["value"] for row in one.rows)}

    def one_of(self, *families: str) -> dict[str, Measured]:
        """The members of a family, such as role, by which one they are."""
        return {one.quantity.which: one for one in self.measured() if one.quantity.one_of in families}


def require_different_names(model: Model) -> None:
    """Two parts may not give one name to two results, or the joined table would mix them."""
    seen: dict[str, str] = {}
    for one in model.measured():
        if seen.setdefault(one.name, one.part) != one.part:
            raise ValueError(f"{one.name}: given by {seen[one.name]} and {one.part}; a section's prefix sets them apart.")


def model_atlas(model: Model, encoder: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The entry of a model in atlas.json; folders are given from the root."""
    require_different_names(model)
    measured = model.measured()
    layers = max((int(row["layer"]) for one in measured for row in one.rows), default=0)
    heads = max((int(row["head"]) for one in measured for row in one.rows), default=0)
    sections = dict.fromkeys(one.quantity.section for one in measured)
    return {
        "name": model.name,
        "encoder": dict(encoder),
        "layers": layers,
        "heads": heads,
        "least_n": model.least_words,
        "sections": [{"name": section.name, "label": section.label} for section in sections],
        "quantities": [quantity_entry(one) for one in measured],
        "roles": roles_of_heads(model.one_of("role")),
        "pattern": pattern_of_heads(model.one_of("pattern", "no_pattern")),
        "not_a_class": list(model.one_of("no_pattern")),
        "relations": relations_of_heads(model.one_of("relation"), model.least_words),
        "published": [row for part in model.parts for row in published_rows(part)],
        "tables": {name: part.results.tables[name] for part in model.parts for name in shown_tables(part)},
        "sources": [source_row(part, root) for part in model.parts],
        "left_out": list(model.left_out),
    }


def quantity_entry(measured: Measured) -> dict[str, Any]:
    """A quantity with what it means and its grids, in all digits."""
    meaning = replace(measured.quantity, name=measured.name)
    texts = meaning.to_json() | {"name": measured.name, "section": meaning.section.name}
    return texts | {column: whole(grid) if column == "n" else grid for column in NUMBERS for grid in [measured.grid(column)]}


def roles_of_heads(roles: Mapping[str, Measured]) -> dict[str, list[str]]:
    """The roles that the tests gave to each head; a head without one has an empty list."""
    found: dict[str, list[str]] = {}
    for role, measured in roles.items():
        for row in measured.rows:
            found.setdefault(head_of(row), []).extend([role] if row["value"] and float(row["value"]) > 0 else [])
    return found


def pattern_of_heads(classes: Mapping[str, Measured]) -> dict[str, dict[str, float | None]]:
    """The share of each class of pattern in each head's maps."""
    found: dict[str, dict[str, float | None]] = {}
    for name, measured in classes.items():
        for row in measured.rows:
            found.setdefault(head_of(row), {})[name] = cell(row["value"])
    return found


def relations_of_heads(relations: Mapping[str, Measured], least_words: int) -> dict[str, list[Row]]:
    """The relations that each head finds best, the better direction of each, and whether no other head finds it better."""
    best_of: dict[str, float] = {}
    found: dict[str, dict[str, Row]] = {}
    for name, measured in relations.items():
        relation, _, direction = name.rpartition(":")
        for row in measured.rows:
            if relation == ALL or not row["value"] or float(row["n"]) < least_words:
                continue
            accuracy = float(row["value"])
            best_of[relation] = max(best_of.get(relation, 0.0), accuracy)
            of_head = found.setdefault(head_of(row), {})
            if relation not in of_head or of_head[relation]["accuracy"] < accuracy:
                numbers = {"low": cell(row["low"]), "high": cell(row["high"]), "n": int(float(row["n"]))}
                of_head[relation] = {"relation": relation, "direction": direction, "accuracy": accuracy, **numbers}
    return {head: best_relations(list(rows.values()), best_of) for head, rows in found.items()}


def best_relations(rows: Sequence[Row], best_of: Mapping[str, float]) -> list[Row]:
    """The first few: those that the head finds best of all heads, then by accuracy."""
    marked: list[Row] = [{**row, "best": 0 < row["accuracy"] == best_of[row["relation"]]} for row in rows]
    marked.sort(key=lambda row: (not row["best"], -row["accuracy"], -row["n"], row["relation"]))
    return marked[:BEST_RELATIONS]


def published_rows(part: Part) -> list[Row]:
    """Our figures of a run that have a published one beside them, with its source."""
    return [
        {"experiment": experiment, "metric": metric, "ours": ours, "published": figures[metric], "source": figures["source"]}
        for experiment, published in part.published.items()
        for figures in [figures_beside(published, part.results.provenance)]
        for metric, ours in part.results.metrics.items()
        if figures.get(metric) is not None
    ]


def shown_tables(part: Part) -> list[str]:
    """The tables of a run that the page shows, as far as they have rows."""
    return [name for name in part.tables if part.results.tables.get(name)]


def source_row(part: Part, root: Path) -> Row:
    """Which data a run read, whether it is a packaged sample, how much is counted in it, and how long it took."""
    provenance = part.results.provenance
    counts = [float(row["n"]) for one in part.measured for row in one.rows if row["n"]]
    return {
        "part": part.name,
        "experiment": part.results.experiment,
        "encoder": provenance.encoder["name"],
        "data": [Path(file).name for file in provenance.data],
        "sample": any(is_sample(Path(file)) for file in provenance.data),
        "n": int(max(counts, default=tested(provenance.examples))),
        "examples": tested(provenance.examples),
        "skipped": sum(provenance.skipped.values()),
        "left_out": provenance.left_out,
        "seconds": provenance.seconds,
        "folder": part.folder.relative_to(root).as_posix(),
    }


def summary_rows(models: Sequence[Model]) -> list[Row]:
    """What each run gave, for the terminal; one that tells of both models stands at the first."""
    first: dict[Path, Model] = {}
    for model in models:
        for part in model.parts:
            first.setdefault(part.folder, model)
    return [
        {
            "part": part.name,
            "model": model.name,
            "sections": ", ".join(dict.fromkeys(one.quantity.section.name for one in part.measured)) or None,
            "quantities": len(part.measured),
            "examples": tested(part.results.provenance.examples),
            "seconds": part.results.provenance.seconds,
        }
        for model in models
        for part in model.parts
        if first[part.folder] is model
    ]


def fact_rows(model: Model, facts: Sequence[Mapping[str, str]]) -> list[Row]:
    """The heads that stand out, as far as what they stand out in was computed."""
    measured, least, layout = model.measured(), model.least_words, model.layout()
    found = [(layout.said(fact["fact"]), extreme(measured, fact["quantity"], fact["pick"], least)) for fact in facts]
    return [{"fact": fact, **best} for fact, best in found if best]


def extreme(measured: Sequence[Measured], pattern: str, pick: str, least: int = 1) -> Row | None:
    """The head with the highest or lowest value, of at least so many words, among the quantities that a pattern names."""
    wanted = re.compile(re.escape(pattern).replace(r"\*", ".+"))
    cells: list[Row] = [
        {"head": head_of(row), "quantity": one.quantity.label, "value": float(row["value"])}
        | {"n": int(float(row["n"])) if row["n"] else None}
        for one in measured
        if wanted.fullmatch(one.name)
        for row in one.rows
        if row["value"] and (not row["n"] or float(row["n"]) >= least)
    ]
    best = max if pick == "highest" else min
    return best(cells, key=lambda cell: cell["value"]) if cells else None


def tested(examples: Mapping[str, int]) -> int:
    """The number of examples that the figures come from."""
    return examples.get("test", sum(examples.values()))


def head_of(row: HeadRow) -> str:
    """The head of a row as the papers write it."""
    return head_name(int(row["layer"]), int(row["head"]))


def cell(text: str) -> float | None:
    """A cell of heads.csv as a number."""
    return float(text) if text else None


def whole(grid: Sequence[Sequence[float | None]] | None) -> list[list[int | None]] | None:
    """A grid of counts."""
    return None if grid is None else [[None if value is None else int(value) for value in row] for row in grid]
