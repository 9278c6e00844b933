"""A head that is trained on a frozen encoder: what it leaves, what it beats, and what is refused."""

import math
from collections import Counter

import pytest
import pytorch_lightning as pl
import torch
from transformers import AutoModelForMaskedLM

from headscope.data_modules.batches.batch import IGNORE
from headscope.data_modules.language import LanguageDataModule
from headscope.errors import ConfigError, InputError
from headscope.finetune.glue_classifier import SaveModel
from headscope.finetune.mlm_head import BANDS, MaskedHead, head_logits, load_without_head


@pytest.fixture
def text(random_encoder):
    def make(arch="bert", **options):
        given = {"objective": "masked", "held_out_share": 0.3, "limit": 12, "max_pieces": 32, "maps": False}
        return LanguageDataModule(encoder=random_encoder(arch), batch_size=6, **given | options)

    return make


def trained(data, epochs, callbacks=(), lr=5e-3, **options):
    module = MaskedHead(data.facts(), lr=lr, **options)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=epochs, num_sanity_val_steps=0, callbacks=list(callbacks), **quiet)
    trainer.fit(module, datamodule=data)
    (scores,) = trainer.test(module, datamodule=data, verbose=False)
    return module, scores


@pytest.mark.parametrize("mask_embedding", ["average", "kept"])
def test_the_folder_is_a_plain_model_with_the_encoders_weights_and_the_scores_are_its_own(text, tmp_path, mask_embedding):
    data = text()
    before = {name: weights.clone() for name, weights in data.encoder.load().model.state_dict().items()}
    module, scores = trained(data, 2, [SaveModel(str(tmp_path / "model"))], mask_embedding=mask_embedding)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "model").eval()
    after = model.bert.state_dict()
    table, mask = "embeddings.word_embeddings.weight", data.encoder.tokenizer().mask_token_id
    changed = (before[table] != after[table]).any(1).nonzero().flatten().tolist()
    assert changed == ([mask] if mask_embedding == "average" else [])
    assert len(module.findings().notes.get("epochs", [])) == len(changed)
    after[table] = torch.where((torch.arange(len(after[table])) == mask)[:, None], before[table], after[table])
    assert all(torch.equal(weights, after[name]) for name, weights in before.items() if name in after)
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    splits, total, right, count, lost, common = data.read_splits(), 0.0, 0, 0, 0.0, 0
    bands = {}
    seen = Counter()
    for item in splits["train"].items:
        for token, label in zip(item.input_ids.tolist(), item.model_inputs["labels"].tolist(), strict=True):
            seen[token if label == IGNORE else label] += 1
    words, most = 30522, max(seen, key=seen.get)
    for item in splits["test"].items:
        ids, types = (torch.from_numpy(part).long()[None] for part in (item.input_ids, item.model_inputs["token_type_ids"]))
        with torch.no_grad():
            logits = model(input_ids=ids, token_type_ids=types).logits[0].double().log_softmax(-1)
        for place, label in enumerate(item.model_inputs["labels"].tolist()):
            if label != IGNORE:
                total, right, count = (
                    total - float(logits[place, label]),
                    right + int(logits[place].argmax() == label),
                    count + 1,
                )
                lost -= math.log((seen[label] + 1) / (sum(seen.values()) + words))
                common += label == most
                # Bands of ten times as many, by the digits of the count.
                bands.setdefault(len(str(seen[label])) if seen[label] else 0, []).append(float(-logits[place, label]))
    expected = {"loss": total / count, "accuracy": 100 * right / count, "unigram_loss": lost / count}
    expected["unigram_accuracy"] = 100 * common / count
    assert {f"test/{name}": value for name, value in expected.items()} == pytest.approx(scores, rel=1e-4)
    rows = module.findings().tables["frequencies"]
    assert [(row["times"], row["n"]) for row in rows] == [(BANDS[band], len(bands[band])) for band in sorted(bands)]
    assert [row["loss"] for row in rows] == pytest.approx(
        [sum(bands[band]) / len(bands[band]) for band in sorted(bands)], rel=1e-4
    )
    assert sum(row["n"] * row["unigram_loss"] for row in rows) == pytest.approx(lost, rel=1e-4)


