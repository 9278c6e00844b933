"""Every published figure stands beside something: a key of `published` that no metric and no row answers is a mistake."""

import shutil

import pytest
from omegaconf import OmegaConf
from transformers import BertConfig, BertForMaskedLM

from headscope.reports.evidence import STATES, of_the_same_state
from tests.conftest import TINY
from tests.runs.conftest import PROJECT, composed

FILES = {file.stem: OmegaConf.load(file) for file in sorted((PROJECT / "conf" / "experiment").glob("[!_]*.yaml"))}
NOT_FIGURES = ("source", "state", "tables")
NAMES = """acl acomp advcl advmod amod appos aux aux:pass auxpass case cc ccomp compound compound:prt conj cop csubj dep det
discourse dobj expl fixed flat iobj list mark mwe neg nmod nmod:poss nn npadvmod nsubj nsubj:pass nsubjpass num number nummod
obj obl parataxis pcomp pobj poss possessive preconj predet prep prt quantmod rcmod tmod vocative xcomp"""
RELATIONS = tuple(NAMES.split())  # of Universal Dependencies and of Stanford's
SHORT = ("~figures", "stages=[test]")
# What makes a run of each experiment short, and offline.
OVERRIDES = {
    "kovaleva_glue": ("data.limit=6", "start=untrained"),
    "pande_sieves": ("data=treebank_tokens", "data.limit=8"),
    "pattern_fold": ("data.synthetic=10",),
    "structural_probe": ("data.hidden_layer=2",),
}


def figures(published):
    """The keys of metrics and, for each table, those of its rows, of the figures that there are."""
    metrics = [key for key, value in published.items() if key not in NOT_FIGURES and value is not None]
    return metrics, {name: list(rows) for name, rows in (published.get("tables") or {}).items()}


def published_of(experiment):
    return OmegaConf.to_container(composed(f"experiment={experiment}").published, resolve=True)


def runs_of_figures():
    """The experiments that say figures of their own and are one run each; told from their files, without composing them."""
    said = {name: cfg.get("published") or {} for name, cfg in FILES.items() if not cfg.get("rows")}
    return [name for name, published in said.items() if any(key.startswith("test/") or key == "tables" for key in published)]


def with_(key):
    """The experiments whose own file has a key."""
    return [name for name, cfg in FILES.items() if cfg.get(key)]


def treebank(file, relations):
    """A sentence for each relation, which its first word has; the second word is the root."""
    rows = [
        f"1\tone\t_\tNOUN\t_\t_\t2\t{relation}\t_\t_\n2\ttwo\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n" for relation in relations
    ]
    file.write_text("".join(rows))
    return file


def masked_language_model(folder, tokenizer_of):
    """A tiny one of five layers, from which on the paper says something of gradients."""
    BertForMaskedLM(BertConfig(**TINY | {"num_hidden_layers": 5})).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_of / file, folder)
    return folder


def own_data(experiment, folder, encoder):
    """What an experiment is run on, so that all rows occur that it can have."""
    overrides = [*SHORT, *OVERRIDES.get(experiment, ("data.limit=6",))]
    if experiment == "clark_relations":
        file = treebank(folder / "both.conllu", RELATIONS)
        overrides = [*SHORT, f"data.test={file}", "analyses.relations.min_count=1", "analyses.relations.replicates=20"]
    if experiment == "kovaleva_patterns_task":
        overrides.append(f"tuned.name={encoder}")  # whose figure it is
    if experiment == "clark_gradients":
        encoder = masked_language_model(folder / "mlm", encoder)
    return overrides if experiment == "pattern_fold" else [*overrides, f"encoder.name={encoder}"]


def slow_if(name):
    """The classifier of patterns takes longer than all others together."""
    return pytest.param(name, marks=pytest.mark.slow) if name == "pattern_fold" else name


@pytest.mark.parametrize("experiment", map(slow_if, runs_of_figures()))
def test_every_published_figure_has_a_metric_or_a_row(experiment, run_here, random_encoder, tmp_path):
    encoder = random_encoder("bert").folder
    results, _ = run_here(f"experiment={experiment}", *own_data(experiment, tmp_path, encoder))
    metrics, tables = figures(results["provenance"]["config"]["published"])
    assert set(metrics) <= set(results["metrics"])
    assert set(tables) <= set(results["tables"])
    for name, rows in tables.items():
        assert set(rows) <= {next(iter(row.values())) for row in results["tables"][name]}, name


@pytest.mark.parametrize("experiment", with_("rows"))
def test_every_row_of_a_table_has_the_figure_of_its_experiment(experiment):
    """A row without one says so: published: null."""
    for row in composed(f"experiment={experiment}").rows.values():
        if "metric" in row and "published" not in row:
            child = composed(f"experiment={row.experiment}", *(row.get("overrides") or ())).published
            assert row.metric in child


@pytest.mark.parametrize("experiment", with_("published"))
def test_published_figures_say_which_state_of_the_model_they_are_of(experiment):
    assert published_of(experiment)["state"] in STATES


@pytest.mark.parametrize(
    ("state", "encoder", "same"),
    [
        ("pre-trained", {"init": "pretrained"}, True),
        ("pre-trained", {"init": "normal"}, False),
        ("pre-trained", {"init": "pretrained", "change": "mrpc.safetensors"}, False),
        ("random but for its embeddings", {"init": "embeddings"}, True),
        ("random but for its embeddings", {"init": "pretrained"}, False),
        ("fine-tuned", {"init": "normal"}, True),
        (None, {"init": "normal"}, True),
    ],
)
def test_the_state_of_a_model(state, encoder, same):
    assert of_the_same_state({"state": state}, encoder) == same


def test_no_published_figure_stands_beside_a_model_in_another_state(run_here, random_encoder, capsys):
    random = ("encoder.init=normal", "data.limit=3", "~figures")
    results, _ = run_here("experiment=clark_surface", f"encoder.name={random_encoder('bert').folder}", *random)
    assert {row["published"] for row in results["tables"]["summary"]} == {None}
    assert not any("published" in row for row in results["tables"]["checks"])
    assert "published figures are of another state of the model (pre-trained)" in capsys.readouterr().out
