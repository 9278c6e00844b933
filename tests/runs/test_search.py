import json
import math
import sys
from types import SimpleNamespace

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import TPESampler

from headscope.errors import ConfigError
from headscope.runs.cli import explain
from headscope.runs.sweeps.report import JobsFailed
from headscope.runs.sweeps.search import OptunaSearch, as_text, distribution, from_text
from tests.runs.cheap_job import FAILS, STOP
from tests.runs.conftest import PROJECT, composed, sweep

SPACES = sorted((PROJECT / "conf" / "search" / "space").glob("*.yaml"))
RANGES = {
    "interval(0.1, 1)": FloatDistribution(0.1, 1.0),
    "tag(log, interval(1e-5, 1e-1))": FloatDistribution(1e-5, 1e-1, log=True),
    "int(interval(2, 9))": IntDistribution(2, 9),
    "tag(log, int(interval(1, 64)))": IntDistribution(1, 64, log=True),
    "range(1, 7)": IntDistribution(1, 6),  # as for Hydra, the end is not in it
    "range(0, 10, 4)": IntDistribution(0, 8, step=4),
    "range(0.1, 0.5, 0.1)": FloatDistribution(0.1, 0.4, step=0.1),
    "choice(argmax, mst)": CategoricalDistribution(["argmax", "mst"]),
    "a,b": CategoricalDistribution(["a", "b"]),
}
SEARCH = ("search=optuna", "experiment=clark_probe_words", "search/space=none", "module.lr=tag(log,interval(1e-5,1))")


def parsed(text):
    return OverridesParser.create().parse_override(text)


def jobs(folder):
    return json.loads((folder / "results.json").read_text())["tables"]["jobs"]


@pytest.mark.parametrize("text", RANGES)
def test_ranges_of_the_command_line_mean_the_same_to_optuna(text):
    assert distribution(parsed(f"x={text}")) == RANGES[text]


@pytest.mark.parametrize(
    "text", ["tag(log, choice(1, 2))", "tag(wide, interval(0, 1))", "tag(log, interval(0, 1))", "range(3, 3)"]
)
def test_a_range_that_optuna_cannot_take_is_refused(text):
    with pytest.raises(ConfigError, match="x="):
        distribution(parsed(f"x={text}"))


def test_suggested_numbers_are_short_stay_inside_and_are_read_back():
    inside = FloatDistribution(0.00012344, 0.5, log=True)
    assert as_text(0.0371234, inside) == "0.03712"
    assert as_text(0.000123441, inside) == "0.00012344"  # rounded down it would lie outside
    assert as_text(0.1 + 0.2, FloatDistribution(0.1, 0.5, step=0.1)) == "0.3"
    for value, kind in ((0.25, inside), (7, IntDistribution(1, 9)), ("mst", CategoricalDistribution(["mst"]))):
        assert from_text(as_text(value, kind), kind) == value


def test_a_stopped_search_goes_on_to_the_same_jobs_as_an_undisturbed_one(tmp_path, monkeypatch):
    arguments = (*SEARCH, "+search.sampler.n_startup_trials=4", "~figures")
    sweep(*arguments, "search.trials=7", f"run_dir={tmp_path}/whole")
    monkeypatch.setenv(STOP, "2")
    with pytest.raises(SystemExit):
        sweep(*arguments, "search.trials=5", f"run_dir={tmp_path}/cut")
    monkeypatch.delenv(STOP)
    assert sorted(int(file.parent.name) for file in (tmp_path / "cut").glob("*/results.json")) == [0, 1]
    sweep(*arguments, "search.trials=7", f"run_dir={tmp_path}/cut")  # and to more trials
    assert jobs(tmp_path / "cut") == jobs(tmp_path / "whole")
    begun = [len((tmp_path / "cut" / str(number) / "calls").read_text().splitlines()) for number in range(7)]
    assert begun == [1, 1, 2, 1, 1, 1, 1]


