"""Several processes: every experiment gives what one process gives, and they start, fail and end together."""

import csv
import json
import math
import os
import shutil
import signal

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method
from omegaconf import open_dict
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM

from headscope.probes.patterns.files import save_pattern_cnn
from headscope.probes.patterns.net import PatternNet
from headscope.runs.training import run
from tests.commands import new_process, start
from tests.commands import run as run_program
from tests.conftest import TINY
from tests.record import left_by
from tests.runs.conftest import PROJECT, composed, train
from tests.runs.signals_itself import SIGNAL
from tests.runs.test_patterns import write_table
from tests.runs.test_training import wait_for
from tests.two_processes_agree import TOLERANCE, compare_all, distances

TWO_PROCESSES = ("trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu")
# A step of training adds up the parts of a batch in another order; evaluations have the same batches and every number is
# held to TOLERANCE of itself (tests/two_processes_agree.py).
ROUNDING_OF_TRAINING = 1e-3
SHORT = ("trainer.max_epochs=2", "data.limit=19")  # the last batch has three inputs
GLUE = ("data.limit=9", "data.batch_tokens=256")

# How each experiment is run here; what follows its name tells it from another run of it. Examples divide evenly neither by
# processes nor by batches.
PROBES = {
    "clark_probe_attention": (*SHORT, "data.batch_size=6"),  # the last batch has one input: nothing for one of the two
    "clark_probe_distances": SHORT,
    "clark_probe_random": (*SHORT, "module.decode=mst"),
    "clark_probe_right_branching": ("data.limit=19",),
    "clark_probe_words": (*SHORT, "data.cache=true"),
    "structural_probe": (*SHORT, "data.batch_size=6"),
    "pattern_fold": ("trainer.max_epochs=2", "data.synthetic=20"),
}
LANGUAGE = {"mlm_head": (*SHORT, "data.limit=7", "data.masks=1", "data.batch_size=6", "data.max_pieces=32")}  # 6 and 1
ANALYSES = {
    "clark_all_surface": ("data.limit=3",),
    "clark_clusters": ("data.limit=7", "data.batch_tokens=256"),
    "clark_coreference": ("data.limit=5", "analyses.coreference.replicates=50", "data.batch_tokens=256"),
    "clark_gradients": ("data.limit=7",),
    "clark_relations": ("data.limit=43", "analyses.relations.min_count=10", "analyses.relations.replicates=50"),
    "clark_surface": ("data.limit=7", "data.batch_tokens=256"),
    "kovaleva_patterns_task": ("data.task=rte", "data.limit=5"),
    "kovaleva_frames": ("data.batch_tokens=256", "analyses.frames.replicates=50", "analyses.frames.permutations=99"),
    "disable_heads_lm": ("data.limit=7", "data.batch_tokens=256", "module.replicates=50"),
    "pande_sieves of words": ("data=treebank_tokens", "data.limit=19", "analyses.roles.released=true"),
}
FINE_TUNING = {
    "kovaleva_glue": ("data.task=stsb", "data.limit=13", "data.batch_size=4", "trainer.max_epochs=1", "module.lr=1e-4"),
    "kovaleva_glue tested": (*GLUE, "data.task=rte", "stages=[test]"),
    "kovaleva_disable_heads": (*GLUE, "data.task=rte", "module.replicates=50"),
    "kovaleva_disable_layers": (*GLUE, "data.task=rte", "module.replicates=50"),
    "kovaleva_drift": (*GLUE, "data.task=rte"),
    "kovaleva_features": (*GLUE, "data.task=rte"),
    "pande_sieves": ("data.limit=9", "data.task=rte", "analyses.roles.permutations=3"),  # one batch: nothing for one of two
}
TABLES = {
    "atlas": ("only=[frames,coreference]", "tuned.name=null", "sentences=[Birds sing.]"),
    "clark_table3": ("trainer.max_epochs=1", "data.limit=12"),
    "structural_probe_layers": ("layers=[1,2]", "trainer.max_epochs=1", "data.limit=12"),
    "kovaleva_patterns": ("tasks=[rte]", "data.limit=5"),
    "pattern_cnn": ("trainer.max_epochs=1", "data.synthetic=20", "folds=[0]"),
    "kovaleva_table1": ("tasks=[rte]", "trainer.max_epochs=1", "data.limit=6", "module.dropout=0"),
}
EXEMPT = {
    "compare": "reads finished runs",
    "pattern_variants": "its runs are those of pattern_cnn, only more",
    "report": "reads finished runs",
}


