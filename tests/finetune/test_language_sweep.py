"""The loss of tiny language models with each head disabled, against full passes and a plain loop over tokens."""

import math
import shutil

import pytest
import pytorch_lightning as pl
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.language import LanguageDataModule
from headscope.errors import ConfigError, InputError
from headscope.finetune.disable_sweep import DisableSweep
from headscope.finetune.head_mask import disabled
from headscope.finetune.sweep_scores import LanguageScore
from tests.conftest import OPTIONS, TINY

KINDS = {"masked": AutoModelForMaskedLM, "causal": AutoModelForCausalLM}


@pytest.fixture
def spoken(tmp_path, minilm):
    """Data with a tiny random language model that is saved with its head."""

    def make(arch, objective, opened=None, **options):
        folder = tmp_path / f"{arch}_{objective}"
        with torch.random.fork_rng():
            torch.manual_seed(1)
            config = AutoConfig.for_model(arch, **TINY | OPTIONS.get(arch, {}))
            KINDS[objective].from_config(config).save_pretrained(folder)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(minilm.folder / file, folder)
        defaults = {"limit": 5, "max_pieces": 24, "maps": False, "batch_tokens": 72}
        return LanguageDataModule(encoder=FrozenEncoder(str(folder)), objective=opened or objective, **defaults | options)

    return make


def swept(data, folder, **options):
    module = DisableSweep(data.facts(), str(folder), replicates=20, score=LanguageScore, **options)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    pl.Trainer(accelerator="cpu", **quiet).test(module, datamodule=data, verbose=False)
    return module.findings()


@torch.no_grad()
def plain_loss(data, objective, heads):
    """Nats per token, one input at a time and token by token."""
    model = KINDS[objective].from_pretrained(data.encoder.folder, attn_implementation="eager").eval()
    total, count = 0.0, 0
    for item in data.read_splits()["test"].items:
        labels = item.model_inputs["labels"].tolist()
        inputs = {"input_ids": item.input_ids, **item.model_inputs, "attention_mask": item.input_ids >= 0}
        inputs = {name: torch.from_numpy(part).long()[None] for name, part in inputs.items() if name != "labels"}
        with disabled(model, heads):
            logits = model(**inputs).logits[0].double()
        for place, label in enumerate(labels):
            if label == -100 or (objective == "causal" and place == 0):
                continue
            row = logits[place if objective == "masked" else place - 1]
            total -= float(row[label]) - math.log(float(row.exp().sum()))
            count += 1
    return total / count


@pytest.mark.parametrize(
    ("arch", "objective", "path"),
    [("bert", "masked", "fast"), ("mpnet", "masked", "from its layer on"), ("llama", "causal", "from its layer on")],
)
def test_every_change_of_the_loss_equals_a_plain_loop(spoken, tmp_path, arch, objective, path):
    data = spoken(arch, objective)
    found = swept(data, tmp_path / "sweep")
    facts, changes = found.tables["sweep"][0], found.heads["loss_without_head"].value
    baseline = plain_loss(data, objective, [])
    assert facts["baseline"] == pytest.approx(baseline, abs=1e-5)
    assert (facts["path"], facts["metric"]) == (path, "loss")
    for layer, head in ((1, 1), (3, 4)):
        expected = plain_loss(data, objective, [(layer, head)]) - baseline
        assert changes[layer - 1][head - 1] == pytest.approx(expected, abs=1e-5)
        assert abs(expected) > 1e-6
    rows = found.tables["disabled"]
    assert [row["change"] for row in rows] == sorted(row["change"] for row in rows)  # the best first: the loss falls most
    assert all(row["low"] <= row["change"] + 1e-9 and row["change"] <= row["high"] + 1e-9 for row in rows)
    again = swept(data, tmp_path / "sweep")  # from what was kept
    assert again.tables["disabled"] == rows


def test_importance_for_the_loss_equals_a_finite_difference(spoken, tmp_path):
    """The mean over inputs of |d loss / d gate|, by turning the rows of a value projection up and down."""
    data = spoken("bert", "masked")
    found = swept(data, tmp_path / "sweep").heads["loss_gradient_importance"].value
    model = AutoModelForMaskedLM.from_pretrained(data.encoder.folder).eval().double()

    @torch.no_grad()
    def losses(gate):
        value = model.bert.encoder.layer[1].attention.self.value
        weight, bias = value.weight.data.clone(), value.bias.data.clone()
        value.weight.data[16:24] *= gate
        value.bias.data[16:24] *= gate
        each = []
        for item in data.read_splits()["test"].items:
            inputs = {"input_ids": torch.from_numpy(item.input_ids).long()[None]}
            inputs["token_type_ids"] = torch.from_numpy(item.model_inputs["token_type_ids"]).long()[None]
            labels = torch.from_numpy(item.model_inputs["labels"]).long()
            each.append(torch.nn.functional.cross_entropy(model(**inputs).logits[0], labels))
        value.weight.data, value.bias.data = weight, bias
        return torch.stack(each)

    expected = ((losses(1.001) - losses(0.999)) / 0.002).abs().mean()
    assert found[1][2] == pytest.approx(float(expected), rel=1e-3)


def test_a_model_that_cannot_be_asked_is_refused(spoken, tmp_path, random_encoder, minilm):
    with pytest.raises(ConfigError, match=r"data.objective=causal: .* looks at the tokens that it would have to say"):
        swept(spoken("bert", "masked", opened="causal"), tmp_path / "one")
    headless = LanguageDataModule(encoder=random_encoder("bert"), limit=2, max_pieces=24, maps=False)
    with pytest.raises(InputError, match="has no trained masked language-model head; experiment=mlm_head trains one"):
        DisableSweep(headless.facts(), str(tmp_path / "two"), score=LanguageScore)


def test_a_decoder_is_not_asked_for_masked_tokens(spoken, monkeypatch):
    data = spoken("llama", "causal", opened="masked")
    tokenizer = data.encoder.tokenizer()
    tokenizer.mask_token = None
    monkeypatch.setattr(data.encoder, "tokenizer", lambda: tokenizer)
    with pytest.raises(InputError, match="its tokenizer has no mask token, so it is no masked language model"):
        data.require(["test"])
    data.objective = "auto"
    assert data.facts().objective == "causal"


def test_articles_are_held_out_whole(minilm):
    parts = {}
    for seed in (0, 1):
        data = LanguageDataModule(encoder=minilm, held_out_share=0.25, limit=None, maps=False, seed=seed)
        articles = data._parts()
        titles = [{article.title for article in part} for part in articles.values()]
        assert set.isdisjoint(titles[0], titles[1]) and set.isdisjoint(titles[0] | titles[1], titles[2])
        parts[seed] = titles[2]
    assert list(articles) == ["train", "val", "test"]
    with pytest.raises(ConfigError, match=r"data.held_out_share=1.0: expected a share between 0 and 1"):
        LanguageDataModule(encoder=minilm, held_out_share=1.0)
