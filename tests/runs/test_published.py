"""Every published figure stands beside something: a key of `published` that no metric and no row answers is a mistake."""

import shutil

import pytest
from omegaconf import OmegaConf
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification

from headscope.analysis.roles.heads import TUNED as OF_SECOND
from headscope.analysis.roles.tasks import METRICS
from headscope.contracts import ChildRun, Source
from headscope.layout import Layout
from headscope.published import FINE_TUNED, STATES, figures_beside, why_not_beside
from headscope.runs.tables import ONE_EACH, in_common, name_of_all
from tests.conftest import TINY
from tests.runs.conftest import PROJECT, composed

EVERY = {file.stem: OmegaConf.load(file) for file in sorted((PROJECT / "conf" / "experiment").glob("*.yaml"))}
FILES = {name: cfg for name, cfg in EVERY.items() if not name.startswith("_")}
NOT_FIGURES = ("source", "state", "tables")
NAMES = """acl acomp advcl advmod amod appos aux aux:pass auxpass case cc ccomp compound compound:prt conj cop csubj dep det
discourse dobj expl fixed flat iobj list mark mwe neg nmod nmod:poss nn npadvmod nsubj nsubj:pass nsubjpass num number nummod
obj obl parataxis pcomp pobj poss possessive preconj predet prep prt quantmod rcmod tmod vocative xcomp"""
RELATIONS = tuple(NAMES.split())  # of Universal Dependencies and of Stanford's
SHORT = ("~figures", "stages=[test]")
# What makes a run of each experiment short, and offline.
OVERRIDES = {
    "kovaleva_glue": ("data.limit=6", "start=untrained"),
    "kovaleva_disable_layers": ("data.limit=6", "data.task=rte"),  # of which the paper tells what a layer gains
    "pande_sieves": ("data.limit=8", "analyses.roles.permutations=2"),
    "pattern_fold": ("data.synthetic=10",),
    "structural_probe": ("data.hidden_layer=2",),
}


def figures(published):
    """Those of metrics and, for each table, those of its rows, as far as there are any."""
    tables = (published.get("tables") or {}).items()
    return known({key: value for key, value in published.items() if key not in NOT_FIGURES}), {
        name: known(rows) for name, rows in tables
    }


def known(cells):
    return {key: value for key, value in cells.items() if value is not None}


def published_of(experiment):
    return OmegaConf.to_container(composed(f"experiment={experiment}").published, resolve=True)


def chain(name):
    """The file of an experiment and those that it begins with; told from the files, without composing them."""
    parents = [one for one in EVERY[name].get("defaults") or () if isinstance(one, str) and one in EVERY]
    return [name, *(one for parent in parents for one in chain(parent))]


def says_figures(name):
    keys = [key for one in chain(name) for key in EVERY[one].get("published") or {}]
    return any(key.startswith("test/") or key == "tables" for key in keys)


def is_table(name):
    """Whether an experiment is always several runs; those of tasks are one run each where no tasks are named."""
    files = [EVERY[one] for one in chain(name)]
    return any(cfg.get("rows") for cfg in files) and not (
        "_tasks" in chain(name) and all(cfg.get("tasks") is None for cfg in files)
    )


def runs_of_figures():
    """The experiments that say figures and are one run each."""
    return [name for name in FILES if says_figures(name) and not is_table(name)]


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


def classifier(folder, tokenizer_of):
    """A tiny one of two labels, as fine-tuning leaves it."""
    BertForSequenceClassification(BertConfig(**TINY)).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_of / file, folder)
    return folder


def own_data(experiment, folder, encoder):
    """What an experiment is run on, so that all rows occur that it can have."""
    overrides = [*SHORT, *OVERRIDES.get(experiment, ("data.limit=6",))]
    if experiment == "clark_relations":
        file = treebank(folder / "both.conllu", RELATIONS)
        overrides = [*SHORT, f"data.test={file}", "analyses.relations.min_count=1", "analyses.relations.replicates=20"]
    if experiment in ("kovaleva_patterns_task", "pande_sieves"):
        overrides.append(f"tuned.name={classifier(folder / 'tuned', encoder)}")  # whose figure it is
    if experiment.startswith("kovaleva_disable"):
        encoder = classifier(folder / "tuned", encoder)
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
    assert metrics or any(tables.values())
    assert set(metrics) <= set(results["metrics"])
    assert known({row["metric"]: row["published"] for row in results["tables"]["summary"]}) == metrics
    assert set(tables) <= set(results["tables"])
    for name, rows in tables.items():
        assert known({next(iter(row.values())): row["published"] for row in results["tables"][name]}) == rows, name
    assert not beside_the_other_model(results["provenance"], metrics, tables)


def beside_the_other_model(provenance, metrics, tables):
    """The figures that a run of two models shows beside the one that they are not of; of one model, those of a second."""
    state = provenance["config"]["published"]["state"]
    second = provenance["tuned_encoder"] is not None
    of_second = {name for name in metrics if name.removeprefix("test/").startswith(OF_SECOND)}
    if second and state == FINE_TUNED:  # rows of a table do not say of which model they are
        return {*metrics} - of_second | {*tables}
    return of_second


@pytest.mark.parametrize(
    ("state", "second", "metrics", "tables", "wrong"),
    [
        ("fine-tuned", True, ["test/tuned_x"], [], set()),
        ("fine-tuned", True, ["test/tuned_x", "test/x"], [], {"test/x"}),
        ("fine-tuned", True, [], ["gains"], {"gains"}),
        ("fine-tuned", False, ["test/x"], ["gains"], set()),
        ("pre-trained", True, ["test/tuned_x", "test/x"], ["gains"], {"test/tuned_x"}),
        ("pre-trained", False, ["test/x"], ["checks"], set()),
    ],
)
def test_a_figure_beside_the_other_model_of_a_run_is_found(state, second, metrics, tables, wrong):
    provenance = {"config": {"published": {"state": state}}, "tuned_encoder": {"name": "second"} if second else None}
    assert beside_the_other_model(provenance, metrics, tables) == wrong


