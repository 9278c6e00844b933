"""From sentences to word maps: against loops over transformers' own attention, from the store, and in a fit."""

import hashlib
import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from transformers import AutoModel, AutoTokenizer

from headscope.data_modules.batches import map_store
from headscope.data_modules.batches.examples import BucketSampler
from headscope.data_modules.batches.word_vectors import load_vectors
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.readers.conllu import read_conllu
from headscope.data_modules.treebank import SAMPLE, TreebankDataModule
from headscope.errors import ConfigError, InputError

TEST = SAMPLE / "test.conllu"
HAND_MADE = [
    ("I", "\u200d", "love", "\ufe0f", "unbelievably", "\x07", "small", "otters", "."),
    ("\u2764\ufe0f", "\U0001f44d\U0001f3fd", "\U0001f469\u200d\U0001f52c", "antidisestablishmentarianism", ":-)"),
    ("\x07", "Begins", "and", "ends", "with", "none", "\u200d"),
]


@pytest.fixture
def treebank(tmp_path):
    """Writes sentences, each word the dependent of the one before, and gives the file."""

    def write(sentences, before=""):
        rows = [
            "".join(f"{place}\t{word}\t_\tX\t_\t_\t{place - 1}\tdep\t_\t_\n" for place, word in enumerate(words, start=1))
            for words in sentences
        ]
        file = tmp_path / "written.conllu"
        file.write_text(before + "\n".join(rows), encoding="utf-8")
        return str(file)

    return write


@pytest.fixture
def of_sample(tmp_path, ready):
    """A datamodule of the sample's first test sentences, ready, with its own folder for stored maps."""

    def make(encoder, **options):
        options = {"test": str(TEST), "limit": 8, "cache_dir": str(tmp_path / "cache")} | options
        return ready(TreebankDataModule(encoder=encoder, **options))

    return make


def arrays_of(data, name="maps"):
    """The array of every test sentence without its padding, which must be zero."""
    loader, found = data.test_dataloader(), {}
    for places, host_batch in zip(loader.batch_sampler, loader, strict=True):
        batch = data.on_after_batch_transfer(host_batch, 0)
        for row, place in enumerate(places):
            array, size = getattr(batch, name)[row].clone(), int(batch.mask[row].sum())
            real = (..., slice(size), slice(size)) if name == "maps" else slice(size)
            found[place] = array[real].clone()
            array[real] = 0
            assert not array.any()
    return [found[place] for place in range(len(found))]


def largest_difference(first, second):
    return max(float((a - b).abs().max()) for a, b in zip(first, second, strict=True))


class PlainReference:
    """Word maps the long way: eager attention on one sentence at a time, then loops over words and pieces."""

    def __init__(self, folder, dtype=torch.float32):
        self.model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def pieces(self, words):
        """Token ids with [CLS] and [SEP], and the tokens of ROOT and of each word."""
        ids, tokens_of = [self.tokenizer.cls_token_id], [[0]]
        for word in words:
            of_word = self.tokenizer.encode(word, add_special_tokens=False)
            tokens_of.append(list(range(len(ids), len(ids) + len(of_word))))
            ids += of_word
        return [*ids, self.tokenizer.sep_token_id], tokens_of

    def output(self, ids):
        with torch.no_grad():
            return self.model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)

    def maps(self, words, from_word="mean"):
        ids, tokens_of = self.pieces(words)
        token_maps = torch.cat(self.output(ids).attentions).permute(2, 3, 0, 1).double().contiguous().numpy()
        word_maps = np.zeros((len(tokens_of), len(tokens_of), *token_maps.shape[2:]))
        for source, queries in enumerate(tokens_of):
            queries = queries[:1] if from_word == "first" else queries
            for target, keys in enumerate(tokens_of):
                for query in queries:
                    for key in keys:
                        word_maps[source, target] += token_maps[query, key]
            word_maps[source] /= max(len(queries), 1)
        return torch.from_numpy(word_maps).permute(2, 3, 0, 1).float()

    def hidden(self, words, layer):
        ids, tokens_of = self.pieces(words)
        states = self.output(ids).hidden_states[layer][0]
        return torch.stack([states[tokens].mean(0) if tokens else torch.zeros(states.shape[1]) for tokens in tokens_of])


