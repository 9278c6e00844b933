"""The atlas as a user gets it: its table is that of its runs, what is not possible is told, and it goes on after a stop."""

import base64
import csv
import json
import shutil
import sys

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import InstantiationException
from omegaconf import OmegaConf, open_dict
from transformers import AutoConfig, AutoModel, AutoTokenizer

from headscope.analysis.head_questions import ablation_by_role
from headscope.data_modules.encoders.families import small_model
from headscope.errors import ConfigError, InputError
from headscope.runs import children
from headscope.runs.atlas import job, parts
from headscope.runs.atlas.plan import never_made, not_asked_for, steps
from headscope.runs.children import handed_on
from headscope.runs.explain import explain
from tests.conftest import TINY
from tests.runs.conftest import PROJECT, train

TYPED = "The cat sat on the mat."
SMALL = ("data.limit=8", "encoder.sha256=null", "trainer.max_epochs=1", f'sentences=["{TYPED}"]', "least_words=10")
DONE_BEFORE_THE_STOP = ("fine_tuning", "text", "relations")
MODEL_KEYS = {"name", "encoder", "layers", "heads", "quantities", "roles", "pattern", "relations", "published", "tables"}
MODEL_KEYS |= {"sources", "left_out", "sentences", "sections", "not_a_class"}
QUANTITY_KEYS = {"name", "section", "label", "description", "value", "n", "low", "high", "p"}
QUANTITY_KEYS |= {"unit", "better", "one_of", "which", "headline"}


def run_atlas(folder, *overrides):
    """Run the job as train.py does, in this process."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        cfg = compose("train", ["experiment=atlas", f"run_dir={folder}", *overrides], return_hydra_config=True)
        cfg.hydra.runtime.output_dir = str(folder)
        HydraConfig.instance().set_config(cfg)
        with open_dict(cfg):
            del cfg["hydra"]
        try:
            return job.run(cfg)
        finally:
            HydraConfig.instance().cfg = None


def read(file):
    return json.loads(file.read_text())


def heads(folder):
    with (folder / "heads.csv").open() as stream:
        return list(csv.DictReader(stream))


def times(folder):
    return {file.parent.name: file.stat().st_mtime_ns for file in folder.glob("*/results.json")}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory, minilm):
    """A tiny random encoder with MiniLM's tokenizer."""
    folder = tmp_path_factory.mktemp("encoders") / "tiny"
    with torch.random.fork_rng():
        torch.manual_seed(7)
        AutoModel.from_config(AutoConfig.for_model("bert", **TINY)).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm.folder / file, folder)
    return folder


@pytest.fixture(scope="module")
def stopped_and_resumed(tmp_path_factory, encoder):
    """An atlas that was stopped after three parts and then went on: its folder, and when parts were finished before."""
    folder = tmp_path_factory.mktemp("atlas") / "run"
    overrides = (*SMALL, f"encoder.name={encoder}", f"data.cache_dir={folder.parent / 'cache'}")

    def stop_there(planned, resume):
        if planned.name not in (*DONE_BEFORE_THE_STOP, "gradients"):
            raise KeyboardInterrupt
        return parts.run_part(planned, resume)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "run_part", stop_there)
        with pytest.raises(KeyboardInterrupt):
            run_atlas(folder, *overrides)
    before = times(folder)
    assert not (folder / "results.json").exists()
    run_atlas(folder, *overrides, "resume=true")
    return folder, before, overrides


@pytest.fixture(scope="module")
def folder(stopped_and_resumed):
    return stopped_and_resumed[0]


@pytest.mark.slow
def test_an_atlas_that_was_stopped_goes_on_without_redoing_what_was_finished(stopped_and_resumed):
    folder, before, overrides = stopped_and_resumed
    assert set(before) == set(DONE_BEFORE_THE_STOP)
    after, table = times(folder), (folder / "heads.csv").read_bytes()
    assert {name: after[name] for name in before} == before
    assert set(after) > set(before)
    # What is missing again is computed again, to the same numbers; what is there stays.
    (folder / "frames" / "results.json").unlink()
    run_atlas(folder, *overrides, "resume=true")
    again = times(folder)
    assert [name for name in after if again[name] != after[name]] == ["frames"]
    assert (folder / "heads.csv").read_bytes() == table


