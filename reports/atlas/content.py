"""The atlas of a model: what its runs found out about each head, joined into what atlas.json and the page hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from headscope.reports.atlas.heads import NUMBERS, Quantity, extreme, quantities_of, require_different_names
from headscope.reports.results import read_json

BEST_RELATIONS = 5
DIGITS = 4  # that count, of numbers on the page; heads.csv has them all
RELATION, ROLE, PATTERN, ALL = "relation:", "role:", "pattern:", "all"


@dataclass(frozen=True)
class Part:
    """A finished run that the atlas is made of; `published` holds the figures of each experiment that it stands for."""

    name: str
    folder: Path
    sections: Sequence[str] = ()
    tables: Sequence[str] = ()
    published: Mapping[str, Mapping] = field(default_factory=dict)

    @cached_property
    def results(self) -> dict[str, object]:
        """What results.json of the run holds."""
        return read_json(self.folder / "results.json")


@dataclass(frozen=True)
class Model:
    """One model, the runs that looked at it, what they left out, and what their per-head results mean."""

    name: str
    parts: Sequence[Part]
    left_out: Sequence[Mapping]
    meanings: Mapping
    least_words: int = 1

    @cached_property
    def quantities(self) -> list[Quantity]:
        """All per-head results, the order that of the parts."""
        found = [q for part in self.parts for q in quantities_of(part.name, part.folder, part.sections, self.meanings)]
        require_different_names(found)
        return found

    def of_kind(self, prefix: str) -> dict[str, Quantity]:
        """The quantities whose name starts so, by the rest of the name."""
        return {q.name.removeprefix(prefix): q for q in self.quantities if q.name.startswith(prefix)}


def model_atlas(model: Model, encoder: Mapping, root: Path) -> dict[str, object]:
    """The entry of a model in atlas.json; folders are given from the root."""
    layers = max((int(row["layer"]) for q in model.quantities for row in q.rows), default=0)
    heads = max((int(row["head"]) for q in model.quantities for row in q.rows), default=0)
    return {
        "name": model.name,
        "encoder": dict(encoder),
        "layers": layers,
        "heads": heads,
        "quantities": [quantity_entry(quantity) for quantity in model.quantities],
        "roles": roles_of_heads(model.of_kind(ROLE)),
        "pattern": pattern_of_heads(model.of_kind(PATTERN)),
        "relations": relations_of_heads(model.of_kind(RELATION), model.least_words),
        "published": [row for part in model.parts for row in published_rows(part)],
        "tables": {name: rows for part in model.parts for name, rows in tables_of(part).items()},
        "sources": [source_row(part, root) for part in model.parts],
        "left_out": list(model.left_out),
    }


def quantity_entry(quantity: Quantity) -> dict[str, object]:
    """A quantity with its grids, in as many digits as a page shows."""
    grids = {column: quantity.grid(column) for column in NUMBERS}
    texts = {"name": quantity.name, "section": quantity.section, "label": quantity.label}
    texts["description"] = quantity.description
    return texts | {
        column: grid and [[short(cell) for cell in row] for row in grid] if column != "n" else whole(grid)
        for column, grid in grids.items()
    }


def roles_of_heads(roles: Mapping[str, Quantity]) -> dict[str, list[str]]:
    """The roles that the tests gave to each head; a head without one has an empty list."""
    found: dict[str, list[str]] = {}
    for role, quantity in roles.items():
        for row in quantity.rows:
            found.setdefault(head_of(row), []).extend([role] if row["value"] and float(row["value"]) > 0 else [])
    return found


def pattern_of_heads(classes: Mapping[str, Quantity]) -> dict[str, dict[str, float | None]]:
    """The share of each class of pattern in each head's maps."""
    found: dict[str, dict[str, float | None]] = {}
    for name, quantity in classes.items():
        for row in quantity.rows:
            found.setdefault(head_of(row), {})[name] = short(cell(row["value"]))
    return found