@pytest.mark.slow  # sentences that are written by hand are compared above
def test_word_maps_of_real_sentences_equal_a_plain_loop(shared, treebank, minilm, ready):
    """To 1e-6 in double precision; eager attention in float32 is itself 3e-6 off."""
    blocks = (shared / "data/ud_english_ewt/dev.conllu").read_text(encoding="utf-8").strip().split("\n\n")
    file = treebank(HAND_MADE, before="\n\n".join(blocks[::4][:500]) + "\n\n")
    precise = FrozenEncoder(minilm.name).load()
    precise.model.double()
    usual, in_double = (ready(TreebankDataModule(encoder=encoder, test=file)) for encoder in (minilm, precise))
    reference = PlainReference(minilm.folder, torch.float64)
    sentences = [item.example.words for item in usual.read_splits()["test"].items]
    assert len(sentences) == 503
    assert_varied(sentences, reference)
    expected = [reference.maps(words) for words in sentences]
    differences = {
        "float64": largest_difference(arrays_of(in_double), expected),
        "float32": largest_difference(arrays_of(usual), expected),
    }
    assert differences["float64"] <= 1e-6
    assert differences["float32"] <= 5e-6


def assert_varied(sentences, reference):
    words = [word for words in sentences for word in words]
    pieces = [reference.tokenizer.encode(word, add_special_tokens=False) for word in words]
    assert sum(len(of_word) > 1 for of_word in pieces) > 500
    assert sum(not of_word for of_word in pieces) >= 5
    assert {"\u2665", "\U0001f44d\U0001f3fd", ".", ",", "\u200d"} <= set(words)


@pytest.mark.parametrize("from_word", ["mean", "first"])
@pytest.mark.parametrize("arch", ["bert", "distilbert", "mpnet"])
def test_word_maps_of_other_models_equal_a_plain_loop(arch, from_word, random_encoder, treebank, ready):
    encoder = random_encoder(arch)
    data = ready(TreebankDataModule(encoder=encoder, test=treebank(HAND_MADE), from_word=from_word))
    reference = PlainReference(encoder.folder)
    expected = [reference.maps(words, from_word) for words in HAND_MADE]
    assert largest_difference(arrays_of(data), expected) <= 1e-6


def test_words_without_pieces_get_and_give_nothing(minilm, treebank, ready, caplog):
    data = ready(TreebankDataModule(encoder=minilm, test=treebank(HAND_MADE)))
    maps = arrays_of(data)[0]
    dropped, kept = [2, 4, 6], [0, 1, 3, 5, 7, 8, 9]
    assert maps[:, :, dropped].abs().max() == 0
    assert maps[:, :, :, dropped].abs().max() == 0
    assert maps[:, :, kept].sum(-1).min() > 0
    assert "test: 5 words have no piece in the vocabulary and get no attention." in caplog.messages
    assert data.source().words_without_pieces == {"test": 5}


@pytest.mark.parametrize("layer", [0, 3, 6])
def test_hidden_states_equal_the_mean_of_pieces(layer, minilm, treebank, ready):
    data = ready(TreebankDataModule(encoder=minilm, test=treebank(HAND_MADE), maps=False, hidden_layer=layer))
    reference = PlainReference(minilm.folder)
    expected = [reference.hidden(words, layer) for words in HAND_MADE]
    assert largest_difference(arrays_of(data, "hidden"), expected) <= 5e-6


def test_maps_and_hidden_states_together_equal_each_alone(random_encoder, of_sample):
    encoder = random_encoder("bert")
    both = of_sample(encoder, hidden_layer=2)
    assert largest_difference(arrays_of(both), arrays_of(of_sample(encoder))) <= 1e-6
    alone = of_sample(encoder, maps=False, hidden_layer=2)
    assert largest_difference(arrays_of(both, "hidden"), arrays_of(alone, "hidden")) <= 5e-6