def test_the_joined_table_is_that_of_the_runs(folder):
    for root, runs_of in ((folder, read(folder / "results.json")["runs"]), (folder / "tuned", None)):
        joined = {(row["quantity"], row["layer"], row["head"]): row for row in heads(root)}
        expected = {}
        for part in runs_of or ["text", "relations", "glue", "../ablation"]:
            for row in heads(root / part) if (root / part / "heads.csv").is_file() else []:
                linguistic = part == "glue" and not row["quantity"].startswith(
                    ("sieve", "role", "pattern", "tuned_sieve", "tuned_role", "tuned_pattern", "cosine")
                )
                name = f"features:{row['quantity']}" if linguistic else row["quantity"]
                expected[name, row["layer"], row["head"]] = {**row, "quantity": name}
        assert joined == expected
        assert len(heads(root)) == len(joined)
    sections = {quantity["section"] for quantity in read(folder / "atlas.json")["models"][0]["quantities"]}
    assert sections - {"patterns"} == {
        "surface", "clusters", "relations", "coreference", "frames", "roles", "features", "drift", "ablation", "probe",
    }  # fmt: skip


def test_the_json_has_what_the_page_expects(folder):
    atlas = read(folder / "atlas.json")
    assert atlas["title"] == "Atlas of tiny"
    assert [model["name"] for model in atlas["models"]] == ["tiny", "tiny, fine-tuned on mrpc"]
    for model, root in zip(atlas["models"], (folder, folder / "tuned"), strict=True):
        assert set(model) >= MODEL_KEYS
        assert (model["layers"], model["heads"]) == (3, 4)
        cells = {(row["quantity"], int(row["layer"]), int(row["head"])): row for row in heads(root)}
        for quantity in model["quantities"]:
            assert set(quantity) == QUANTITY_KEYS
            assert quantity["label"]
            assert quantity["description"]
            for column in ("value", "n", "low", "high", "p"):
                for layer, row in enumerate(quantity[column] or []):
                    for head, value in enumerate(row):
                        text = cells[quantity["name"], layer + 1, head + 1][column]
                        assert value == (float(text) if text else None)  # every digit
        roles = {name: [] for name in model["roles"]}
        for (name, layer, head), row in cells.items():
            if name.startswith("role:") and float(row["value"]):
                roles[f"{layer}-{head}"].append(name.removeprefix("role:"))
        assert model["roles"] == roles
        assert len(roles) == 12
    page = (folder / "atlas.html").read_text()
    assert "Atlas of tiny" in page
    assert len(page) < 10_000_000


def test_the_best_relations_of_a_head_are_those_of_the_table(folder):
    model = read(folder / "atlas.json")["models"][0]
    accuracy = {}
    for row in heads(folder):
        name, _, direction = row["quantity"].rpartition(":")
        if name.startswith("relation:") and name != "relation:all" and int(float(row["n"])) >= 10:
            accuracy[name.removeprefix("relation:"), f"{row['layer']}-{row['head']}", direction] = float(row["value"])
    for head, rows in model["relations"].items():
        assert 1 <= len(rows) <= 5
        for row in rows:
            both = {d: accuracy[row["relation"], head, d] for d in ("dependent_to_head", "head_to_dependent")}
            highest = max(value for (relation, _, _), value in accuracy.items() if relation == row["relation"])
            assert row["accuracy"] == max(both.values())
            assert both[row["direction"]] == max(both.values())
            assert row["best"] == (0 < max(both.values()) == highest)
    assert any(row["best"] for rows in model["relations"].values() for row in rows)


def test_the_shown_maps_are_those_of_the_model(folder, encoder):
    atlas = read(folder / "atlas.json")
    for model, weights in zip(atlas["models"], (encoder, folder / "fine_tuning" / "model"), strict=True):
        shown = model["sentences"][0]
        assert (shown["text"], shown["typed"]) == (TYPED, True)
        inputs = AutoTokenizer.from_pretrained(encoder)(TYPED, return_tensors="pt")
        reference = AutoModel.from_pretrained(weights, attn_implementation="eager").eval()
        with torch.no_grad():
            maps = torch.cat(reference(**inputs, output_attentions=True).attentions).numpy()
        stored = np.frombuffer(base64.b64decode(shown["maps"]), np.uint8).reshape(3, 4, 9, 9)
        assert len(shown["tokens"]) == 9
        assert np.abs(stored - 255 * np.sqrt(maps)).max() <= 0.51
        pairs = [sentence for sentence in model["sentences"] if " | " in sentence["text"]]
        assert [sentence["tokens"].count("[SEP]") for sentence in pairs] == [2] * len(pairs)
        assert len(model["sentences"]) == len({sentence["text"] for sentence in model["sentences"]}) >= 5


def test_published_figures_stand_beside_those_of_the_runs(folder):
    model, results = read(folder / "atlas.json")["models"][0], read(folder / "results.json")
    found = {(row["experiment"], row["metric"]): row for row in model["published"]}
    expected = {}
    for part in results["runs"]:
        own = read(folder / part / "results.json")
        for row in own["tables"]["summary"]:
            assert results["metrics"][f"{part}/{row['metric'].removeprefix('test/')}"] == row["ours"]
            if row["published"] is not None:
                expected[row["metric"]] = (row["ours"], row["published"], own["provenance"]["config"]["published"]["source"])
    ours = {
        metric: (row["ours"], row["published"], row["source"])
        for (experiment, metric), row in found.items()
        if experiment not in ("clark_surface", "kovaleva_patterns_task")
    }
    assert ours.items() <= expected.items()
    assert found["clark_surface", "test/heads_mostly_previous"]["published"] == 4
    assert {"test/f1", "test/tuned_local_syntactic_spearman", "test/all_best_head", "test/uas"} <= set(ours)


