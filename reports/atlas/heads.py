"""All per-head results of a model in one tidy table, and what each of its quantities means."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headscope.reports.results import HEAD_COLUMNS, read_heads

NUMBERS = HEAD_COLUMNS[3:]
Row = dict[str, str]
Grid = list[list[float | None]]


@dataclass(frozen=True)
class Quantity:
    """One per-head result: where it belongs, what people call it, and its rows as the run wrote them."""

    name: str
    section: str
    label: str
    description: str
    part: str
    rows: list[Row]

    def grid(self, column: str) -> Grid | None:
        """A column as rows of layers, None for what is not known; None altogether where only values are."""
        cells = {(int(row["layer"]), int(row["head"])): row[column] for row in self.rows}
        if column != "value" and not any(cells.values()):
            return None
        layers, heads = (max(places) for places in zip(*cells, strict=True))
        texts = [[cells.get((layer, head), "") for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
        return [[float(text) if text else None for text in row] for row in texts]


def quantities_of(part: str, folder: Path, sections: Sequence[str], meanings: Mapping) -> list[Quantity]:
    """The per-head results of a run, named and explained."""
    by_name: dict[str, list[Row]] = {}
    for row in read_heads(folder):
        by_name.setdefault(row["quantity"], []).append(row)
    found = []
    for name, rows in by_name.items():
        section, label, description = meaning(name, sections, meanings)
        full_name = meanings.get(section, {}).get("prefix", "") + name
        renamed = [{**row, "quantity": full_name} for row in rows]
        found.append(Quantity(full_name, section, label, description, part, renamed))
    return found


def meaning(name: str, sections: Sequence[str], meanings: Mapping) -> tuple[str, str, str]:
    """The section, label and description of a quantity; the part's last section takes what none knows."""
    for section in sections:
        for pattern, texts in meanings.get(section, {}).get("names", {}).items():
            if match := re.fullmatch(re.escape(pattern).replace(r"\*", "(.+)"), name):
                label, description = (text.format(*(part.replace("_", " ") for part in match.groups())) for text in texts)
                return section, label, description
    return sections[-1] if sections else "other", name.replace("_", " "), ""


def require_different_names(quantities: Sequence[Quantity]) -> None:
    """Two parts may not give one name to two results, or the joined table would mix them."""
    seen: dict[str, str] = {}
    for quantity in quantities:
        if seen.setdefault(quantity.name, quantity.part) != quantity.part:
            parts = f"{seen[quantity.name]} and {quantity.part}"
            raise ValueError(f"{quantity.name}: given by {parts}; a section's prefix sets them apart.")


def grids(quantities: Sequence[Quantity]) -> dict[str, Grid]:
    """The values of every quantity by name, as far as any is known."""
    return {q.name: q.grid("value") for q in quantities if any(row["value"] for row in q.rows)}


def extreme(quantities: Sequence[Quantity], pattern: str, pick: str) -> dict[str, object] | None:
    """The head with the highest or lowest value among the quantities that a pattern names."""
    wanted = re.compile(re.escape(pattern).replace(r"\*", ".+"))
    cells = [
        {"head": f"{row['layer']}-{row['head']}", "quantity": quantity.label, "value": float(row["value"])}
        for quantity in quantities
        if wanted.fullmatch(quantity.name)
        for row in quantity.rows
        if row["value"]
    ]
    best = max if pick == "highest" else min
    return best(cells, key=lambda cell: cell["value"]) if cells else None
