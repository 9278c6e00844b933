"""Runs every experiment on the packaged samples and keeps what its page shows: `python -m docs.generate.samples FOLDER`.

FOLDER keeps the runs, so that a second call goes on where the first stopped. What is kept of a run are the end of its
output, one figure (of a run that leaves a page, the top of it as a browser shows it) and what its per-head quantities are
called; nothing of it is evidence of anything.
"""

import argparse
import io
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image

from docs.generate.experiments import SAMPLES, names
from headscope.contracts import NUMBERS, RunResults
from headscope.reports.pdf import QUIET, browser
from headscope.reports.results import finished_results, read_heads
from headscope.reports.terminal import show
from headscope.runs.help import CONF
from tests.commands import PROJECT, Command

MOST_BYTES = 60_000
WIDTHS = (1100, 900, 760, 640)  # of a figure in pixels, the first that is small enough
COLOURS = (256, 64)
COLUMNS = 110  # of the terminal
TERMINAL = {"TERM": "dumb", "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "LINES": "50", "HF_HUB_OFFLINE": "1"}
TUNED = "outputs/atlas/fine_tuning/model"
MLM = "outputs/mlm_head/model"
REPORTED = ("outputs/clark_gradients", "outputs/kovaleva_table1", "outputs/kovaleva_drift")


@dataclass(frozen=True)
class Sample:
    """What is added to a command so that it runs on the sample; or the run inside another that is the same. Its figure."""

    figure: str | None
    overrides: tuple[str, ...] = ()
    inside: str | None = None
    page: str | None = None  # that the run leaves in place of figures


RUNS = {
    "atlas": Sample(None, ("sentences=['The cat that chased the mice sleeps on the mat.']",), page="atlas.html"),
    "clark_surface": Sample("surface_attention"),
    "mlm_head": Sample("frequencies"),
    "clark_gradients": Sample("gradients", (f"encoder.name={MLM}",)),
    "clark_relations": Sample("relation_heads", inside="atlas/relations"),
    "clark_coreference": Sample("coreference", inside="atlas/coreference"),
    "clark_clusters": Sample("clusters", inside="atlas/text"),
    "clark_all_surface": Sample("surface_entropy"),
    "clark_table3": Sample("rows"),
    "clark_probe_words": Sample("attachment", inside="clark_table3/clark_probe_words"),
    "clark_probe_attention": Sample("heads_probe", inside="clark_table3/clark_probe_attention"),
    "clark_probe_distances": Sample("attachment", inside="clark_table3/clark_probe_distances"),
    "clark_probe_random": Sample("attachment", inside="clark_table3/clark_probe_random"),
    "clark_probe_right_branching": Sample("attachment", inside="clark_table3/clark_probe_right_branching"),
    "structural_probe": Sample("structure", inside="clark_table3/structural_probe"),
    "structural_probe_layers": Sample("layers", ("layers=[2,4]",)),
    "kovaleva_table1": Sample("starts", ("tasks=[mrpc]",)),
    "kovaleva_glue": Sample("epochs", inside="atlas/fine_tuning"),
    "kovaleva_disable_heads": Sample("disabled_heads", (f"encoder.name={TUNED}",), inside="atlas/ablation"),
    "kovaleva_disable_layers": Sample("disabled_layers", (f"encoder.name={TUNED}",)),
    "kovaleva_drift": Sample("heads_cosine", (f"tuned.name={TUNED}",)),
    "kovaleva_features": Sample("features", (f"tuned.name={TUNED}",)),
    "kovaleva_frames": Sample("heads_frames", inside="atlas/frames"),
    "kovaleva_patterns": Sample("patterns_by_task"),
    "kovaleva_patterns_task": Sample("patterns_by_layer", inside="kovaleva_patterns/mrpc_patterns"),
    "pande_sieves": Sample("roles_grid"),
    "disable_heads_lm": Sample("disabled", (f"encoder.name={MLM}", "data.limit=20")),
    "pattern_cnn": Sample("confusion"),
    "pattern_fold": Sample("reliability", inside="pattern_cnn/0_CNN"),
    "pattern_variants": Sample("transfer"),
    "compare": Sample("scatter", ("runs=[outputs/kovaleva_drift,outputs/other]",)),
    "report": Sample(None, (f"runs=[{','.join(REPORTED)}]",), page="report.html"),
}
# Runs that others need and that have no page.
BESIDE = {"compare": ("outputs/other", ("experiment=kovaleva_drift", f"tuned.name={TUNED}", "seed=1", "data.sample=20"))}


def command_of(name: str) -> list[str]:
    """The words behind `python`."""
    return ["train.py", f"experiment={name}", *RUNS[name].overrides]


def run(arguments: list[str], folder: Path) -> str:
    """What a command prints on a terminal, run in the folder; paths as a reader would see them."""
    command = Command(str(PROJECT / "train.py"), *arguments, cwd=folder, env={**os.environ, **TERMINAL})
    out, err = command.communicate(timeout=3000)
    if command.returncode:
        raise RuntimeError(f"{shlex.join(arguments)}: status {command.returncode}\n{err[-2000:]}")
    return out.replace(f"{folder.resolve()}/", "")


def made(name: str, folder: Path) -> Path:
    """The folder of the finished run; runs it where there is none."""
    sample = RUNS[name]
    if sample.inside:
        return folder / "outputs" / sample.inside
    if name in BESIDE and not (folder / BESIDE[name][0] / "results.json").is_file():
        run([*BESIDE[name][1], f"run_dir={BESIDE[name][0]}"], folder)
    target = folder / "outputs" / name
    if not (target / "output.txt").is_file():
        resume = ["resume=true"] if target.is_dir() else []
        said = run([*command_of(name)[1:], f"run_dir=outputs/{name}", *resume], folder)
        (target / "output.txt").write_text(said, encoding="utf-8")
    return target


def keep(name: str, folder: Path) -> None:
    """Writes the files that its page shows."""
    target = made(name, folder)
    results = finished_results(target)
    if results is None:
        raise RuntimeError(f"{name}: no finished run in {target}.")
    if RUNS[name].inside and not (target / "figures").is_dir():
        draw(name, results, target)
    drawn = [file.stem for file in sorted((target / "figures").glob("*.png"))]
    wanted = RUNS[name].figure or ""
    order = sorted(drawn, key=lambda one: (one != wanted, not one.startswith(wanted), one))
    pictures = ((one, small(target / "figures" / f"{one}.png")) for one in order)
    figure, picture = next((found for found in pictures if found[1]), (None, b""))
    if page := RUNS[name].page:
        figure, picture = page, small(shown(target / page))
    SAMPLES.mkdir(exist_ok=True)
    words = command_of(name)
    if (RUNS[name].inside or "").startswith("clark_table3"):
        words.append("data.cache=true")  # as the table has it: maps of 16 bits
    content = {
        "command": shlex.join(["python", *words]),
        "figure": figure,
        "figures": drawn,
        "quantities": {key: {"label": one.label, "unit": one.unit, "description": one.description}
                       for key, one in results.quantities.items()},
    }  # fmt: skip
    (SAMPLES / f"{name}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    printed = said(results, target) if RUNS[name].inside else (target / "output.txt").read_text(encoding="utf-8")
    title = list(re.finditer(rf"^{name} *$", printed, re.MULTILINE))  # behind what the runs inside it printed
    printed = printed[title[-1].start() :] if title else printed
    # A reader who gives the command finds the run in a folder of its own.
    there = f"outputs/{RUNS[name].inside or name}/"
    printed = printed.replace(f"{folder.resolve()}/", "").replace(there, f"outputs/{name}/")
    lines = [line.rstrip() for line in printed.splitlines()]
    (SAMPLES / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if picture:
        (SAMPLES / f"{name}.png").write_bytes(picture)


def shown(page: Path) -> Path:
    """A picture of the top of a page."""
    program = browser()
    if program is None:
        raise RuntimeError(f"{page}: no browser is installed that could show it.")
    file = page.with_suffix(".png")
    options = [*QUIET, "--no-sandbox", "--hide-scrollbars", "--window-size=1280,900", "--virtual-time-budget=5000"]
    subprocess.run([program, *options, f"--screenshot={file}", page.resolve().as_uri()], check=True, capture_output=True)
    return file


def draw(name: str, results: RunResults, target: Path) -> None:
    """The figures of a run whose table or atlas did not ask for them."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        figures = compose("train", [f"experiment={name}"]).figures
    heads = [
        {**row, "layer": int(row["layer"]), "head": int(row["head"])}
        | {name: float(row[name]) if row[name] else None for name in NUMBERS}
        for row in read_heads(target)
    ]
    for figure in figures.values():
        if figure:
            instantiate(figure, _partial_=True)(results, heads, target / "figures")


def said(results: RunResults, target: Path) -> str:
    """What the run inside another would have printed alone."""
    with io.StringIO() as stream, redirect_stdout(stream):
        show(results, target)
        return stream.getvalue()


def small(file: Path) -> bytes | None:
    """The picture in few colours, as wide as its bytes allow; None where it is too large for any width."""
    picture = Image.open(file).convert("RGB")
    for width, colours in itertools.product(WIDTHS, COLOURS):
        size = (min(width, picture.width), round(picture.height * min(1, width / picture.width)))
        stream = io.BytesIO()
        picture.resize(size, Image.Resampling.LANCZOS).quantize(colours).save(stream, "png", optimize=True)
        if stream.tell() <= MOST_BYTES:
            return stream.getvalue()
    return None


def main() -> int:
    """All experiments, or those that are named; the number of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate.samples", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the runs are kept")
    parser.add_argument("names", nargs="*", help="experiments (all)")
    given = parser.parse_args()
    os.environ.update(TERMINAL)
    given.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in given.names or [name for name in RUNS if name in names()]:
        try:
            keep(name, given.folder)
            print(name, flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"{name}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main()))
