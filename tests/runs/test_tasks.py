"""Several tasks as one run: whose model each gets, and what is joined."""

from dataclasses import replace

import pytest
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from headscope.contracts import ChildRun, Provenance, Quantity, RunResults, Section
from headscope.errors import ConfigError, InputError
from headscope.runs import tasks
from headscope.runs.tables import Planned
from tests.runs.conftest import PROJECT, composed

EXPERIMENTS = {
    "kovaleva_drift": "tuned.name",
    "kovaleva_features": "tuned.name",
    "kovaleva_disable_heads": "encoder.name",
    "kovaleva_disable_layers": "encoder.name",
    "kovaleva_patterns": "tuned.name",
}


def model_in(folder, name):
    (folder / name / "model").mkdir(parents=True)
    return folder / name / "model"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_model_is_the_one_named_or_the_one_that_a_run_left(experiment, tmp_path):
    left = {"mrpc": "mrpc_pre-trained", "rte": "tuned_rte", "sst2": "sst2"}
    models = {task: model_in(tmp_path, name) for task, name in left.items()}
    cfg = composed(
        f"experiment={experiment}", "tasks=[mrpc,rte,sst2,stsb]", f"tuned_run={tmp_path}", "tuned_of.stsb=its/model"
    )
    for task, folder in models.items():
        assert tasks.named_model(cfg, task) == folder
        first, *others = tasks.with_model(cfg, Planned("row", task, experiment, ()))
        assert first == f"{EXPERIMENTS[experiment]}='{folder}'"
        group = first.partition(".")[0]
        assert set(others) == {
            f"{group}.revision=null", f"{group}.change=null", f"{group}.sha256=null", f"{group}.init=pretrained"
        }  # fmt: skip
    assert str(tasks.named_model(cfg, "stsb")) == "its/model"
    assert tasks.to_tune(cfg) == []
    child = composed(f"experiment={cfg.rows[next(iter(cfg.rows))].experiment}", first, *others)
    assert OmegaConf.select(child, EXPERIMENTS[experiment]) == str(models["sst2"])


def test_a_task_without_a_model_is_fine_tuned_with_what_is_meant_for_that(tmp_path, monkeypatch):
    run = []
    monkeypatch.setattr(tasks, "run_child", run.append)
    given = ["tasks=[rte]", "encoder.name=base", "data.limit=4", "analyses.drift.replicates=7", "seed=3", "data.dir=null"]
    monkeypatch.setattr(tasks, "task_overrides", lambda: given)
    cfg = composed("experiment=kovaleva_drift", "tasks=[rte]", "tuning=['trainer.max_epochs=2']")
    cfg.run_dir = str(tmp_path)
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        first, *_ = tasks.with_model(cfg, Planned("drift", "rte", "kovaleva_drift", ()))
    assert first == f"tuned.name='{tmp_path}/tuned_rte/model'"
    (child,) = run
    assert (child.data.task, child.trainer.max_epochs, child.encoder.name, child.seed) == ("rte", 2, "base", 3)
    assert (child.data.limit, child.run_dir, child.experiment_name) == (None, f"{tmp_path}/tuned_rte", "kovaleva_glue")
    cfg.fine_tune = False
    assert tasks.with_model(cfg, Planned("drift", "rte", "kovaleva_drift", ())) == []


def test_a_second_model_with_the_name_of_the_task_in_it_is_nobody_elses_business():
    cfg = composed("experiment=kovaleva_drift", "tasks=[rte]", "tuned.name='out/${data.task}/model'")
    assert tasks.to_tune(cfg) == tasks.with_model(cfg, Planned("drift", "rte", "kovaleva_drift", ())) == []


def test_what_cannot_be_fine_tuned_is_told_before_any_work(tmp_path):
    (tmp_path / "QNLI").mkdir()
    (tmp_path / "QNLI" / "dev.tsv").touch()
    cfg = composed("experiment=kovaleva_drift", "tasks=[qnli]", f"data.dir={tmp_path}")
    with pytest.raises(InputError, match=r"qnli: is to be fine-tuned, but .*no QNLI/train.tsv .*tuned_of.qnli="):
        tasks.run(cfg)
    with pytest.raises(ConfigError, match="tuned_run=nowhere: no such folder"):
        tasks.run(composed("experiment=kovaleva_drift", "tasks=[qnli]", "tuned_run=nowhere"))


def test_one_task_takes_the_model_of_a_run_too(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks.training, "run", lambda cfg: cfg)
    model = model_in(tmp_path, "mrpc_pre-trained")
    drift = tasks.run(composed("experiment=kovaleva_drift", f"tuned_run={tmp_path}"))
    assert (drift.tuned.name, drift.tuned.init, drift.tuned.revision) == (str(model), "pretrained", None)
    heads = tasks.run(composed("experiment=kovaleva_disable_heads", f"tuned_run={tmp_path}", "encoder.init=normal"))
    assert (heads.encoder.name, heads.encoder.init, heads.encoder.change) == (str(model), "pretrained", None)


def test_tables_get_a_column_of_tasks_and_heads_a_quantity_for_each():
    quantity = Quantity("cosine", "cosine", section=Section("drift", "change"))
    heads = [
        {"layer": str(la), "head": str(he), "quantity": "cosine", "value": str(la / he), "n": "5", "low": "", "high": ""}
        for la in (1, 2)
        for he in (1, 2, 3)
    ]
    one = RunResults("x", {"test/mean": 0.5}, {"by_layer": [{"layer": 1}]}, Provenance({}, {}, {}), {"cosine": quantity})
    parts = [ChildRun("r", "mrpc", replace(one, notes={"by_layer": ["few"]}), heads), ChildRun("r", "rte", one, heads)]
    found = tasks.joined(parts, ["by_layer", "none"])
    assert found.metrics == {"mrpc mean": 0.5, "rte mean": 0.5}
    assert found.tables == {"by_layer": [{"task": "mrpc", "layer": 1}, {"task": "rte", "layer": 1}]}
    assert found.notes == {"by_layer": ["mrpc: few"]}
    assert list(found.heads) == ["cosine:mrpc", "cosine:rte"]
    values = found.heads["cosine:rte"]
    assert values.value == [[1.0, 0.5, 1 / 3], [2.0, 1.0, 2 / 3]]
    assert (values.n, values.low) == ([[5.0] * 3] * 2, None)
    assert (values.quantity.label, values.quantity.section.name) == ("cosine, rte", "drift_of_tasks")


def test_an_experiment_of_tasks_can_be_of_a_treebank_too():
    cfg = composed("experiment=kovaleva_features", "data=treebank_tokens")
    assert OmegaConf.to_container(cfg, resolve=True)["lacking"]["dir"] is None
    assert tasks.named_model(cfg, None) is None  # it has no task, so that no model of a task is asked for
