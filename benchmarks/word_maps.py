"""Word maps of all heads: against the bare forward pass, and against one sentence at a time."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoModel, PreTrainedModel

from benchmarks.samples import RunsOfWords, ready
from benchmarks.timing import Comparison, interleaved
from headscope.data_modules.base import AttentionDataModule, HostBatch
from headscope.data_modules.batches.examples import Encoded
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.treebank import SAMPLE, TreebankDataModule

LENGTHS = (20, 40, 64, 128)
BATCH_TOKENS = 1024
SPREAD = (*range(20, 129), *range(20, 129))
TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def run(encoder_name: str, repeats: int) -> Iterator[Comparison]:
    """The forward pass is the floor, at each length and over mixed ones; then one sentence at a time."""
    encoder = FrozenEncoder(encoder_name)
    floor, eager = plain_model(encoder, "sdpa"), plain_model(encoder, "eager")
    for length in LENGTHS:
        lengths = [length - index % 3 for index in range(BATCH_TOKENS // length)]
        data = ready(RunsOfWords(encoder, lengths))
        yield against_forward_pass(data, floor, repeats, f"{len(lengths)} × {length} tokens")
    spread, spread_name = ready(RunsOfWords(encoder, SPREAD)), f"inputs of {SPREAD[0]}-{SPREAD[-1]} tokens"
    yield against_forward_pass(spread, floor, repeats, f"{len(SPREAD)} {spread_name}")
    treebank = ready(TreebankDataModule(encoder=encoder, test=str(SAMPLE)))
    yield against_single_sentences(treebank, eager, repeats, "treebank sentences")
    # The longer the input, the more of both sides is the forward pass itself.
    yield against_single_sentences(spread, eager, repeats, spread_name)


def plain_model(encoder: FrozenEncoder, attention: str) -> PreTrainedModel:
    """The same weights as transformers runs them."""
    return AutoModel.from_pretrained(encoder.folder, dtype=encoder.spec.dtype, attn_implementation=attention).eval()


def against_forward_pass(data: AttentionDataModule, floor: PreTrainedModel, repeats: int, what: str) -> Comparison:
    """Word maps of all batches, against a pass that gives none."""
    batches = list(data.test_dataloader())
    inputs = [{name: batch[name] for name in ("input_ids", "attention_mask")} for batch in batches]
    require_same_states(data.encoder, floor, batches[0])

    def word_maps() -> None:
        for batch in batches:
            data.on_after_batch_transfer(batch, 0)

    @torch.inference_mode()
    def forward_pass() -> None:
        for batch in inputs:
            floor(**batch)

    times = interleaved(word_maps, forward_pass, repeats)
    return Comparison(f"word maps / sdpa pass without maps, {what}", *times, 1.25, "at most")


def require_same_states(encoder: FrozenEncoder, floor: PreTrainedModel, batch: HostBatch) -> None:
    """Both sides run the same network on the same batch."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    real = batch["attention_mask"].bool()
    with torch.inference_mode():
        states = encoder(**inputs, hidden_states=True)[-1]
        assert_close(states[real], floor(**inputs).last_hidden_state[real], **TOLERANCE)


def against_single_sentences(data: AttentionDataModule, eager: PreTrainedModel, repeats: int, what: str) -> Comparison:
    """Mixed lengths through the bucketed datamodule, against one sentence and one word at a time."""
    items = data.read_splits()["test"].items
    require_same_maps(data, eager)

    def streamed() -> None:
        for batch in data.test_dataloader():
            data.on_after_batch_transfer(batch, 0)

    def one_at_a_time() -> None:
        for item in items:
            maps_word_by_word(eager, item)

    times = interleaved(streamed, one_at_a_time, repeats)
    return Comparison(f"bucketed / one at a time, {len(items)} {what}", *times, 3, "times faster")


@torch.inference_mode()
def maps_word_by_word(eager: PreTrainedModel, item: Encoded) -> Float[Tensor, "layer head word word"]:
    """The obvious way: keep all token maps, then a loop over words sums columns and averages rows."""
    maps = torch.cat(eager(torch.tensor(item.input_ids)[None], output_attentions=True).attentions)
    word_ids = torch.tensor(item.word_ids)
    pieces = [(word_ids == word).nonzero().squeeze(-1) for word in range(item.size)]
    to_words = torch.stack([maps[..., tokens].sum(-1) for tokens in pieces], dim=-1)
    return torch.stack([to_words[:, :, tokens].mean(-2) for tokens in pieces], dim=-2)


def require_same_maps(data: AttentionDataModule, eager: PreTrainedModel) -> None:
    """Every sentence's maps are equal, whichever way they are made."""
    loader, items = data.test_dataloader(), data.read_splits()["test"].items
    for positions, batch in zip(loader.batch_sampler, loader, strict=True):
        for index, maps in zip(positions, data.on_after_batch_transfer(batch, 0).maps, strict=True):
            size = items[index].size
            assert_close(maps[..., :size, :size], maps_word_by_word(eager, items[index]), **TOLERANCE)
