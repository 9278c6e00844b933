"""Runs several configurations one after the other in the same processes, as a table does; test_ddp.py starts it."""

import json
import sys
from pathlib import Path

from hydra.utils import get_method

from tests.runs.conftest import composed


def run_all(file: Path) -> None:
    """Run what the file asks for: the overrides of each run by its folder."""
    for folder, overrides in json.loads(file.read_text()).items():
        cfg = composed(*overrides)
        cfg.run_dir = folder
        get_method(cfg.job)(cfg)


if __name__ == "__main__":
    run_all(Path(sys.argv[1]))