def test_every_experiment_is_run_in_two_processes_or_says_why_not():
    known = {file.stem for file in (PROJECT / "conf" / "experiment").glob("[!_]*.yaml")}
    assert known == {experiment_of(name) for name in (*PROBES, *LANGUAGE, *ANALYSES, *FINE_TUNING, *TABLES, *EXEMPT)}


def experiment_of(name):
    return name.partition(" ")[0]


@pytest.fixture
def same_in_two(tmp_path):
    """Runs experiments in this process and then in two, and compares all that they leave."""

    def run_both(experiments, measure=difference):
        plans = {
            side: {
                str(tmp_path / side / name): [f"experiment={experiment_of(name)}", "~figures", *overrides, *trainer]
                for name, overrides in experiments.items()
            }
            for side, trainer in (("one", ()), ("two", TWO_PROCESSES))
        }
        for folder, overrides in plans["one"].items():
            run_here(folder, *overrides)
        run_in_two(tmp_path / "plan.json", plans["two"])
        return {name: measure(tmp_path / "one" / name, tmp_path / "two" / name) for name in experiments}

    return run_both


@pytest.fixture
def network(tmp_path):
    """An override that names a network of patterns, drawn at random."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        facts = {"labels_sha256": "", "cross_validated_f1": None}
        save_pattern_cnn(PatternNet().eval(), tmp_path / "network.safetensors", facts)
    return f"analyses.patterns.classifier.file={tmp_path / 'network.safetensors'}"


@pytest.fixture
def labels(tmp_path, minilm):
    """An override that names a table of a few labelled maps."""
    return f"data.labels={write_table(tmp_path / 'labels.csv', minilm)}"


@pytest.fixture
def encoder(tmp_path, minilm):
    """An override that names a tiny encoder, drawn at random."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertForMaskedLM(BertConfig(**TINY)).save_pretrained(tmp_path / "masked_lm")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm.folder / file, tmp_path / "masked_lm")
    return f"encoder.name={tmp_path / 'masked_lm'}"


def run_here(folder, *overrides):
    cfg = composed(*overrides)
    cfg.run_dir = str(folder)
    return run(cfg)


def run_in_two(file, plan):
    file.write_text(json.dumps(plan))
    call = run_program("-m", "tests.runs.two_processes", str(file))
    assert call.returncode == 0, call.stderr


def difference(one, two, files=("heads.csv", "predictions.csv", "logs/metrics.csv")):
    """The largest between the numbers that two runs wrote, relative to those above 1; what is no number must be equal."""
    results = [json.loads((folder / "results.json").read_text()) for folder in (one, two)]
    assert results[0]["provenance"]["examples"] == results[1]["provenance"]["examples"]
    found = [largest(*(result[part] for result in results)) for part in ("metrics", "tables")]
    for name in files:
        assert (one / name).is_file() == (two / name).is_file()
        if (one / name).is_file():
            found.append(largest(rows_of(one / name), rows_of(two / name)))
    return max(found)


def places_apart(one, two):
    """Where two runs differ by more than TOLERANCE, relative to the number itself, and by how much."""
    apart = distances(*({".": left_by(folder)} for folder in (one, two)))
    assert any(size == 0 for size in apart.values())
    return {place: size for place, size in apart.items() if size > TOLERANCE}


def rows_of(file):
    with file.open() as stream:
        return [{name: plain(text) for name, text in row.items()} for row in csv.DictReader(stream)]


def plain(text):
    try:
        return float(text)
    except ValueError:
        return text


def largest(one, two, place=""):
    if isinstance(one, dict):
        assert one.keys() == two.keys(), place
        return max((largest(one[key], two[key], f"{place}/{key}") for key in one), default=0.0)
    if isinstance(one, list):
        assert len(one) == len(two), place
        return max((largest(a, b, f"{place}/{n}") for n, (a, b) in enumerate(zip(one, two, strict=True))), default=0.0)
    if isinstance(one, float) and isinstance(two, float):
        return 0.0 if math.isnan(one) and math.isnan(two) else abs(one - two) / max(1, abs(one))
    assert one == two, place
    return 0.0


@pytest.mark.slow
def test_probes_learn_the_same(same_in_two, tmp_path, monkeypatch, labels):
    monkeypatch.setenv("HEADSCOPE_CACHE", str(tmp_path / "cache"))
    probes = PROBES | {"pattern_fold": (*PROBES["pattern_fold"], labels)}
    assert {name: size for name, size in same_in_two(probes).items() if not size < ROUNDING_OF_TRAINING} == {}