def test_the_questions_are_asked_of_the_model_that_was_swept(folder):
    atlas = read(folder / "atlas.json")
    tuned = {row["quantity"]: [[0.0] * 4 for _ in range(3)] for row in heads(folder / "tuned")}
    for row in heads(folder / "tuned"):
        tuned[row["quantity"]][int(row["layer"]) - 1][int(row["head"]) - 1] = float(row["value"] or "nan")
    answer = atlas["questions"]["ablation"]
    assert answer["model"] == "tiny, fine-tuned on mrpc"
    assert answer["rows"] == ablation_by_role(tuned)["rows"]
    assert atlas["questions"]["agreement"]["model"] == "tiny"
    sweep = read(folder / "ablation" / "results.json")["provenance"]["encoder"]
    assert sweep["sha256"] == atlas["models"][1]["encoder"]["sha256"] != atlas["models"][0]["encoder"]["sha256"]


def test_what_the_model_does_not_allow_is_left_out_with_its_sentence(folder):
    (gradients,) = [
        row for row in read(folder / "atlas.json")["models"][0]["left_out"] if row["experiment"] == "clark_gradients"
    ]
    assert "has no masked-language-model head" in gradients["why"]
    assert gradients in read(folder / "results.json")["tables"]["left_out"]


def test_without_a_parser_or_classifier_the_rest_of_a_pass_goes_on(folder, encoder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    small = (*SMALL, f"encoder.name={encoder}", "shown={}", "tuned_parts=null")
    small += ("parts.glue.overrides=['analyses.roles.tau=2','analyses.drift.replicates=20']",)
    run_atlas(tmp_path / "one", *small, "only=[glue]", f"tuned.name={folder / 'fine_tuning' / 'model'}")
    atlas = read(tmp_path / "one" / "atlas.json")
    sections = {quantity["section"] for quantity in atlas["models"][0]["quantities"]}
    assert "drift" in sections
    assert not sections & {"roles", "features"}
    left_out = {row["experiment"]: row["why"] for row in atlas["models"][0]["left_out"]}
    assert "spaCy is not installed" in left_out["pande_sieves"]
    assert "spaCy is not installed" in left_out["kovaleva_features"]
    assert (tmp_path / "one" / "glue" / "report.txt").is_file()
    config = read(tmp_path / "one" / "glue" / "config.json")["config"]
    assert (config["parser"], "roles" in config["analyses"]) == (None, False)
    assert config["analyses"]["drift"]["replicates"] == 20
    assert "needs roles" in atlas["questions"]["agreement"]["why"]
    before = times(tmp_path / "one")
    run_atlas(tmp_path / "one", *small, "only=[glue]", f"tuned.name={folder / 'fine_tuning' / 'model'}", "resume=true")
    assert times(tmp_path / "one") == before
    with pytest.raises(InputError, match="nothing is left of the atlas: .*has no trained classification head"):
        run_atlas(tmp_path / "two", *small, "only=[ablation]", "tuned.name=null")
    assert not (tmp_path / "two" / "results.json").exists()


def test_another_atlas_is_the_second_model(folder, encoder, tmp_path):
    run_atlas(tmp_path, *SMALL, f"encoder.name={encoder}", "only=frames", f"beside={folder}")
    own, other = read(tmp_path / "atlas.json")["models"]
    assert other == read(folder / "atlas.json")["models"][0]
    assert {quantity["section"] for quantity in own["quantities"]} == {"frames"}
    assert [row["experiment"] for row in own["sources"]] == ["kovaleva_frames"]


def test_a_sentence_that_does_not_fit_is_told(encoder, tmp_path):
    long = " ".join(["word"] * 70)
    small = (f"encoder.name={encoder}", "data.limit=2", "only=[frames]", "map_bytes=2000")
    run_atlas(tmp_path, *small, f'sentences=["{TYPED}","{long}","It slept there all day."]')
    (model,) = read(tmp_path / "atlas.json")["models"]
    assert [sentence["text"] for sentence in model["sentences"]] == [TYPED]
    why = [row["why"] for row in model["left_out"]]
    assert "has 72 tokens; the page shows up to 64" in why[0]
    assert "over the page's limit" in why[1]


def test_a_defect_is_no_left_out_part(encoder, tmp_path, monkeypatch):
    def defect(cfg):
        raise ZeroDivisionError

    monkeypatch.setattr(children, "get_method", lambda name: defect)
    with pytest.raises(ZeroDivisionError):
        run_atlas(tmp_path, f"encoder.name={encoder}", "only=[frames]")


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("only=[glu]", "only: glu is no part of the atlas; did you mean glue"),
        ("only=glu", "only: glu is no part of the atlas; did you mean glue"),
        ("beside=nowhere", "beside=nowhere: no finished atlas there"),
        ("data_of.treebank=nowhere.conllu", "data_of.treebank=nowhere.conllu: no such file or folder"),
        ("data.test=a.conllu", "data.test: an atlas has several parts, each with its own; data_of.<kind>= names files"),
        ("module=attention", "module: an atlas has several parts"),
        ("tuned.name=./nowhere", "./nowhere: expected a folder with config.json"),
    ],
)
def test_a_mistake_is_one_sentence_before_any_work(override, sentence, tmp_path):
    with pytest.raises((InputError, InstantiationException)) as error:
        run_atlas(tmp_path, override)
    _, told = explain(error.value, [])
    assert sentence in told
    assert "\n" not in told
    assert not list(tmp_path.glob("*/config.json"))


