"""The self-check on a model's first load: what it says, what it keeps, and what it refuses."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import AttentionInterface, AutoConfig, AutoModel

from headscope.data_modules.encoders import self_check
from headscope.data_modules.encoders.attention import streamed_attention
from headscope.data_modules.encoders.families import small_model
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.layout import ModelTraits
from headscope.data_modules.encoders.self_check import check, tiny_batch
from headscope.data_modules.segments import SegmentDataModule
from headscope.errors import InputError


@pytest.fixture
def saved(tmp_path, minilm):
    """Saves a small model of a family with MiniLM's tokenizer; gives the folder."""

    def save(family, model=None):
        folder = tmp_path / family
        (model or small_model(family)).save_pretrained(folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(minilm.folder / file, folder)
        return str(folder)

    return save


def test_the_verdict_is_kept_by_checksum(saved, monkeypatch):
    calls = []
    monkeypatch.setattr(self_check, "check", lambda *given: calls.append(1) or check(*given))
    folder = saved("bert")
    for _ in range(2):
        FrozenEncoder(folder).load()
    assert len(calls) == 1
    FrozenEncoder(folder, dtype="bfloat16").load()
    assert len(calls) == 2
    record = json.loads((Path(os.environ["HEADSCOPE_CACHE"]) / "conformance.json").read_text())
    assert {one["kind"] for one in record.values()} >= {"streamed"}
    (Path(os.environ["HEADSCOPE_CACHE"]) / "conformance.json").write_text("[")
    FrozenEncoder(folder).load()  # a damaged record is started anew
    assert len(calls) == 3


def test_a_function_that_is_not_the_models_own_is_found_out(monkeypatch):
    """Without the softcap, or without the sinks, streamed maps are wrong by far; the check says so."""
    for family, dropped in (("gemma2", "softcap"), ("gpt_oss", "s_aux")):
        model = small_model(family)
        assert check(model, 2, 4).kind == "streamed"

        def without(*given, name=dropped, **options):
            return streamed_attention(*given, **{**options, name: None})

        monkeypatch.setitem(AttentionInterface._global_mapping, "headscope", without)
        verdict = check(model, 2, 4)
        assert verdict.kind != "streamed"
        assert "streamed maps differ by" in verdict.why or "do not sum to one" in verdict.why
        monkeypatch.setitem(AttentionInterface._global_mapping, "headscope", streamed_attention)


def test_an_unknown_keyword_is_refused_by_name_and_the_models_own_maps_are_taken():
    tensor = torch.zeros(1, 4, 3, 8)
    with pytest.raises(InputError, match=r"^Linear: gives its attention indices=, which is not known here"):
        streamed_attention(torch.nn.Linear(1, 1), tensor, tensor, tensor, None, indices=torch.zeros(1))
    streamed_attention(torch.nn.Linear(1, 1), tensor, tensor, tensor, None, indices=None, sliding_window=4)
    verdict = check(small_model("deepseek_v32"), 2, 4)
    assert verdict.kind == "own maps"
    assert "indices=" in verdict.why


def test_a_model_that_looks_where_its_family_is_not_known_to_look_is_refused(saved, monkeypatch):
    whole = "its maps look at later tokens, though its family is known as a causal one"
    past = "its maps look at no later token, though its family is known as no causal one"
    for family, known, sentence in (("bert", True, whole), ("llama", False, past)):
        traits = ModelTraits(causal=known, segments=False)
        monkeypatch.setattr(FrozenEncoder, "_traits", lambda _, traits=traits: traits)
        folder = saved(family)
        with pytest.raises(InputError, match=f"^{folder}: {sentence}, so what a query may see is not known; name another"):
            FrozenEncoder(folder).load()


def test_what_padding_attends_to_is_no_reason_to_compare_nothing(monkeypatch):
    """Rows of padding are NaN where a model forbids them every key; those of real tokens are compared all the same."""
    model = small_model("gemma2")
    run, real = type(model).forward, tiny_batch(model.config)["attention_mask"].bool()

    def forward(*given, **options):
        output = run(*given, **options)
        for layer in output.attentions or ():
            layer.transpose(1, 2)[~real] = float("nan")
        return output

    monkeypatch.setattr(type(model), "forward", forward)
    assert check(model, 2, 4).maps < 1e-5
    without = partial(streamed_attention, softcap=None)
    monkeypatch.setitem(
        AttentionInterface._global_mapping, "headscope", lambda *given, softcap=None, **others: without(*given, **others)
    )
    assert check(model, 2, 4).kind != "streamed"


def test_sinks_take_a_share_of_every_row_as_in_the_models_own_maps():
    model, maps = small_model("gpt_oss"), []
    inputs = tiny_batch(model.config)
    own = model(**inputs, output_attentions=True).attentions
    maps, _ = self_check.run_streamed(model, inputs)
    real = inputs["attention_mask"].bool()
    for one, two in zip(maps, own, strict=True):
        torch.testing.assert_close(one.transpose(1, 2)[real], two.transpose(1, 2)[real], atol=1e-5, rtol=0)
        assert float(one.sum(-1).transpose(1, 2)[real].max()) < 0.999


@pytest.mark.parametrize("family", ["t5", "bart", "marian"])
def test_the_encoder_of_an_encoder_decoder(family, saved, minilm):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from headscope.data_modules.encoders.families import model_class, small_config

    torch.manual_seed(0)
    whole = model_class(family)(small_config(CONFIG_MAPPING[family], vocab_size=30522)).eval()
    encoder = FrozenEncoder(saved(family, whole))
    inputs, maps = tiny_batch(whole.config), []
    encoder(**inputs, sink=maps.append)
    whole.set_attn_implementation("eager")
    with torch.no_grad():
        own = whole.get_encoder()(**inputs, output_attentions=True).attentions
    assert (len(maps), encoder.heads) == (2, 4)
    for one, two in zip(maps, own, strict=True):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("family", "sentence"),
    [
        ("mamba", "mamba is no model with layers of attention heads"),
        ("vit", "vit reads pixel_values, not text; name a model of text"),
        ("fnet", "fnet is no model with layers of attention heads|its own attention gives maps of 0 layers, expected"),
        ("longformer", r"its own maps are \(2, 4, 9, 513\), expected"),
    ],
)
def test_a_model_without_maps_is_refused_in_a_sentence(family, sentence, tmp_path, minilm):
    from headscope.data_modules.encoders.families import SMALL

    default = AutoConfig.for_model(family)
    config = AutoConfig.for_model(family, **{key: value for key, value in SMALL.items() if hasattr(default, key)})
    AutoModel.from_config(config).save_pretrained(tmp_path / family)
    with pytest.raises(InputError, match=sentence):
        FrozenEncoder(str(tmp_path / family)).load()


@pytest.mark.parametrize("cache", [False, True])
def test_a_model_whose_maps_cannot_be_had_is_refused_before_any_text_is_cut(cache, saved, monkeypatch, capfd):
    """Parsing and word vectors come with that, and take long."""
    folder = saved("longformer")
    monkeypatch.setattr(SegmentDataModule, "tokenise", lambda *_: pytest.fail("was cut into tokens"))
    for _ in range(2):  # the second time it is remembered
        data = SegmentDataModule(encoder=FrozenEncoder(folder), limit=2, cache=cache)
        with pytest.raises(InputError, match="so its maps cannot be had; name another model"):
            data.require(["test"])
    assert "[transformers]" not in capfd.readouterr().err  # the sentence alone


def test_a_model_with_stored_maps_is_not_read_to_be_checked(saved, monkeypatch):
    folder = saved("bert")
    FrozenEncoder(folder).require_maps()
    monkeypatch.setattr(FrozenEncoder, "load", lambda _: pytest.fail("was read"))
    FrozenEncoder(folder).require_maps()
    with pytest.raises(pytest.fail.Exception, match="was read"):
        FrozenEncoder(folder, dtype="bfloat16").require_maps()