@pytest.mark.slow
def test_a_masked_lm_head_learns_the_same(same_in_two, tmp_path, random_encoder):
    encoder = f"encoder.name={random_encoder('bert').folder}"
    (size,) = same_in_two({name: (*overrides, encoder) for name, overrides in LANGUAGE.items()}).values()
    assert size < ROUNDING_OF_TRAINING
    models = [load_file(tmp_path / side / "mlm_head" / "model" / "model.safetensors") for side in ("one", "two")]
    for name, weights in models[0].items():
        assert torch.allclose(weights, models[1][name], atol=ROUNDING_OF_TRAINING), name


@pytest.mark.slow
def test_the_weights_that_a_probe_gives_heads_are_the_same(same_in_two, tmp_path, monkeypatch):
    """Stored maps are the same whoever reads them; streamed ones differ in their last digits with the inputs beside them."""
    monkeypatch.setenv("HEADSCOPE_CACHE", str(tmp_path / "cache"))
    runs = {
        "clark_probe_attention": ("trainer.max_epochs=8",),
        "clark_probe_attention of few": (*PROBES["clark_probe_attention"], "data.cache=true"),
    }
    assert {name: places for name, places in same_in_two(runs, places_apart).items() if places} == {}


@pytest.mark.slow
def test_fine_tuning_and_what_follows_give_the_same(same_in_two, tmp_path, encoder):
    """Dropout is drawn in each process for its part of a batch, so there is none here."""
    model = tmp_path / "tuned" / "model"
    tuning = ("experiment=kovaleva_glue", "~figures", *FINE_TUNING["kovaleva_glue"], "data.task=rte", encoder)
    run_here(tmp_path / "tuned", *tuning)
    swept, compared = (f"encoder.name={model}",), (encoder, f"tuned.name={model}")
    own = {
        "kovaleva_glue": (encoder, "module.dropout=0"),
        "kovaleva_glue tested": swept,
        "kovaleva_disable_heads": swept,
        "kovaleva_disable_layers": swept,
        "kovaleva_drift": compared,
        "kovaleva_features": compared,
        "pande_sieves": compared,
    }
    runs = {name: (*FINE_TUNING[name], *overrides) for name, overrides in own.items()}
    assert same_in_two({"kovaleva_glue": runs.pop("kovaleva_glue")})["kovaleva_glue"] < ROUNDING_OF_TRAINING
    assert {name: places for name, places in same_in_two(runs, places_apart).items() if places} == {}


@pytest.mark.slow
def test_analyses_find_the_same(same_in_two, encoder, network):
    own = {"clark_gradients": encoder, "kovaleva_patterns_task": network, "pande_sieves of words": encoder}
    own["disable_heads_lm"] = encoder
    runs = {name: (*overrides, *([own[name]] if name in own else [])) for name, overrides in ANALYSES.items()}
    assert {name: places for name, places in same_in_two(runs, places_apart).items() if places} == {}