@pytest.mark.parametrize(
    "budget", [{"batch_tokens": 1}, {"batch_tokens": 100}, {"batch_cells": 72 * 3000}, {"batch_tokens": 10**6}]
)
def test_budget_changes_maps_by_float_noise_only(budget, minilm, of_sample):
    usual, other = of_sample(minilm, limit=None), of_sample(minilm, limit=None, **budget)
    difference = largest_difference(arrays_of(usual), arrays_of(other))
    assert difference <= 1e-5


def test_training_batches_are_encoded_within_the_budget(random_encoder, ready):
    """Batches stay as the seed draws them; only the encoder's passes become smaller."""
    encoder, passes = random_encoder("bert").load(), []
    encoder.model.register_forward_pre_hook(lambda _, __, given: passes.append(given["input_ids"].shape), with_kwargs=True)
    large, small = (ready(TreebankDataModule(encoder=encoder, limit=40, batch_tokens=tokens)) for tokens in (2048, 60))
    for first, second in zip(large.train_dataloader(), small.train_dataloader(), strict=True):
        assert torch.equal(first["input_ids"], second["input_ids"])
        expected = large.on_after_batch_transfer(first, 0).maps
        passes.clear()
        torch.testing.assert_close(small.on_after_batch_transfer(second, 0).maps, expected, atol=1e-5, rtol=0)
        assert sum(examples for examples, _ in passes) == len(expected)
        assert all(examples == 1 or examples * tokens <= 60 for examples, tokens in passes)


def test_long_sentences_are_skipped_and_counted(minilm, ready, caplog):
    data = ready(TreebankDataModule(encoder=minilm, test=str(TEST), max_pieces=14))
    reference = PlainReference(minilm.folder)
    sentences = read_conllu([TEST])
    kept = [s.words for s in sentences if len(reference.pieces(s.words)[0]) <= 14]
    assert [item.example.words for item in data.read_splits()["test"].items] == kept
    assert data.source().examples == {"test": len(kept)}
    assert data.source().skipped == {"test": 30 - len(kept)}
    assert f"test: skipped {30 - len(kept)} examples of more than 14 pieces." in caplog.messages
    assert 0 < len(kept) < 30


def test_no_sentence_short_enough_is_an_error(minilm):
    with pytest.raises(InputError, match="^no test example is left: 30 exceed data.max_pieces=3"):
        TreebankDataModule(encoder=minilm, test=str(TEST), max_pieces=3).read_splits()


@pytest.mark.parametrize(
    ("option", "wrong", "expected"),
    [
        ("hidden_layer", 7, "0 .embeddings. to 6"),
        ("hidden_layer", -1, "0 .embeddings. to 6"),
        ("from_word", "last", "mean or first"),
    ],
)
def test_a_wrong_option_is_a_configuration_error(option, wrong, expected, minilm):
    with pytest.raises(ConfigError, match=f"^data.{option}={wrong}: expected {expected}"):
        TreebankDataModule(encoder=minilm, **{option: wrong})


def test_missing_split_is_found_before_any_work(minilm):
    data = TreebankDataModule(encoder=minilm, train=str(TEST))
    data.require(["fit", "validate"])
    with pytest.raises(ConfigError, match="^data.test is missing"):
        data.require(["fit", "test"])
    with pytest.raises(ConfigError, match="^stages=tset: expected fit, validate or test"):
        data.require(["tset"])


def test_vectors_follow_the_words(random_encoder, of_sample):
    vectors = load_vectors()
    data = of_sample(random_encoder("bert"), vectors=vectors, maps=False)
    index = vectors.table({word for s in read_conllu([TEST], 8) for word in s.words})
    for found, item in zip(arrays_of(data, "vectors"), data.read_splits()["test"].items, strict=True):
        expected = [index.table[index.row.get(word.lower(), 0)] for word in item.example.words]
        assert torch.equal(found, torch.stack([torch.zeros(50), *expected]))


