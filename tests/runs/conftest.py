from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir, version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig

from headscope.runs.cli import register
from tests.commands import train as train  # for the tests of this folder
from tests.runs import cheap_job

PROJECT = Path(__file__).parents[2]


def composed(*overrides):
    """The configuration of a run, as train.py would get it."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        return compose("train", ["experiment_name=test", "run_dir=unused", *overrides])


@pytest.fixture
def run_here(tmp_path):
    """Run a configuration in this process, in a folder of its own."""
    from headscope.runs.training import run

    def run_it(*overrides, name="run"):
        cfg = composed(*overrides)
        cfg.run_dir = str(tmp_path / name)
        return run(cfg).to_json(), tmp_path / name

    return run_it


def sweep(*arguments, task=cheap_job.main):
    """What `python train.py -m` does, in this process, with a job that costs nothing."""
    version.setbase("1.3")
    GlobalHydra.instance().clear()
    register()
    try:
        hydra = Hydra.create_main_hydra2("train", create_config_search_path(str(PROJECT / "conf")))
        hydra.multirun("train", task, ["hydra.mode=MULTIRUN", *arguments])
    finally:
        GlobalHydra.instance().clear()
        HydraConfig.instance().cfg = None