def run_table_here(folder, *overrides):
    """Run a table in this process: it needs all that Hydra knows of its configuration."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        runtime = (f"run_dir={folder}", f"hydra.runtime.output_dir={folder}")
        cfg = compose("train", [*overrides, *runtime], return_hydra_config=True)
        HydraConfig.instance().set_config(cfg)
        with open_dict(cfg):
            del cfg.hydra
        try:
            get_method(cfg.job)(cfg)
        finally:
            HydraConfig.instance().cfg = None


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
def test_tables_are_the_same_from_the_command_line(table, tmp_path, monkeypatch, network, labels, encoder):
    """All rows are run in the same two processes; run again, they are found finished."""
    monkeypatch.setenv("HEADSCOPE_CACHE", str(tmp_path / "cache"))
    overrides = (f"experiment={table}", *TABLES[table], "figures=null")
    own = {"kovaleva_patterns": network, "pattern_cnn": labels, "kovaleva_table1": encoder}
    overrides += (own[table],) if table in own else ()
    run_table_here(tmp_path / "one", *overrides)
    two = (*overrides, *TWO_PROCESSES, f"run_dir={tmp_path / 'two'}")
    status, out, errors = train(*two)
    assert status == 0, errors
    for file in (tmp_path / "one").glob("*/results.json"):  # of the rows
        assert difference(file.parent, tmp_path / "two" / file.parent.name) < ROUNDING_OF_TRAINING, file.parent.name
    assert out.splitlines().count(str(tmp_path / "two" / "results.json")) == 1
    if table == "clark_table3":
        status, again, errors = train(*two, "resume=true")
        assert status == 0, errors
        assert again.splitlines()[-1] == out.splitlines()[-1]


def test_a_run_from_the_command_line_has_one_folder_and_one_voice(tmp_path):
    arguments = ("experiment=clark_probe_attention", *SHORT, "~figures")
    status, out, errors = train(*arguments, *TWO_PROCESSES, cwd=tmp_path)
    assert status == 0, errors
    (folder,) = (tmp_path / "outputs" / "clark_probe_attention").iterdir()
    assert out.splitlines()[-1] == str(folder / "results.json")
    assert out.count("results.json") == 1
    assert out.count("uas without root (test)") == 1
    run_here(tmp_path / "one", *arguments)
    assert difference(tmp_path / "one", folder) < ROUNDING_OF_TRAINING


@pytest.mark.parametrize(
    ("overrides", "status", "sentence"),
    [
        (("data.limit=1",), 2, "1 examples cannot be shared among 2 processes; use fewer (trainer.devices)."),
        pytest.param(
            ("module.scorer._target_=tests.runs.failing_scorer.FailsInTheSecond",),
            1,
            "the second process cannot go on.",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_mistake_ends_all_processes_and_is_told_once(overrides, status, sentence, tmp_path):
    arguments = ("experiment=clark_probe_right_branching", *overrides, *TWO_PROCESSES, f"run_dir={tmp_path}")
    call = new_process("train.py", *arguments)  # really started, both of them
    assert (call.returncode, call.stderr.splitlines()) == (status, [sentence])
    assert not (tmp_path / "results.json").exists()


def test_a_sweep_in_several_processes_is_refused(tmp_path):
    arguments = ("-m", "experiment=clark_probe_right_branching", "seed=1,2", *TWO_PROCESSES, f"run_dir={tmp_path}")
    status, _, errors = train(*arguments)
    assert (status, "-m: the jobs of a sweep run on one device each" in errors, "Traceback" in errors) == (2, True, False)


@pytest.mark.slow
def test_an_interrupted_run_ends_all_processes_and_resumes_to_the_same_metrics(tmp_path):
    arguments = ("experiment=clark_probe_words", "trainer.max_epochs=8", "data.limit=40", "~figures")
    arguments += ("callbacks.early_stopping=null",)
    run_here(tmp_path / "one", *arguments)
    two = (*arguments, *TWO_PROCESSES, f"run_dir={tmp_path / 'two'}")
    # Its own group, as a terminal has one: Ctrl-C reaches all processes.
    with start(*two, own_group=True) as process:
        wait_for(lambda: (tmp_path / "two" / "checkpoints" / "last.ckpt").is_file(), process)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.stderr.read()  # ends when no process is left to write
    assert process.returncode == 130
    assert errors.splitlines() == ["interrupted; resume=true with the same run_dir goes on from the last checkpoint."]
    status, _, errors = train(*two, "resume=true")
    assert status == 0, errors
    results = [json.loads((tmp_path / side / "results.json").read_text()) for side in ("one", "two")]
    assert largest(*(result["metrics"] for result in results)) < ROUNDING_OF_TRAINING


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes_to_the_same_metrics(tmp_path):
    arguments = ("experiment=clark_probe_words", "trainer.max_epochs=4", "data.limit=24", "~figures")
    arguments += ("callbacks.early_stopping=null", "+callbacks.signal._target_=tests.runs.signals_itself.SignalsItself")
    run_here(tmp_path / "undisturbed", *arguments)
    for first, then in (((), TWO_PROCESSES), (TWO_PROCESSES, ())):
        folder = tmp_path / f"goes_on_{len(then)}"
        status, _, errors = train(*arguments, *first, f"run_dir={folder}", **{SIGNAL: "self SIGTERM on_train_epoch_end 2"})
        assert (status, (folder / "checkpoints" / "last.ckpt").is_file()) == (143, True), errors
        status, _, errors = train(*arguments, *then, f"run_dir={folder}", "resume=true")
        assert status == 0, errors
        found = [json.loads((side / "results.json").read_text())["metrics"] for side in (tmp_path / "undisturbed", folder)]
        assert largest(*found) < ROUNDING_OF_TRAINING


@pytest.mark.slow
def test_one_and_two_processes_agree_in_every_cell(tmp_path):
    assert compare_all(tmp_path, ["pande_sieves_treebank", "clark_coreference"])