def test_the_source_by_hand(random_encoder, tmp_path, treebank, ready):
    (tmp_path / "vectors.txt").write_text("cats 1 2\nsleep 3 4\n")
    file, encoder = treebank([("Cats", "sleep", "cats"), ("Dogs",)]), random_encoder("bert")
    data = ready(TreebankDataModule(encoder=encoder, test=file, vectors=load_vectors(str(tmp_path / "vectors.txt"))))
    source = data.source()
    assert source.data == {file: hashlib.sha256((tmp_path / "written.conllu").read_bytes()).hexdigest()}
    assert source.vectors == {
        "files": {str(tmp_path / "vectors.txt"): hashlib.sha256(b"cats 1 2\nsleep 3 4\n").hexdigest()},
        "size": 2,
        "coverage": 0.75,
    }
    assert source.encoder == encoder.identity()
    assert (source.examples, source.skipped) == ({"test": 2}, {"test": 0})
    assert data.facts().vector_size == 2


def test_without_vectors_nothing_is_told_of_them(random_encoder, of_sample):
    data = of_sample(random_encoder("bert"))
    assert data.source().vectors is None
    assert data.facts().vector_size == 0


def test_stored_maps_equal_streamed_ones(minilm, of_sample):
    streamed, stored = of_sample(minilm, limit=None), of_sample(minilm, limit=None, cache=True)
    difference = largest_difference(arrays_of(streamed), arrays_of(stored))
    assert 0 < difference <= 5e-4


def test_stored_hidden_states_equal_streamed_ones(random_encoder, of_sample):
    encoder = random_encoder("bert")
    streamed, stored = of_sample(encoder, hidden_layer=1), of_sample(encoder, hidden_layer=1, cache=True)
    assert largest_difference(arrays_of(streamed, "hidden"), arrays_of(stored, "hidden")) <= 2e-3
    assert largest_difference(arrays_of(streamed), arrays_of(stored)) <= 5e-4


def test_a_second_run_reads_the_store_and_no_weights(random_encoder, of_sample):
    folder = random_encoder("bert").folder
    first = of_sample(FrozenEncoder(str(folder)), cache=True)
    second = of_sample(FrozenEncoder(str(folder)), cache=True)
    assert first.encoder.model is not None
    assert second.encoder.model is None
    assert largest_difference(arrays_of(first), arrays_of(second)) == 0
    assert second.encoder.model is None


def test_stores_of_several_shards_hold_the_same_maps(random_encoder, of_sample, monkeypatch, tmp_path):
    encoder = random_encoder("bert")
    whole = of_sample(encoder, cache=True)
    monkeypatch.setattr(map_store, "SHARD_NUMBERS", 4000)
    sharded = of_sample(encoder, cache=True, cache_dir=str(tmp_path / "sharded"))
    assert len(sharded.read_splits()["test"].stores["maps"].shards) > 2
    assert largest_difference(arrays_of(whole), arrays_of(sharded)) == 0


def test_workers_read_the_store(random_encoder, of_sample):
    encoder = random_encoder("bert")
    alone, helped = of_sample(encoder, cache=True), of_sample(encoder, cache=True, workers=1)
    assert largest_difference(arrays_of(alone), arrays_of(helped)) == 0


