"""Keeping what the encoder says of a split in map stores, so that later epochs and runs need no encoder."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from pytorch_lightning.utilities import move_data_to_device

from headscope.data_modules.batches.buckets import budget_batches
from headscope.data_modules.batches.examples import Split, collate
from headscope.data_modules.batches.map_store import MapStore
from headscope.data_modules.batches.word_encoder import STORED_AXES, Autocast, WordEncoder
from headscope.progress import progress

FORMAT = 2


def open_stores(split: Split, words: WordEncoder, folder: Path, precision: str) -> None:
    """Attach to the split a store for each output, named by all that decides its content."""
    for output in words.outputs:
        examples = ((item.input_ids, item.word_ids, *item.model_inputs.values()) for item in split.items)
        key = MapStore.key([FORMAT, precision, *words.identity(output)], examples)
        split.stores[output] = MapStore(folder / key, [words.stored_shape(output, item.size) for item in split.items])


def missing_shards(split: Split, rank: int, processes: int) -> list[tuple[str, int]]:
    """The shards that this process has to write; each process answers for every n-th."""
    return [
        (output, shard)
        for output, store in split.stores.items()
        for shard in store.missing(progress(store.shards[rank::processes], "checking stored maps"))
    ]


def write_shards(
    split: Split,
    shards: list[tuple[str, int]],
    words: WordEncoder,
    device: torch.device,
    autocast: Autocast,
    description: str,
) -> None:
    """Encode the examples of the shards and write them."""
    for output, shard in progress(shards, description):
        store = split.stores[output]
        store.write(shard, _outputs(split, output, store.examples(shard), words, device, autocast))


def _outputs(
    split: Split,
    output: str,
    places: np.ndarray,
    words: WordEncoder,
    device: torch.device,
    autocast: Autocast,
) -> Iterator[tuple[int, np.ndarray]]:
    for batch in budget_batches(split.lengths[places], words.budget):
        tokens = move_data_to_device(collate([(place, split.items[place], {}) for place in places[batch].tolist()]), device)
        arrays = words(tokens, autocast)[output].half().permute(STORED_AXES[output]).contiguous().cpu().numpy()
        for place, array in zip(places[batch], arrays, strict=True):
            yield place, array[tuple(map(slice, words.stored_shape(output, split.items[place].size)))]