@pytest.mark.parametrize("experiment", [name for name in FILES if is_table(name)])
def test_what_a_table_says_of_its_rows_is_said_by_experiments_whose_figures_are_walked_over(experiment):
    rows = [row.experiment for one in chain(experiment) for row in (EVERY[one].get("rows") or {}).values()]
    assert rows
    assert {row for row in rows if says_figures(row)} <= set(runs_of_figures())


def test_the_published_means_over_tasks_are_beside_metrics_of_the_summary():
    assert set(EVERY["pande_sieves"].means_over_tasks) <= set(METRICS)


def test_every_experiment_with_figures_is_walked_over():
    """By name, so that a change of how they are found loses none."""
    assert {name for name in FILES if says_figures(name)} == {
        "clark_all_surface", "clark_clusters", "clark_coreference", "clark_gradients", "clark_probe_attention",
        "clark_probe_distances", "clark_probe_random", "clark_probe_right_branching", "clark_probe_words",
        "clark_relations", "clark_surface", "kovaleva_disable_heads", "kovaleva_disable_layers", "kovaleva_glue",
        "kovaleva_patterns", "kovaleva_patterns_task", "pande_sieves", "pattern_cnn", "pattern_fold",
        "pattern_variants", "structural_probe",
    }  # fmt: skip


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


BEFORE, TUNED = {"init": "pretrained"}, {"init": "pretrained", "fine_tuned": True}
RANDOM, CHANGED = {"init": "normal"}, {"init": "pretrained", "change": "mrpc.safetensors"}
FROM_RANDOM = TUNED | {"trained_from": "normal"}


@pytest.mark.parametrize(
    ("state", "encoder", "tuned", "same"),
    [
        ("pre-trained", BEFORE, None, True),
        ("pre-trained", RANDOM, None, False),
        ("pre-trained", CHANGED, None, False),
        ("pre-trained", TUNED, None, False),
        ("random but for its embeddings", {"init": "embeddings"}, None, True),
        ("random but for its embeddings", BEFORE, None, False),
        ("fine-tuned", TUNED, None, True),
        ("fine-tuned", CHANGED, None, True),
        ("fine-tuned", BEFORE, None, False),
        ("fine-tuned", FROM_RANDOM, None, False),
        ("fine-tuned", BEFORE, TUNED, True),
        ("fine-tuned", BEFORE, CHANGED, True),
        ("fine-tuned", BEFORE, BEFORE, False),
        ("fine-tuned", BEFORE, FROM_RANDOM, False),
        ("fine-tuned", RANDOM, TUNED, False),
        ("fine-tuned", TUNED, TUNED, False),
        ("fine-tuned in this run", BEFORE, None, True),
        ("fine-tuned in this run", RANDOM, None, True),
        ("fine-tuned in this run", TUNED, None, False),
        ("any", RANDOM, None, True),
        (None, RANDOM, None, True),
        ("pre-trained", {"name": "maps of several"}, None, True),
    ],
)
def test_the_state_of_a_model(state, encoder, tuned, same):
    published, source = {"state": state, "test/x": 1, "tables": {"t": {}}}, Source(encoder, {}, {}, tuned_encoder=tuned)
    why = why_not_beside(published, source)
    assert (why is None) == same
    assert figures_beside(published, source) == (published if same else {"tables": {}})
    assert same or why.startswith(f"published figures are of another state of the model ({state}; ours is ")


@pytest.mark.parametrize(("state", "same"), [("pre-trained", False), ("fine-tuned", False), ("any", True)])
def test_what_is_published_of_bert_is_not_beside_a_decoder(state, same):
    source = Source(TUNED if state == "fine-tuned" else BEFORE, {}, {}, layout=Layout(causal=True).to_json())
    assert (why_not_beside({"state": state}, source) is None) == same
    assert same or "ours is a causal decoder, another kind of model" in why_not_beside({"state": state}, source)


@pytest.mark.parametrize("start", ["random", "fine-tuned"])
def test_no_published_figure_stands_beside_a_model_in_another_state(start, run_here, random_encoder, capsys, tmp_path):
    encoder = random_encoder("bert").folder
    own = ["encoder.init=normal"]
    if start == "fine-tuned":
        encoder, own = classifier(tmp_path / "tuned", encoder), []
    results, _ = run_here("experiment=clark_surface", f"encoder.name={encoder}", *own, "data.limit=3", "~figures")
    assert {row["published"] for row in results["tables"]["summary"]} == {None}
    assert not any("published" in row for row in results["tables"]["checks"])
    told = f"published figures are of another state of the model (pre-trained; ours is {start}): none stands beside ours"
    assert told in capsys.readouterr().out


def test_the_states_of_the_models_of_several_tasks_are_those_of_each():
    parts = [{"name": task, "sha256": task, **TUNED} for task in ("mrpc", "rte")]
    assert in_common(parts) == TUNED
    assert in_common([parts[0], {"name": "other", **BEFORE}]) == BEFORE


def test_runs_of_several_models_are_named_by_their_task_or_by_the_models():
    models = [{"name": "one, two"}, {"name": "two, three"}]
    parts = {value: ChildRun("row", value, None, []) for value in ("mrpc", 0, None)}
    assert name_of_all([parts["mrpc"], parts[None]], models) == ONE_EACH
    assert name_of_all([parts[0], parts[None]], models) == "one, two, three"
