"""Which maps are to be labelled: those of a table, of a list that is begun, or newly drawn ones."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from headscope.data_modules.patterns.labels import Label, read_labels
from headscope.data_modules.patterns.votes import read_votes
from headscope.data_modules.readers.glue import TASKS
from headscope.errors import InputError, require_choice

PACKAGED = Path(__file__).parents[2] / "data_modules" / "samples" / "patterns" / "votes.csv"


def starting_rows(table: Path | None, out: Path, passed: int) -> list[Label]:
    """What was labelled so far, or the maps of a table, blank; a second pass of a table keeps the first to agree with."""
    if out.exists():
        rows = read_labels(out)
        if table and {row.map for row in read_labels(table)} != {row.map for row in rows}:
            raise InputError(f"{out}: lists other maps than {table}; name another file with --out.")
        return rows
    if table is None:
        return [Label(row.map, "", one) for one in range(1, passed + 1) for row in read_votes(PACKAGED)]
    return [row if row.passed < passed else replace(row, label="") for row in read_labels(table)]


def are_stored(rows: Sequence[Label]) -> bool:
    """Whether all maps are of the packaged set, so that no encoder is needed."""
    return {row.map for row in rows} <= {row.map for row in read_votes(PACKAGED)}


def drawn_rows(
    options: Mapping[str, Mapping[str, str]],
    names: Sequence[str],
    out: Path,
    count: int,
    seed: int,
    folder: str | None,
    tasks: Sequence[str],
    split: str,
) -> list[Label]:
    """About `count` maps of encoders on GLUE inputs, with no label yet."""
    from headscope.data_modules.patterns.sampling import draw_maps
    from headscope.tools.label.encoders import open_encoders

    if out.exists():
        raise InputError(f"{out}: is there already; go on with it without --draw, or name another file with --out.")
    if not names:
        raise InputError("--draw: expected an encoder to draw maps of; name one with --encoder NAME=PATH.")
    encoders = open_encoders(names, options)
    if len({(encoder.layers, encoder.heads) for encoder in encoders.values()}) > 1:
        raise InputError(f"--draw: {', '.join(names)} differ in their number of layers or heads; draw them one by one.")
    inputs = input_counts(folder, tasks, split)
    print(f"Drawing about {count} maps, which takes a while ...", file=sys.stderr, flush=True)
    drawn = draw_maps(encoders, inputs, count, seed, split, folder)
    return [Label(name, "") for name in drawn]


def input_counts(folder: str | None, tasks: Sequence[str], split: str) -> dict[str, int]:
    """How many examples each task has; without names, all tasks whose files are there."""
    from headscope.data_modules.readers.glue import SAMPLE, read_tsv, task_folder
    from headscope.files import local_path

    for task in tasks:
        require_choice("--tasks", task, TASKS)
    root = local_path(folder) if folder else SAMPLE
    counts = {}
    for name in tasks or TASKS:
        task = TASKS[name]
        # A folder of one task's own files cannot tell which task it is, so all are only tried by their folders' names.
        if not tasks and not (root / task.folder / task.dev_file).is_file():
            continue
        inside = task_folder(root, task)
        counts[name] = len(read_tsv(inside / (task.dev_file if split == "val" else "train.tsv"), task, None))
    if not counts:
        raise InputError(f"{root}: expected folders of GLUE tasks, found none; name its task with --tasks.")
    return counts
