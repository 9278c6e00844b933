"""The runs inside a run as jobs of a launcher: the same table, errors that are told, nothing redone."""

import json
import os

import pytest
from hydra import version
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method
from omegaconf import OmegaConf, open_dict

from headscope.errors import ConfigError, DataError
from headscope.runs.atlas.plan import ENCODER, TUNED, steps, waves
from headscope.runs.cli import register
from headscope.runs.limits import require_parts
from headscope.runs.part_jobs import PartDefect, PartsUnfinished, PartTask, moved
from tests.runs.cheap_job import DIES, FAILS, IS_A_DEFECT
from tests.runs.cheap_part import MENDED
from tests.runs.conftest import PROJECT, composed

JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
ROW = "{experiment:clark_probe_right_branching,metric:test/uas,overrides:['job=tests.runs.cheap_part.run']}"
OWN = ("rows", "each", "handed_on")


def table(folder, seeds, *overrides):
    """A table whose rows cost nothing, as `python train.py` would run it; returns its figures."""
    version.setbase("1.3")
    GlobalHydra.instance().clear()
    register()
    kept = [f"+handed_on.{key}=false" for key in OWN]
    own = [f"+rows.cheap={ROW}", f"+each.seed=[{','.join(map(str, seeds))}]", *kept]
    try:
        hydra = Hydra.create_main_hydra2("train", create_config_search_path(str(PROJECT / "conf")))
        hydra.run("train", as_train, ["experiment=_published_table", *own, f"run_dir={folder}", *overrides])
    finally:
        GlobalHydra.instance().clear()
        HydraConfig.instance().cfg = None
    return json.loads((folder / "results.json").read_text())["metrics"]


def as_train(cfg):
    cfg.run_dir = HydraConfig.get().runtime.output_dir
    get_method(cfg.job)(cfg)


def computed(folder):
    return {file.parent.name: len(file.read_text().split()) for file in folder.glob("*/computed")}


def test_rows_are_jobs_of_the_launcher_and_one_that_dies_is_all_that_is_run_again(tmp_path):
    serial = table(tmp_path / "serial", [0, 1])
    assert serial == {"0, cheap": 0.0, "1, cheap": 1.0}
    jobs = (*JOBLIB, "~figures")
    assert table(tmp_path / "jobs", [0, 1], *jobs) == serial
    others = {file.read_text() for file in (tmp_path / "jobs").glob("*/computed")}
    assert f"{os.getpid()}\n" not in others
    assert (tmp_path / "jobs" / "0_cheap" / "output.txt").read_text() == "a line of the part\n"
    with pytest.raises(
        PartsUnfinished, match=rf"1 of 3 parts did not finish \({DIES}, cheap: its process died .*resume=true"
    ):
        table(tmp_path / "dies", [0, DIES, 1], *jobs)
    before = computed(tmp_path / "dies")
    (tmp_path / "dies" / MENDED).touch()
    found = table(tmp_path / "dies", [0, DIES, 1], *jobs, "resume=true")
    assert found == {"0, cheap": 0.0, f"{DIES}, cheap": float(DIES), "1, cheap": 1.0}
    dead = f"{DIES}_cheap"
    assert computed(tmp_path / "dies") == {**before, dead: before[dead] + 1}
    assert not (tmp_path / "dies" / dead / "failed.json").exists()
    # Without resume all is computed anew, as in this process.
    assert table(tmp_path / "jobs", [0, 1], *jobs) == serial
    assert computed(tmp_path / "jobs") == {"0_cheap": 2, "1_cheap": 2}


def test_a_mistake_and_a_defect_are_told_as_what_they_are(tmp_path):
    with pytest.raises(DataError, match=rf"^{FAILS}, cheap: words.txt:3: expected 10 columns.$"):
        table(tmp_path / "mistake", [FAILS, 0], *JOBLIB)
    assert json.loads((tmp_path / "mistake" / f"{FAILS}_cheap" / "failed.json").read_text())["kind"] == "DataError"
    assert (tmp_path / "mistake" / "0_cheap" / "results.json").is_file()
    with pytest.raises(PartDefect, match="RuntimeError: not foreseen .traceback in"):
        table(tmp_path / "defect", [IS_A_DEFECT], *JOBLIB)


def test_a_launcher_for_a_run_without_parts_is_refused(monkeypatch):
    hydra = {"mode": "RUN", "launcher": {"_target_": "other"}, "runtime": {"choices": {"hydra/launcher": "joblib"}}}
    monkeypatch.setattr(HydraConfig.instance(), "cfg", OmegaConf.create({"hydra": hydra}))
    with pytest.raises(ConfigError, match="^hydra/launcher=joblib: test is one run, with no parts to launch; add -m.$"):
        require_parts(OmegaConf.create({"experiment_name": "test"}))
    require_parts(OmegaConf.create({"experiment_name": "test", "rows": {}}))


def test_parts_of_an_atlas_wait_for_what_they_need():
    cfg = composed("experiment=atlas")
    first, *later = waves(cfg)
    assert sorted(step for wave in (first, *later) for step in wave) == sorted(steps(cfg))
    assert (ENCODER, "fine_tuning") in first
    assert {(ENCODER, "glue"), (ENCODER, "ablation"), (TUNED, "text")} <= {step for wave in later for step in wave}
    assert {(ENCODER, "text"), (ENCODER, "relations"), (ENCODER, "probe")} <= set(first)
    cfg.tuned.name = None
    assert len(waves(cfg)) == 1
    with open_dict(cfg):
        cfg.parts.text.needs, cfg.parts.frames.needs = ["frames"], ["text"]
    with pytest.raises(ConfigError, match="parts: text, frames need each other."):
        waves(cfg)


def test_what_other_parts_made_goes_with_a_part_to_a_machine_without_the_disk(tmp_path):
    (tmp_path / "fine_tuning" / "model").mkdir(parents=True)
    model, own = f"{tmp_path}/fine_tuning/model", f"{tmp_path}/glue/logs"
    config = {"tuned": {"name": model}, "run_dir": f"{tmp_path}/glue", "list": [own, 3], "elsewhere": "/data/glue"}
    assert PartTask(str(tmp_path), {"glue": {"config": config}}).inputs("glue") == ["fine_tuning/model"]
    there = moved(config, str(tmp_path), "/there")
    assert there == {
        "tuned": {"name": "/there/fine_tuning/model"},
        "run_dir": "/there/glue",
        "list": ["/there/glue/logs", 3],
        "elsewhere": "/data/glue",
    }