@pytest.mark.parametrize("arch", ["bert", "roberta"])
def test_a_masked_token_is_read_as_an_average_word(text, arch):
    data = text(arch, limit=4)
    table = data.encoder.load().model.get_input_embeddings().weight.detach().double()
    module, _ = trained(data, 1, lr=1e-12)
    words = [
        word if label == IGNORE else label
        for item in data.read_splits()["train"].items
        for word, label in zip(item.input_ids.tolist(), item.model_inputs["labels"].tolist(), strict=True)
    ]
    total, length = torch.zeros(table.shape[1], dtype=torch.float64), 0.0
    for word in words:
        total, length = total + table[word], length + float(table[word].norm())
    mask = data.encoder.tokenizer().mask_token_id
    found = module.model.get_input_embeddings().weight[mask].detach().double()
    torch.testing.assert_close(found, total / total.norm() * length / len(words), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_a_head_learns_the_masked_words_by_heart(text):
    data = text(limit=4)
    data.read_examples()["test"] = data.read_examples()["val"] = data.read_examples()["train"]
    _, scores = trained(data, 80, lr=3e-2)
    assert scores["test/accuracy"] > 2 * scores["test/unigram_accuracy"]
    assert scores["test/loss"] < scores["test/unigram_loss"] / 2


def test_a_head_begins_with_the_frequencies_of_the_words(text):
    data = text(limit=4)
    module, _ = trained(data, 1, lr=1e-12)
    counts = torch.ones(len(module.counts))
    for item in data.read_splits()["train"].items:
        for word, label in zip(item.input_ids.tolist(), item.model_inputs["labels"].tolist(), strict=True):
            counts[word if label == IGNORE else label] += 1
    torch.testing.assert_close(module.model.get_output_embeddings().bias.detach(), (counts / counts.sum()).log())


def test_the_losses_of_an_epoch_are_means_over_masked_tokens_and_outlive_the_best_checkpoint(text):
    data = text(limit=7)  # batches of six and one
    module, _ = trained(data, 2, lr=1e-12)  # which changes nothing, so that the losses are those of one model
    first, second = module.findings().tables["epochs"]
    for part, said in (("train", "training"), ("val", "validation")):
        lost = []
        for item in data.read_splits()[part].items:
            ids, types, labels = (
                torch.from_numpy(one).long()
                for one in (item.input_ids, item.model_inputs["token_type_ids"], item.model_inputs["labels"])
            )
            with torch.no_grad():
                chances = module.model(input_ids=ids[None], token_type_ids=types[None]).logits[0].log_softmax(-1)
            lost += [-float(chances[at, label]) for at, label in enumerate(labels.tolist()) if label != IGNORE]
        assert [first[said], second[said]] == pytest.approx([sum(lost) / len(lost)] * 2, rel=1e-4)
    assert first["frequencies alone"] == second["frequencies alone"] > 0
    module.on_load_checkpoint({"by_epoch": module.by_epoch[:1]})
    assert [row["epoch"] for row in module.findings().tables["epochs"]] == [1, 2]


def test_a_run_that_goes_on_counts_the_words_once(text):
    data = text(limit=4)
    module, _ = trained(data, 1)
    counts = module.counts.clone()
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    pl.Trainer(accelerator="cpu", max_epochs=1, limit_val_batches=0, **quiet).fit(module, datamodule=data)
    assert torch.equal(module.counts, counts)
    assert counts.sum() == sum(len(item.input_ids) for item in data.read_splits()["train"].items)


def test_a_text_that_is_masked_in_several_ways_counts_once(text):
    once, often = text(limit=3), text(limit=3, masks=3)
    (module, _), (other, _) = trained(once, 1), trained(often, 1)
    assert torch.equal(module.counts, other.counts)
    items = often.read_splits()["train"].items
    assert len(items) == 3 * len(once.read_splits()["train"].items)
    assert len({item.input_ids.tobytes() for item in items[::3]}) == 3  # of the same segment
    assert [len(often.read_splits()[part].items) for part in ("val", "test")] == [3, 3]


def test_an_input_without_masked_words_is_not_remembered(text, ready):
    """What a process gets that has none of its own: it takes part in the step, learns nothing, and keeps nothing."""
    data = ready(text(limit=4))
    module = MaskedHead(data.facts())
    batch = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    labels = batch.inputs["labels"].clone()
    batch.inputs["labels"] = torch.full_like(labels, IGNORE)
    loss = head_logits(module.model, module._kept_states(batch, "train")).sum()
    assert (float(loss), module.kept) == (0.0, {})
    loss.backward()
    learnt = [parameter for parameter in module.model.parameters() if parameter.requires_grad]
    assert learnt and all(parameter.grad is not None and not parameter.grad.any() for parameter in learnt)
    batch.inputs["labels"] = labels
    for _ in range(2):  # computed, then remembered
        assert torch.equal(module._kept_states(batch, "train"), module.states(batch))


@pytest.mark.parametrize("arch", ["bert", "roberta", "distilbert", "mpnet"])
def test_the_head_alone_says_what_the_whole_model_says(arch, random_encoder):
    model = load_without_head(random_encoder(arch).spec, 0)
    ids = torch.randint(1000, 2000, (2, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    with torch.no_grad():
        states = model.base_model(input_ids=ids, attention_mask=mask)[0]
        expected = model(input_ids=ids, attention_mask=mask).logits
        torch.testing.assert_close(head_logits(model, states[1]), expected[1], atol=1e-5, rtol=1e-5)
    learnt = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert learnt and not any(name.startswith(f"{model.base_model_prefix}.") for name in learnt)


def test_what_needs_no_head_or_cannot_have_one_is_refused(random_encoder, text, tmp_path):
    load_without_head(random_encoder("bert").spec, 0).save_pretrained(tmp_path / "has_one")
    with pytest.raises(InputError, match="has a trained masked-language-model head already"):
        load_without_head(random_encoder("bert").spec.at(str(tmp_path / "has_one")), 0)
    with pytest.raises(InputError, match="its architecture has no masked-language-model head"):
        load_without_head(random_encoder("llama").spec, 0)
    with pytest.raises(ConfigError, match="needs data=language with data.objective=masked"):
        MaskedHead(text(objective="causal").facts())
