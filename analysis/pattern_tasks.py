"""Patterns of several tasks joined (Kovaleva, Figure 2)."""

from collections.abc import Mapping, Sequence

from headscope.analysis.patterns import OUTCOMES


def joined_tasks(parts: Sequence[Mapping]) -> dict[str, object]:
    """The shares of all maps of each task and model, and those of each layer."""
    by_layer = [{"task": part["value"], **row} for part in parts for row in part["results"]["tables"]["patterns_by_layer"]]
    whole = [{key: row[key] for key in ("task", "model", *OUTCOMES)} for row in by_layer if row["layer"] == "all"]
    inputs = {part["value"]: part["results"]["provenance"]["examples"]["test"] for part in parts}
    published = {
        part["value"]: part["results"]["provenance"]["config"]["published"].get("test/heterogeneous") for part in parts
    }
    rows = [
        {**row, "inputs": inputs[row["task"]], "heterogeneous, published bound": published[row["task"]]} for row in whole
    ]
    names = {"model": "", "tuned": "tuned "}
    return {
        "metrics": {f"{names[row['model']]}{row['task']} heterogeneous": row["heterogeneous"] for row in rows},
        "tables": {"summary": rows, "patterns_by_layer": by_layer},
        "heads": mean_heads([row for part in parts for row in part["heads"]]),
    }


def mean_heads(rows: Sequence[Mapping[str, str]]) -> dict[str, dict[str, list]]:
    """Every quantity of each head over the inputs of all tasks together."""
    sums: dict[str, dict[tuple[int, int], list[float]]] = {}
    for row in rows:
        cell = sums.setdefault(row["quantity"], {}).setdefault((int(row["layer"]), int(row["head"])), [0.0, 0.0])
        cell[0] += float(row["n"]) * float(row["value"])
        cell[1] += float(row["n"])
    return {
        quantity: {
            "value": _grid({place: total / inputs for place, (total, inputs) in cells.items()}),
            "n": _grid({place: inputs for place, (_, inputs) in cells.items()}),
        }
        for quantity, cells in sums.items()
    }


def _grid(cells: Mapping[tuple[int, int], float]) -> list[list[float]]:
    layers, heads = (max(place) for place in zip(*cells, strict=True))
    return [[cells[layer, head] for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