def test_a_model_whose_maps_cannot_be_had_is_refused_before_anything_is_fine_tuned(tmp_path, minilm):
    model = small_model("longformer")
    model.save_pretrained(tmp_path / "model")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(minilm.folder / file, tmp_path / "model")
    with pytest.raises(InputError, match="so its maps cannot be had; name another model"):
        run_atlas(tmp_path / "run", *SMALL, f"encoder.name={tmp_path / 'model'}")
    assert not list(tmp_path.glob("run/*/*"))


def composed(*overrides):
    """The configuration of an atlas."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        return compose("train", ["experiment=atlas", "run_dir=x", *overrides])


def test_nothing_is_fine_tuned_that_was_not_asked_for():
    for only in ("[glue]", "[ablation,text]", "relations"):
        cfg = composed(f"only={only}")
        assert [name for _, name in steps(cfg) if name == "fine_tuning"] == []
        assert never_made(cfg) == {"tuned.name": None}
    (row,) = not_asked_for(composed("only=[glue]"))
    assert row == {
        "experiment": "kovaleva_glue",
        "why": "only=[glue] does not name fine_tuning; add it, or give tuned.name=.",
    }
    assert not_asked_for(composed("only=[relations]")) == []  # which needs none
    for asked in (["only=[glue,fine_tuning]"], []):
        assert ("encoder", "fine_tuning") in steps(composed(*asked))
        assert not_asked_for(composed(*asked)) == []
    assert not_asked_for(composed("only=[glue]", "tuned.name=null")) == []


def test_an_atlas_of_one_part_that_needs_a_fine_tuned_model_says_how_to_have_one(encoder, tmp_path):
    small = (*SMALL, f"encoder.name={encoder}", "shown={}", "only=[ablation]")
    with pytest.raises(
        InputError, match=r"nothing is left of the atlas: only=\[ablation\] does not name fine_tuning; add it"
    ):
        run_atlas(tmp_path, *small)
    assert not (tmp_path / "fine_tuning").exists()


def test_a_misspelt_part_is_a_sentence_on_the_command_line(tmp_path):
    status, _, errors = train("experiment=atlas", "parts.glu.overrides=[]", f"run_dir={tmp_path}")
    assert (status, "Traceback" in errors) == (2, False)
    assert "parts.glu.overrides: no such key; did you mean" in errors


def test_overrides_of_all_parts_are_passed_on():
    def kept(*given):
        GlobalHydra.instance().clear()
        with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
            cfg = compose("train", ["experiment=atlas", "run_dir=x", *given], return_hydra_config=True)
            HydraConfig.instance().set_config(cfg)
        try:
            return handed_on(cfg)
        finally:
            HydraConfig.instance().cfg = None

    given = ["data.limit=5", "tuned.name=null", "encoder=bert_base", "seed=3", "data_of.glue=x", "resume=true"]
    assert kept(*given) == ["data.limit=5", "encoder=bert_base", "seed=3"]
    with pytest.raises(ConfigError, match=r"parts.<part>.overrides=\['module.lr=2'\]"):
        kept("module.lr=2")
    with pytest.raises(ConfigError, match="^data.test: an atlas has several parts, each with its own; data_of"):
        kept("data.test=x")


def test_all_keys_that_every_kind_of_data_takes_are_handed_on():
    rules = OmegaConf.load(PROJECT / "conf" / "experiment" / "atlas.yaml").handed_on
    shared = OmegaConf.load(PROJECT / "conf" / "data" / "_shared.yaml")
    assert {key.removeprefix("data.") for key in rules if key.startswith("data.")} == set(shared) - {"encoder"}
