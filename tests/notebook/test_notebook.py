"""The front door for notebooks, against what the command and the encoder itself give."""

import io
import logging
import os
import random
import re
import shutil
import warnings

import numpy as np
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from matplotlib.image import imread

import headscope as hs
from headscope.contracts import Provenance, RunResults
from headscope.errors import ConfigError, InputError
from headscope.notebook.runs import Picture, Run, as_overrides
from headscope.reports.atlas.html import atlas_html
from headscope.reports.figures.drawing import PNG_DPI, save
from tests.conftest import MINILM
from tests.reports.atlas_data import make_atlas
from tests.test_architecture import PROJECT, ROOMS

SMALL = ("~figures", "analyses.relations.replicates=10")


@pytest.fixture(scope="module")
def model():
    return hs.load(MINILM)


def test_maps_of_a_text_are_the_model_s_own(model):
    maps = model.maps("The cats sat.", "They slept.")
    assert maps.labels == ("[CLS]", "the", "cats", "sat", ".", "[SEP]", "they", "slept", ".", "[SEP]")
    whole = model.encoder.loaded()
    inputs = model.encoder.tokenizer()("The cats sat.", "They slept.", return_tensors="pt")
    before = whole.config._attn_implementation
    whole.set_attn_implementation("eager")
    try:
        expected = torch.stack(whole(**inputs, output_attentions=True).attentions)[:, 0]
    finally:
        whole.set_attn_implementation(before)
    torch.testing.assert_close(maps.values, expected, atol=1e-6, rtol=1e-5)
    frame = maps.head(2, 3)
    assert list(frame.columns) == list(maps.labels) and frame.iloc[1, 2] == pytest.approx(float(expected[1, 2, 1, 2]))
    assert maps.plot(2, 3).axes[0].get_title() == "head 2-3"


def test_figures_are_pictures_without_pyplot_or_a_backend(model, tmp_path, monkeypatch):
    monkeypatch.setattr("matplotlib.use", lambda *_: pytest.fail("a backend was forced"))
    picture = model.maps("The cats sat.").plot(1, 1)._repr_png_()
    assert imread(io.BytesIO(picture)).std() > 0
    code = [file for room in ROOMS for file in (PROJECT / room).rglob("*.py")]
    forced = re.compile(r"import pyplot|matplotlib\.pyplot|matplotlib\.use\(|switch_backend")
    assert not [file for file in code if forced.search(file.read_text(encoding="utf-8"))]
    save(model.maps("The cats sat.").plot(1, 1), tmp_path, "drawn")
    content, size = Picture(tmp_path / "drawn.svg")._repr_png_()
    assert content == (tmp_path / "drawn.png").read_bytes()
    assert size["width"] == round(imread(io.BytesIO(content)).shape[1] * 96 / PNG_DPI)


def test_an_atlas_is_shown_inline(browser_page, tmp_path):
    (tmp_path / "atlas.html").write_text(atlas_html(make_atlas()), encoding="utf-8")
    shown = Run(tmp_path, RunResults("atlas", {}, {}, Provenance({"name": "x"}, {}, {})))._repr_html_()
    browser_page.set_content(f"<!doctype html><body>{shown}</body>")
    inside = browser_page.frame_locator("iframe")
    inside.locator("html[data-ready]").wait_for()
    assert inside.locator("#title").inner_text() == "Atlas of MiniLM"
    inside.locator("nav [data-view=attention]").click()
    assert inside.locator("#view-attention .token-from").count() > 5


def test_word_maps_equal_a_plain_loop(model):
    words = ["Antidisestablishmentarianism", "is", "long"]
    maps = model.word_maps(words)
    assert maps.labels == ("[CLS]", *words, "[SEP]")
    torch.testing.assert_close(maps.values.sum(-1), torch.ones(maps.values.shape[:-1]), atol=1e-5, rtol=0)
    encoding = model.encoder.tokenizer()(words, is_split_into_words=True)
    tokens = model.maps(" ".join(words)).values
    groups = [
        [0],
        *([t for t, w in enumerate(encoding.word_ids()) if w == word] for word in range(3)),
        [tokens.shape[-1] - 1],
    ]
    for query, rows in enumerate(groups):
        for key, columns in enumerate(groups):
            expected = sum(tokens[1, 4, row, column] for row in rows for column in columns) / len(rows)
            assert float(maps.values[1, 4, query, key]) == pytest.approx(float(expected), abs=1e-5)


def test_special_tokens_and_root_are_a_choice(model):
    assert model.word_maps("Birds sing", specials=False).labels == ("Birds", "sing")
    assert model.word_maps("Birds sing", specials=False, root=True).labels == ("ROOT", "Birds", "sing")
    whole, part = model.word_maps("Birds sing"), model.word_maps("Birds sing", specials=False, root=True)
    torch.testing.assert_close(part.values, whole.values[:, :, :3, :3])


