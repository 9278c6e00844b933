"""A run inside a run that costs nothing: its figure is its seed; some seeds go wrong."""

import os
from pathlib import Path

from omegaconf import DictConfig

from headscope.contracts import Findings, Provenance, RunResults
from headscope.errors import DataError
from headscope.runs.report import finish
from headscope.runs.resume import plain_config, prepare_folder
from tests.runs.cheap_job import DIES, FAILS, IS_A_DEFECT

MENDED = "mended"  # a file beside the parts, with which a process does not die


def run(cfg: DictConfig) -> RunResults:
    """Write the results that a run would, unless they are there; every computation is counted in the folder."""
    folder = Path(cfg.run_dir)
    if done := prepare_folder(folder, cfg):
        return done
    with (folder / "computed").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    print("a line of the part")
    if cfg.seed == FAILS:
        raise DataError("words.txt:3: expected 10 columns.")
    if cfg.seed == IS_A_DEFECT:
        raise RuntimeError("not foreseen")
    if cfg.seed == DIES and not (folder.parent / MENDED).is_file():
        os._exit(9)
    provenance = Provenance({"name": "none"}, {}, {"test": 1}, config=plain_config(cfg), seconds=0.5)
    results = RunResults(cfg.experiment_name, {"test/uas": float(cfg.seed)}, {}, provenance)
    return finish(folder, results, Findings())
