"""Fine-tuning and what follows it, as a user runs them."""

import csv
import json
import shlex
import shutil
import signal

import pytest
import torch
from transformers import BertConfig, BertModel

from headscope.reports.terminal import next_commands
from headscope.runs.resume import plain_config
from tests.commands import start
from tests.conftest import TINY
from tests.runs.conftest import composed, train
from tests.runs.test_training import wait_for

SHORT = ("experiment=kovaleva_glue", "data.task=rte", "data.limit=24", "module.lr=1e-4", "trainer.max_epochs=9")


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


def random_encoder_in(folder, minilm, layers, heads):
    """An override that names a small encoder, drawn at random: what is tested here does not depend on what it knows."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"num_hidden_layers": layers, "num_attention_heads": heads, "hidden_size": 48}
        BertModel(BertConfig(**TINY | sizes)).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm.folder / file, folder)
    return f"encoder.name={folder}"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, minilm):
    """As many heads as MiniLM has."""
    return random_encoder_in(tmp_path_factory.mktemp("encoder"), minilm, 6, 12)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, encoder):
    """A run on the sample, whole."""
    folder = tmp_path_factory.mktemp("glue") / "rte"
    status, out, errors = train(*SHORT, encoder, f"run_dir={folder}")
    assert status == 0, errors
    (folder / "printed.txt").write_text(out)
    return folder


def test_a_run_leaves_predictions_a_checkpoint_and_a_plain_model(tuned):
    with (tuned / "predictions.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 24
    right = sum(row["gold"] == row["predicted"] for row in rows)
    assert results_of(tuned)["metrics"]["test/accuracy"] == pytest.approx(100 * right / 24, abs=1e-4)
    state = torch.load(tuned / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    assert any(name.startswith("model.bert.encoder") for name in state)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {file.name for file in (tuned / "model").iterdir()}


def test_a_run_ends_with_the_commands_that_go_on_from_it(tuned, encoder):
    *before, last = (tuned / "printed.txt").read_text().splitlines()
    assert last == str(tuned / "results.json")
    commands = [shlex.split(line.removeprefix("next: ")) for line in before[-3:]]
    assert commands == [
        ["python", "train.py", "experiment=kovaleva_disable_heads", "data.task=rte", f"encoder.name={tuned / 'model'}"],
        ["python", "train.py", "experiment=kovaleva_drift", "data.task=rte", encoder, f"tuned.name={tuned / 'model'}"],
        ["python", "train.py", "experiment=pande_sieves", "data.task=rte", encoder, f"tuned.name={tuned / 'model'}"],
    ]


def test_what_comes_next_keeps_the_data_and_where_training_began(tmp_path):
    (tmp_path / "model").mkdir()
    own = ("data.dir='my glue, official'", "encoder.init=normal", "seed=3", "encoder.revision=v1", f"run_dir={tmp_path}")
    cfg = composed("experiment=kovaleva_glue", *own)
    lines = next_commands(plain_config(cfg)["next"], tmp_path)
    for line, name in zip(lines, ("kovaleva_disable_heads", "kovaleva_drift", "pande_sieves"), strict=True):
        words = shlex.split(line)[2:]
        assert words[0] == f"experiment={name}"
        following = composed(*words)
        assert following.data.dir == "my glue, official"
        if "drift" in line or "sieves" in line:
            assert (following.encoder.init, following.encoder.revision, following.seed) == ("normal", "v1", 3)
            assert following.tuned.name == str(tmp_path / "model")
        else:
            assert (following.encoder.init, following.encoder.name) == ("pretrained", str(tmp_path / "model"))
    assert next_commands(plain_config(cfg)["next"], tmp_path / "model")[0].endswith(f"encoder.name={tmp_path / 'model'}")
    (tmp_path / "model").rmdir()
    assert next_commands(plain_config(cfg)["next"], tmp_path) == []


def test_a_killed_run_resumes_to_the_same_metrics(tuned, encoder, tmp_path):
    with start(*SHORT, encoder, f"run_dir={tmp_path}/cut") as process:
        wait_for(lambda: (tmp_path / "cut" / "checkpoints" / "last.ckpt").is_file(), process)
        process.send_signal(signal.SIGKILL)
        process.stderr.read()
    assert not (tmp_path / "cut" / "results.json").exists()
    status, _, errors = train(*SHORT, encoder, f"run_dir={tmp_path}/cut", "resume=true")
    assert status == 0, errors
    assert results_of(tmp_path / "cut")["metrics"] == results_of(tuned)["metrics"]


def test_what_follows_fine_tuning_runs_on_its_model(tuned, encoder, run_here, minilm, tmp_path):
    model, data = tuned / "model", ("data.task=rte", "data.limit=12")
    heads, folder = run_here("experiment=kovaleva_disable_heads", f"encoder.name={model}", *data, name="heads")
    assert (folder / "figures" / "disabled_heads.svg").is_file()
    assert len(heads["tables"]["disabled"]) == 72
    layers, _ = run_here("experiment=kovaleva_disable_layers", f"encoder.name={model}", *data, name="layers")
    assert len(layers["tables"]["disabled"]) == 6
    drift, folder = run_here("experiment=kovaleva_drift", encoder, f"tuned.name={model}", *data, name="drift")
    assert 0.5 < drift["metrics"]["test/least_cosine"] < 1
    assert (folder / "figures" / "heads_cosine.svg").is_file()
    few_heads = random_encoder_in(tmp_path / "few_heads", minilm, 1, 2)  # there are many figures of all heads
    _, small = run_here("experiment=kovaleva_glue", few_heads, *data, "trainer.max_epochs=1", name="small")
    compared = ("experiment=kovaleva_features", few_heads, f"tuned.name={small / 'model'}")
    features, folder = run_here(*compared, *data, name="features")
    assert {"attention_to_noun", "cls_to_sep", "verb_subject_forward"} <= {
        r["quantity"] for r in features["tables"]["features"]
    }
    assert (folder / "figures" / "features_change_attention_to.svg").is_file()


def test_table_1_has_every_metric_of_each_task_and_start(tmp_path, encoder):
    arguments = ("experiment=kovaleva_table1", "tasks=[rte,stsb]", "trainer.max_epochs=2", "data.limit=8", encoder)
    status, _, errors = train(*arguments, f"run_dir={tmp_path}/t")
    assert status == 0, errors
    table = results_of(tmp_path / "t")
    rows = {(row["row"], row["metric"]): row for row in table["tables"]["summary"]}
    starts, metrics = ("untrained", "normal", "pre-trained"), {"rte": ["accuracy"], "stsb": ["pearson", "spearman"]}
    assert list(rows) == [(f"{task}, {s}", f"test/{name}") for task in metrics for s in starts for name in metrics[task]]
    assert [rows[f"stsb, {start}", "test/pearson"]["published"] for start in starts] == [33.1, 2.9, 82.7]
    assert [rows[f"rte, {start}", "test/accuracy"]["train"] for start in starts] == [None, 8, 8]
    for begun in starts:
        own = results_of(tmp_path / "t" / f"stsb_{begun}")
        assert rows[f"stsb, {begun}", "test/spearman"]["ours"] == own["metrics"]["test/spearman"]
        last = own["tables"]["epochs"][-1]["spearman"] if begun != "untrained" else None
        assert rows[f"stsb, {begun}", "test/spearman"]["last_epoch"] == (last and pytest.approx(last, abs=1e-4))
        assert (tmp_path / "t" / f"stsb_{begun}" / "model").is_dir() == (begun != "untrained")
    assert results_of(tmp_path / "t" / "rte_normal")["provenance"]["config"]["encoder"]["init"] == "normal"
    gains = {row["task"]: row for row in table["tables"]["gains"]}
    assert gains["mean of 2"]["published"] == pytest.approx(((64.6 - 52.7) + (82.7 - 33.1)) / 2)
    assert table["metrics"]["mean gain"] == gains["mean of 2"]["ours"]


@pytest.mark.parametrize(
    ("overrides", "status", "sentence"),
    [
        (("experiment=kovaleva_glue", "data.task=cola"), 2, "data.task=cola: expected mrpc"),
        (("experiment=kovaleva_glue", "data.dir=nowhere"), 1, "nowhere: no such file or folder"),
        (("experiment=kovaleva_glue", "module.disable=[[7,1]]"), 2, "head [7, 1]: expected [layer, head]"),
        (("experiment=kovaleva_disable_heads",), 1, "has no trained classification head; fine-tune first"),
        (("experiment=kovaleva_drift",), 2, "needs a second model; name its folder with tuned.name="),
        (("experiment=kovaleva_features", "parser=nothing"), 2, "parser=nothing: no spaCy pipeline"),
    ],
)
def test_a_mistake_is_one_sentence(overrides, status, sentence, tmp_path):
    found, _, errors = train(*overrides, f"run_dir={tmp_path / 'run'}")
    assert (found, sentence in errors, "Traceback" in errors) == (status, True, False), errors
    assert not (tmp_path / "run" / "results.json").exists()