def test_a_disabled_head_attends_alike_and_comes_back(model):
    before = model.maps("Birds sing.").values
    with model.disabled([(2, 3)]) as without:
        inside = without.maps("Birds sing.").values
    torch.testing.assert_close(inside[1, 2], torch.full_like(inside[1, 2], 1 / inside.shape[-1]))
    assert not torch.allclose(inside[2], before[2])
    torch.testing.assert_close(model.maps("Birds sing.").values, before)


def test_a_run_gives_what_the_command_gives_and_leaves_no_trace(tmp_path, run_command):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    lightning = logging.getLogger("pytorch_lightning")
    before = dict(os.environ), list(warnings.filters), logging.root.manager.disable, lightning.level
    found = hs.run("clark_relations", *SMALL, data={"limit": 6}, run_dir=tmp_path / "here")
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected
    assert (dict(os.environ), list(warnings.filters), logging.root.manager.disable, lightning.level) == before
    assert not GlobalHydra.instance().is_initialized() and HydraConfig.instance().cfg is None
    run_command("experiment=clark_relations", *SMALL, "data.limit=6", f"run_dir={tmp_path}/there")
    assert (tmp_path / "here" / "heads.csv").read_bytes() == (tmp_path / "there" / "heads.csv").read_bytes()
    again = hs.open(tmp_path / "there")
    assert again.metrics == found.metrics
    assert found.table("relation_heads")["relation"][0] == "all"
    grid = found.grid("relation:all:dependent_to_head")
    rows = found.heads().query("quantity == 'relation:all:dependent_to_head'")
    assert grid.loc[2, 3] == rows[(rows["layer"] == 2) & (rows["head"] == 3)]["value"].item()
    assert "clark_relations" in found._repr_html_()


def test_a_run_without_a_folder_gets_one_of_its_own_and_figures_come_in_the_order_of_drawing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = hs.run("clark_relations", data={"limit": 6}, analyses={"relations": {"min_count": 1}})
    assert found.folder.parent == tmp_path / "outputs" / "clark_relations"
    assert found.figures()[0] == "relation_heads" == found.plot().file.stem
    assert sorted(found.figures()) == sorted(file.stem for file in (found.folder / "figures").glob("*.svg"))


@pytest.mark.parametrize(
    ("experiment", "keys", "sentence"),
    [
        ("clark_relation", {}, "experiment=clark_relation: no such experiment; did you mean clark_relations"),
        ("clark_relations", {"data": {"limt": 3}}, "data.limt: no such key; did you mean data.limit"),
        ("clark_relations", {"data": {"limit": "many"}}, "data.limit=many: expected a whole number"),
        ("clark_relations", {"data": "none.conllu"}, "none.conllu: no such file"),
    ],
)
def test_a_mistake_in_a_run_is_told_as_on_the_command_line(experiment, keys, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        hs.run(experiment, **keys)
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)


@pytest.fixture
def run_command():
    from tests.commands import train

    def run(*arguments):
        status, _, errors = train(*arguments)
        assert status == 0, errors

    return run


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("encoder", "bert_base", ["encoder=bert_base"]),
        ("encoder", "/some/model", ["encoder.name='/some/model'"]),
        ("data", {"test": "a b.txt", "limit": 3}, ["data.test='a b.txt'", "data.limit=3"]),
        ("tasks", ["mrpc", "rte"], ["tasks=['mrpc','rte']"]),
        ("resume", True, ["resume=true"]),
        ("seed", None, ["seed=null"]),
        ("sentences", ["It's {odd}."], [r"sentences=['It\'s {odd}.']"]),
    ],
)
def test_keys_of_python_are_those_of_the_command(key, value, expected):
    assert as_overrides(key, value) == expected


def test_mistakes_are_one_sentence(model, tmp_path):
    with pytest.raises(ConfigError, match="expected 1-1 to 6-12"):
        model.maps("Birds sing.").head(7, 1)
    with pytest.raises(InputError, match="more than the model reads"):
        model.maps("word " * 600)
    for text in ("", " \n", None, ["Birds", "sing"]):
        with pytest.raises(InputError, match="^maps: .*expected a"):
            model.maps(text)
    with pytest.raises(InputError, match="expected at least one word"):
        model.maps("Birds sing.", "")
    for words, said in (([], "at least one word"), (None, "found None"), (["a", 2], "found 2"), ([["a"]], "found ")):
        with pytest.raises(InputError, match=said):
            model.word_maps(words)
    with pytest.raises(InputError, match="no piece for ' ', word 2"):
        model.word_maps(["a", " ", "b"])
    for heads in ((3, 6), ["3-6"]):
        with pytest.raises(ConfigError, match="expected heads as"), model.disabled(heads):
            pass
    with pytest.raises(ConfigError, match="colour: no such option; there are revision"):
        hs.load("a/model", colour="red")
    with pytest.raises(ConfigError, match="empty name"):
        hs.load("")
    with pytest.raises(InputError, match="no finished run there"):
        hs.open(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hs.nothing
    shutil.rmtree(tmp_path)
