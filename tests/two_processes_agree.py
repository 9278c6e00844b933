"""One and two processes find the same of every head: each cell of heads.csv, each metric, each number of a table.

python -m tests.two_processes_agree FOLDER [NAME ...]     runs what tests/record.py runs and describes heads, or only NAMEs

Every command is run on one process, with all threads of the machine, and on two, with their share of them. A number may
differ by TOLERANCE of itself. What cancels to almost nothing has no digits of its own, so that a number may also differ by
FLOOR of the largest of its quantity (of its column, in a table): less than float64 keeps of a sum of that size.
"""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.record import FIRST, THEN, TIMES, random_models, run

TOLERANCE, FLOOR = 1e-6, 1e-12
SIDES = {"one": ["trainer=cpu"], "two": ["trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu"]}
COLUMNS = ("value", "n", "low", "high", "p")
Place = tuple[str, ...]
# Runs that others read are run once, on one process. Not here: what trains, and what reads finished runs.
READ_BY_OTHERS = ("kovaleva_glue", "clark_relations")
COMPARED = {"clark_relations": FIRST["clark_relations"]} | {
    name: arguments
    for name, arguments in THEN.items()
    if name.startswith(("clark_surface", "clark_all", "clark_coref", "clark_grad", "kovaleva_d", "kovaleva_f", "pande"))
    or name in ("kovaleva_patterns", "kovaleva_patterns_task", "atlas")
} | {
    "clark_clusters": ["experiment=clark_clusters"],
    "clark_probe_right_branching": ["experiment=clark_probe_right_branching"],
    "pande_sieves_released": [
        "experiment=pande_sieves", "tuned.name={kovaleva_glue}/model", "analyses.roles.released=true", "data.task=rte",
    ],
}  # fmt: skip


def compare_all(folder: Path, names: Sequence[str] = ()) -> bool:
    """Run both sides of each experiment, unless they are there, and print how far they are apart; whether all agree."""
    folder = folder.resolve()
    named = {"change": "package:headscope.data_modules/samples/patterns/mrpc.safetensors"}
    named |= random_models(folder / "models")
    for name in READ_BY_OTHERS:
        named[name] = str(folder / "read" / "runs" / name)
        if not (folder / "read" / f"{name}.json").is_file():
            print(*run(folder / "read", name, FIRST[name]), flush=True)
    agree = True
    for name in names or COMPARED:
        arguments = [text.format(**named) for text in COMPARED[name]]
        for side, own in SIDES.items():
            if not (folder / side / f"{name}.json").is_file():
                print(side, *run(folder / side, name, [*arguments, *own], threads=None), flush=True)
        agree &= told(name, *(folder / side / f"{name}.json" for side in SIDES))
    return agree


def told(name: str, one: Path, two: Path) -> bool:
    """Print the largest relative difference, how many numbers there are, and those that differ; whether none does."""
    if not (one.is_file() and two.is_file()):
        return False
    apart = distances(*(json.loads(file.read_text()) for file in (one, two)))
    cells = sum(place[1] == "heads" for place in apart)
    differing = sorted((place for place, size in apart.items() if size > TOLERANCE), key=lambda place: -apart[place])
    print(f"{name}: {max(apart.values()):.1e}, {len(differing)} differ of {len(apart)} ({cells} in heads.csv)", flush=True)
    print(
        *(f"    {' / '.join(place)}: {apart[place]:.1e}" for place in differing[:8]), sep="\n", end="\n" if differing else ""
    )
    return not differing


def distances(one: dict[str, Any], two: dict[str, Any]) -> dict[Place, float]:
    """How far what two runs left (`tests.record.left_by`, by folder) is apart, by place; infinite where one has none."""
    sides = [dict(numbers(side)) for side in (one, two)]
    scales: dict[str, float] = {}
    for scale, value in sides[0].values():
        if isinstance(value, float):
            scales[scale] = max(scales.get(scale, 0.0), abs(value))
    apart = dict.fromkeys(sides[0].keys() ^ sides[1].keys(), math.inf)
    for place in sides[0].keys() & sides[1].keys():
        (scale, left), (_, right) = (side[place] for side in sides)
        apart[place] = distance(left, right, FLOOR * scales.get(scale, 0.0))
    return apart


def distance(one: object, two: object, floor: float) -> float:
    """The difference relative to the larger; 0 below the floor, infinite between what are not both numbers."""
    if not (isinstance(one, float) and isinstance(two, float)):
        return 0.0 if one == two else math.inf
    if one == two or abs(one - two) <= floor:
        return 0.0
    return abs(one - two) / max(abs(one), abs(two))


def numbers(found: dict[str, Any]) -> Iterator[tuple[Place, tuple[str, object]]]:
    """All that the runs of an experiment left: its place, what its scale is taken from, and what is there."""
    for folder, left in found.items():
        for head, row in left["heads"].items():
            for column, value in zip(COLUMNS, row, strict=True):
                yield (folder, "heads", head, column), (f"{head.split(' ', 1)[1]} {column}", value)
        for part in ("metrics", "tables", "drawings"):
            for place, value in leaves(left[part]):
                columns = [step for step in place if not step.isdigit()]
                yield (folder, part, *place), (" ".join([part, *columns]), value)


def leaves(value: object, *place: str) -> Iterator[tuple[Place, object]]:
    """Each number, text or nothing in a tree of lists and dicts; whole numbers as floats, times left out."""
    if isinstance(value, dict):
        for key in value:
            if key not in TIMES:
                yield from leaves(value[key], *place, str(key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, *place, str(index))
    else:
        yield place, float(value) if isinstance(value, int) and not isinstance(value, bool) else value


if __name__ == "__main__":
    sys.exit(not compare_all(Path(sys.argv[1]), sys.argv[2:]))
