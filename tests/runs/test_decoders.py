"""Experiments on causal models: they run, no number is NaN, labels are the model's own, and what cannot be is refused."""

import csv
import json
import re

import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import AutoModelForSequenceClassification, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.glue import GlueDataModule
from headscope.finetune.glue_classifier import GlueClassifier

SIZES = {
    "vocab_size": 30522,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "initializer_range": 0.15,
    "max_position_embeddings": 256,
}
FAST = ("trainer.max_epochs=1", "~figures", "logger=[]")
ON_DATA = {
    "clark_all_surface": ["data.limit=6"],
    "clark_relations": ["data.limit=30", "analyses.relations.min_count=5", "analyses.relations.replicates=5"],
    "clark_coreference": ["data.limit=6", "analyses.coreference.replicates=5"],
    "clark_probe_attention": ["data.limit=20"],
    "structural_probe": ["data.limit=20", "data.hidden_layer=1"],
    "pande_sieves": ["data=treebank_tokens", "data.limit=20", "analyses.roles.permutations=2"],
    "kovaleva_features": ["data=treebank_tokens", "data.limit=20"],
    "kovaleva_patterns_task": ["data.limit=3", "analyses.patterns.replicates=5"],
    "kovaleva_frames": ["analyses.frames.replicates=5"],
}
LONG = ("structural_probe", "kovaleva_patterns_task", "kovaleva_frames", "clark_coreference", "kovaleva_features")


@pytest.fixture(scope="session")
def decoder(tmp_path_factory, minilm):
    """Saves a tiny random Llama; its tokenizer sets <s> before every text, or nothing, and has no token for padding."""

    def save(first=True):
        folder = tmp_path_factory.mktemp("decoder")
        text = (minilm.folder / "tokenizer.json").read_text(encoding="utf-8")
        words = Tokenizer.from_str(text.replace('"[CLS]"', '"<s>"').replace('"[SEP]"', '"</s>"'))
        words.no_padding()
        words.no_truncation()
        words.post_processor = processors.TemplateProcessing(
            single="<s> $A" if first else "$A", pair="<s> $A <s> $B" if first else "$A $B", special_tokens=[("<s>", 101)]
        )
        names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "[UNK]"}
        PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=256, **names).save_pretrained(folder)
        with torch.random.fork_rng():
            torch.manual_seed(3)
            LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(folder)
        return str(folder)

    return save


def require_numbers(results, folder):
    """A walk over all that the run left: JSON without NaN, no text and no cell that says nan."""
    text = json.dumps(results, allow_nan=False)
    assert not re.search(r"\bnan\b", text.lower())
    assert json.loads((folder / "results.json").read_text())["metrics"] == results["metrics"]
    if (folder / "heads.csv").is_file():
        with (folder / "heads.csv").open() as stream:
            for row in csv.DictReader(stream):
                for column in ("value", "low", "high", "p"):
                    assert row[column] == "" or abs(float(row[column])) < 1e9
                assert row["value"] or row["n"] in ("", "0") or row["quantity"].startswith("sieve_effect")


@pytest.mark.parametrize(
    "experiment", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in ON_DATA]
)
def test_an_experiment_runs_on_a_decoder(experiment, run_here, decoder):
    results, folder = run_here(f"experiment={experiment}", f"encoder.name={decoder()}", *ON_DATA[experiment], *FAST)
    require_numbers(results, folder)
    assert results["provenance"]["layout"] == {"first": "<s>", "separator": "<s>", "causal": True, "padding": 102}
    words = json.dumps([results["tables"], results["quantities"], results.get("notes")])
    assert "[CLS]" not in words
    assert "[SEP]" not in words
    cells = [row.get("published") for rows in results["tables"].values() for row in rows]
    assert set(cells) <= {None}  # what is published is of BERT


def test_root_words_are_left_out_and_counted_without_a_first_token(run_here, decoder, caplog):
    name = decoder(first=False)
    results, folder = run_here("experiment=clark_probe_attention", f"encoder.name={name}", "data.limit=20", *FAST)
    require_numbers(results, folder)
    left_out = results["provenance"]["left_out"]
    assert [count for what, count in left_out.items() if what.startswith("root words")] == [60]  # one of each sentence
    assert results["metrics"]["test/uas"] == results["metrics"]["test/uas_without_root"]
    assert not any(row["relation"] == "root" for row in results["tables"]["relations"])
    assert "root words" in caplog.text


def test_a_masked_objective_is_refused_for_a_decoder(run_here, decoder):
    with pytest.raises(Exception, match=r"is a causal model \(llama\), which has no masked tokens to fill in; name an"):
        run_here("experiment=clark_gradients", "encoder=minilm", f"encoder.name={decoder()}", *FAST)


def test_a_classifier_reads_the_last_real_token(decoder, ready):
    """On a padded batch, the logits of each input are those that it has alone, where nothing is padded."""
    data = ready(GlueDataModule(encoder=FrozenEncoder(decoder()), task="mrpc", limit=6, maps=False))
    module = GlueClassifier(data.facts()).eval()
    (batch,) = [data.on_after_batch_transfer(host, 0) for host in data.test_dataloader()]
    lengths = batch.encoder_inputs["attention_mask"].sum(1).tolist()
    assert len(set(lengths)) > 1
    with torch.no_grad():
        found = module(batch)
        hidden = module.model.base_model(**batch.encoder_inputs).last_hidden_state
        for row, ids, length, states in zip(found, batch.encoder_inputs["input_ids"], lengths, hidden, strict=True):
            assert torch.allclose(row, module.model(input_ids=ids[None, :length]).logits[0], atol=1e-5)
            assert torch.allclose(row, module.model.score(states[length - 1]), atol=1e-5)


@pytest.mark.slow
def test_what_follows_fine_tuning_runs_on_a_decoder(run_here, decoder):
    name = decoder()
    results, folder = run_here("experiment=kovaleva_glue", f"encoder.name={name}", "data.limit=12", *FAST, name="tuned")
    require_numbers(results, folder)
    tuned = folder / "model"
    assert AutoModelForSequenceClassification.from_pretrained(tuned).config.pad_token_id == 102
    runs = {
        "kovaleva_drift": [f"encoder.name={name}", f"tuned.name={tuned}", "analyses.drift.replicates=5"],
        "kovaleva_disable_heads": [f"encoder.name={tuned}", "module.replicates=5"],
    }
    for experiment, options in runs.items():
        results, left = run_here(f"experiment={experiment}", *options, "data.limit=8", *FAST, name=experiment)
        require_numbers(results, left)