def flip_a_byte(folder):
    content = bytearray((folder / "00000.npy").read_bytes())
    content[len(content) // 2] ^= 0x40
    (folder / "00000.npy").write_bytes(content)


def cut_short(folder):
    content = (folder / "00000.npy").read_bytes()
    (folder / "00000.npy").write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("damage", [flip_a_byte, cut_short, lambda folder: (folder / "00000.json").write_text("?")])
def test_a_damaged_store_is_rebuilt(damage, random_encoder, of_sample, tmp_path, caplog):
    encoder = random_encoder("bert")
    before = arrays_of(of_sample(encoder, cache=True))
    (folder,) = (tmp_path / "cache").iterdir()
    damage(folder)
    with caplog.at_level(logging.WARNING):
        after = arrays_of(of_sample(encoder, cache=True))
    assert f"{folder}/00000.npy: damaged map store, writing this part again." in caplog.messages
    assert largest_difference(before, after) == 0
    caplog.clear()
    assert of_sample(FrozenEncoder(encoder.name), cache=True).encoder.model is None
    assert not [message for message in caplog.messages if "damaged" in message]


@pytest.fixture
def store_name(tmp_path, of_sample):
    """The name of the store that a datamodule fills."""

    def fill(encoder, place, **options):
        of_sample(encoder, cache=True, cache_dir=str(tmp_path / place), **options)
        (folder,) = (tmp_path / place).iterdir()
        return folder.name

    return fill


def test_store_is_named_by_what_decides_its_content(random_encoder, store_name):
    encoder = random_encoder("bert")
    names = {
        "usual": store_name(encoder, "a"),
        "other weights": store_name(random_encoder("bert", seed=9, name="other"), "b"),
        "other init": store_name(FrozenEncoder(encoder.name, init="normal"), "c"),
        "other draw": store_name(FrozenEncoder(encoder.name, init="normal", seed=1), "d"),
        "other data": store_name(encoder, "e", limit=9),
        "other rows": store_name(encoder, "f", from_word="first"),
        "hidden": store_name(encoder, "g", maps=False, hidden_layer=1),
        "other layer": store_name(encoder, "h", maps=False, hidden_layer=2),
    }
    assert len(set(names.values())) == len(names)


def test_store_is_not_named_by_what_does_not(random_encoder, store_name):
    encoder, copy = random_encoder("bert"), random_encoder("bert", name="copy")
    assert encoder.name != copy.name
    names = [
        store_name(encoder, "a"),
        store_name(copy, "b"),
        store_name(encoder, "c", batch_tokens=64),
        store_name(encoder, "d", seed=5, batch_size=3),
    ]
    assert len(set(names)) == 1


def test_store_is_named_by_the_configuration_of_the_model(random_encoder, store_name):
    encoder = random_encoder("bert")
    before = store_name(encoder, "a")
    config = json.loads((encoder.folder / "config.json").read_text())
    (encoder.folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))
    assert store_name(FrozenEncoder(encoder.name), "b") != before