def relations_of_heads(relations: Mapping[str, Quantity], least_words: int) -> dict[str, list[dict[str, object]]]:
    """The relations that each head finds best, the better direction of each, and whether no other head finds it better."""
    best_of: dict[str, float] = {}
    found: dict[str, dict[str, dict[str, object]]] = {}
    for name, quantity in relations.items():
        relation, _, direction = name.rpartition(":")
        for row in quantity.rows:
            if relation == ALL or not row["value"] or float(row["n"]) < least_words:
                continue
            accuracy = float(row["value"])
            best_of[relation] = max(best_of.get(relation, 0.0), accuracy)
            of_head = found.setdefault(head_of(row), {})
            if relation not in of_head or of_head[relation]["accuracy"] < accuracy:
                numbers = {"low": short(cell(row["low"])), "high": short(cell(row["high"])), "n": int(float(row["n"]))}
                of_head[relation] = {"relation": relation, "direction": direction, "accuracy": accuracy, **numbers}
    return {head: best_relations(list(rows.values()), best_of) for head, rows in found.items()}


def best_relations(rows: Sequence[Mapping], best_of: Mapping[str, float]) -> list[dict[str, object]]:
    """The first few: those that the head finds best of all heads, then by accuracy."""
    marked = [{**row, "best": 0 < row["accuracy"] == best_of[row["relation"]]} for row in rows]
    marked.sort(key=lambda row: (not row["best"], -row["accuracy"], -row["n"], row["relation"]))
    return [{**row, "accuracy": short(row["accuracy"])} for row in marked[:BEST_RELATIONS]]


def published_rows(part: Part) -> list[dict[str, object]]:
    """Our figures of a run that have a published one beside them, with its source."""
    return [
        {"experiment": experiment, "metric": metric, "ours": ours, "published": figures[metric], "source": figures["source"]}
        for experiment, figures in part.published.items()
        for metric, ours in part.results["metrics"].items()
        if figures.get(metric) is not None
    ]


def tables_of(part: Part) -> dict[str, list[dict]]:
    """The tables of a run that the page shows, as far as they have rows, in as many digits as a page shows."""
    tables = part.results["tables"]
    return {
        name: [{key: short(value) if isinstance(value, float) else value for key, value in row.items()} for row in rows]
        for name in part.tables
        if (rows := tables.get(name))
    }


def source_row(part: Part, root: Path) -> dict[str, object]:
    """Which data a run read, and how long it took."""
    provenance = part.results["provenance"]
    return {
        "part": part.name,
        "experiment": part.results["experiment"],
        "encoder": provenance["encoder"]["name"],
        "data": [Path(file).name for file in provenance["data"]],
        "examples": tested(provenance["examples"]),
        "skipped": sum(provenance["skipped"].values()),
        "left_out": provenance["left_out"],
        "seconds": provenance["seconds"],
        "folder": part.folder.relative_to(root).as_posix(),
    }


def summary_rows(models: Sequence[Model]) -> list[dict[str, object]]:
    """What each run gave, for the terminal; one that tells of both models stands at the first."""
    first: dict[Path, Model] = {}
    for model in models:
        for part in model.parts:
            first.setdefault(part.folder, model)
    return [
        {
            "part": part.name,
            "model": model.name,
            "sections": ", ".join(dict.fromkeys(q.section for q in model.quantities if q.part == part.name)) or None,
            "quantities": sum(q.part == part.name for q in model.quantities),
            "examples": tested(part.results["provenance"]["examples"]),
            "seconds": part.results["provenance"]["seconds"],
        }
        for model in models
        for part in model.parts
        if first[part.folder] is model
    ]


def fact_rows(model: Model, facts: Sequence[Mapping]) -> list[dict[str, object]]:
    """The heads that stand out, as far as what they stand out in was computed."""
    found = [(fact["fact"], extreme(model.quantities, fact["quantity"], fact["pick"])) for fact in facts]
    return [{"fact": fact, **best} for fact, best in found if best]


def tested(examples: Mapping[str, int]) -> int:
    """The number of examples that the figures come from."""
    return examples.get("test", sum(examples.values()))


def head_of(row: Mapping[str, str]) -> str:
    """A head as the papers write it."""
    return f"{row['layer']}-{row['head']}"


def cell(text: str) -> float | None:
    """A cell of heads.csv as a number."""
    return float(text) if text else None


def short(value: float | None) -> float | None:
    """A number in the digits that a page shows."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def whole(grid: Sequence[Sequence[float | None]] | None) -> list[list[int | None]] | None:
    """A grid of counts."""
    return grid and [[None if value is None else int(value) for value in row] for row in grid]