def test_suggestions_gather_where_the_finished_jobs_were_good():
    search = OptunaSearch("val/uas", "max", TPESampler, trials=40, seed=0)
    space = {"module.lr": FloatDistribution(1e-5, 1.0, log=True)}
    found = []
    jobs = SimpleNamespace(results=lambda job: SimpleNamespace(metrics={"val/uas": found[job.number]}))
    mine = []
    for number in range(40):
        (values,) = search.suggest(jobs, mine, space)
        mine.append(SimpleNamespace(number=number, values=values))
        found.append(-((math.log10(float(values["module.lr"])) + 2) ** 2))
    at_random = -(5**2 / 12 + 0.5**2)  # variance over five powers of ten, and the distance of their middle from the top
    assert sum(found[20:]) / 20 > at_random / 2
    assert max(found) > -0.01


def test_one_failed_job_of_a_search_leaves_the_others(tmp_path):
    arguments = (*SEARCH, "module.lr=choice(0.1,0.01)", f"seed=choice(0,{FAILS})", "search.trials=10", "search.seed=1")
    with pytest.raises(JobsFailed, match="2 of 4 jobs did not finish"):  # and there is no fifth combination
        sweep(*arguments, "search.direction=min", f"run_dir={tmp_path}")
    rows = {row["overrides"]: row for row in jobs(tmp_path)}
    assert {text: row["status"] for text, row in rows.items()} == {
        "module.lr=0.1 seed=0": "done",
        "module.lr=0.01 seed=0": "done",
        f"module.lr=0.1 seed={FAILS}": "failed",
        f"module.lr=0.01 seed={FAILS}": "failed",
    }
    best = json.loads((tmp_path / "results.json").read_text())["tables"]["best"][0]
    assert best["command"] == "python train.py experiment=clark_probe_words module.lr=0.1 seed=0"


def test_what_the_command_line_fixes_is_not_searched(tmp_path):
    sweep("search=optuna", "experiment=structural_probe", "module.lr=0.5", "search.trials=1", f"run_dir={tmp_path}")
    assert set(jobs(tmp_path)[0]["values"]) == {"module.rank", "data.batch_size"}
    config = json.loads((tmp_path / "0" / "results.json").read_text())["provenance"]["config"]
    assert (config["module"]["lr"], config["search"]["_target_"]) == (0.5, "headscope.runs.sweeps.search.GridSearch")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["search.trials=0"], "search.trials=0: expected a whole number from 1."),
        (["module.lr=0.1"], "search=optuna: no range to search"),
        (["search/space=atention"], "search/space=atention: no such search/space; did you mean attention or"),
        (
            ["search.metric=val/f1", "search.trials=2"],
            "search.metric=val/f1: no such metric; the jobs have val/uas, test/uas.",
        ),
    ],
)
def test_a_search_that_cannot_work_gets_a_sentence(arguments, sentence, tmp_path):
    with pytest.raises(Exception) as refused:  # noqa: B017 - Hydra wraps some of them
        sweep(*SEARCH, *arguments, f"run_dir={tmp_path}")
    status, told = explain(refused.value)
    assert (status, told.startswith(sentence)) == (2, True)


def test_without_optuna_a_search_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match="pip install optuna"):
        sweep(*SEARCH, f"run_dir={tmp_path}")


@pytest.mark.parametrize("file", SPACES, ids=lambda file: file.stem)
def test_shipped_spaces_name_real_keys_and_contain_the_default(file):
    ranges = OmegaConf.load(file)
    if file.stem == "none":
        assert ranges == {}
        return
    experiment = {"glue_classifier": "kovaleva_glue", "pattern_cnn": "pattern_fold"}.get(file.stem, "clark_probe_words")
    cfg = composed("search=optuna", f"experiment={experiment}", f"module={file.stem}")
    assert cfg.search.space == ranges
    for key, text in ranges.items():
        kind, default = distribution(parsed(f"{key}={text}")), OmegaConf.select(cfg, key)
        inside = str(default) in kind.choices if hasattr(kind, "choices") else kind.low <= default <= kind.high
        assert inside, f"{key}={default} is not in {text}"


def test_every_trained_module_has_a_space():
    modules = {file.stem for file in (PROJECT / "conf" / "module").glob("*.yaml") if "lr:" in file.read_text()}
    assert modules <= {file.stem for file in SPACES}