class Recorder(pl.LightningModule):
    """Learns one weight per map and keeps the gold heads of what it sees, epoch by epoch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3, 4))
        self.seen = {0: [], 1: []}

    def training_step(self, batch, _):
        heads = [row[mask].tolist() for row, mask in zip(batch.gold["governors"], batch.mask, strict=True)]
        self.seen[self.current_epoch].append(heads)
        return (torch.einsum("blhqk,lh->bqk", batch.maps, self.weight)[batch.mask] - 0.1).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


def test_a_fit_learns_from_maps_in_an_order_drawn_anew_each_epoch(random_encoder, tmp_path):
    data, module = TreebankDataModule(encoder=random_encoder("bert"), limit=40, seed=3), Recorder()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    options = {"max_epochs": 2, "limit_val_batches": 0, "use_distributed_sampler": False, "default_root_dir": tmp_path}
    pl.Trainer(accelerator="cpu", **options, **quiet).fit(module, datamodule=data)
    sampler, examples = BucketSampler(data.read_splits()["train"].lengths, 16, seed=3), data.read_examples()["train"]
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        expected = [[examples[n].gold["governors"].tolist() for n in batch] for batch in sampler]
        assert module.seen[epoch] == expected
    assert module.seen[0] != module.seen[1]
    assert module.weight.abs().min() > 0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_resumed_fit_goes_on_with_the_order_of_its_epoch(random_encoder, tmp_path, workers):
    encoder, modules = random_encoder("bert"), [Recorder(), Recorder()]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "limit_val_batches": 0}
    for epochs, module in enumerate(modules, start=1):
        data = TreebankDataModule(encoder=encoder, limit=40, seed=3, workers=workers)
        checkpoint = pl.callbacks.ModelCheckpoint(tmp_path, save_last=True, save_on_train_epoch_end=True)
        trainer = pl.Trainer(accelerator="cpu", max_epochs=epochs, callbacks=[checkpoint], **quiet)
        last = tmp_path / "last.ckpt"
        trainer.fit(module, datamodule=data, ckpt_path=last if last.is_file() else None, weights_only=True)
    sampler, examples = BucketSampler(data.read_splits()["train"].lengths, 16, seed=3), data.read_examples()["train"]
    sampler.set_epoch(1)
    assert modules[1].seen == {0: [], 1: [[examples[n].gold["governors"].tolist() for n in batch] for batch in sampler]}


def test_vectors_and_hidden_states_may_differ_in_size(random_encoder, of_sample):
    data = of_sample(random_encoder("bert"), vectors=load_vectors(), hidden_layer=1)
    batch = data.on_after_batch_transfer(next(iter(data.test_dataloader())), 0)
    assert (batch.vectors.shape[-1], batch.hidden.shape[-1]) == (50, 32)


def test_more_pieces_than_the_model_has_positions_are_named(random_encoder, treebank):
    data = TreebankDataModule(encoder=random_encoder("bert"), test=treebank([("a",) * 600]), max_pieces=1000)
    with pytest.raises(ConfigError, match="^data.max_pieces=1000: the encoder has 512 positions.$"):
        data.require(["test"])


def test_processes_that_look_at_different_times_leave_no_shard_out(random_encoder, tmp_path, monkeypatch):
    """Two processes one after the other: the second must not count on the first for what is still missing."""
    monkeypatch.setattr(map_store, "SHARD_NUMBERS", 4000)
    encoder, stores = random_encoder("bert"), []
    for rank in (0, 1):
        data = TreebankDataModule(encoder=encoder, test=str(TEST), limit=8, cache=True, cache_dir=str(tmp_path / "cache"))
        plain = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
        data.trainer = SimpleNamespace(
            strategy=plain.strategy,
            callbacks=[],
            precision=plain.precision,
            precision_plugin=plain.precision_plugin,
            global_rank=rank,
            world_size=2,
        )
        data.setup("test")
        stores.append(data.read_splits()["test"].stores["maps"])
    assert stores[1].missing() == []


@pytest.fixture
def in_bfloat16(ready, monkeypatch, tmp_path):
    """A datamodule under a trainer of mixed precision; without oneDNN, see test_encoder."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)

    def make(encoder, **options):
        options = {"test": str(TEST), "limit": 8, "cache_dir": str(tmp_path / "cache")} | options
        return ready(TreebankDataModule(encoder=encoder, **options), precision="bf16-mixed")

    return make


def test_mixed_precision_is_close(random_encoder, of_sample, in_bfloat16):
    encoder = random_encoder("bert")
    assert 1e-6 < largest_difference(arrays_of(of_sample(encoder)), arrays_of(in_bfloat16(encoder))) <= 2e-2


@pytest.mark.parametrize("options", [{"train": str(TEST), "batch_tokens": 40}, {"cache": True, "batch_tokens": 40}])
def test_mixed_precision_in_several_passes(options, random_encoder, in_bfloat16):
    encoder = random_encoder("bert")
    data = in_bfloat16(encoder, **options)
    batches = data.train_dataloader() if "train" in options else data.test_dataloader()
    maps = [data.on_after_batch_transfer(batch, 0).maps for batch in batches]
    assert sum(map(len, maps)) == len(data.read_splits()["train" if "train" in options else "test"])


def test_maps_stored_in_mixed_precision_are_not_read_in_full(random_encoder, of_sample, in_bfloat16):
    encoder = random_encoder("bert")
    in_bfloat16(encoder, cache=True)
    assert largest_difference(arrays_of(of_sample(encoder)), arrays_of(of_sample(encoder, cache=True))) <= 5e-4


def test_a_model_without_position_embeddings_has_room_for_all(random_encoder, of_sample):
    assert len(arrays_of(of_sample(random_encoder("bloom")))) == 8
