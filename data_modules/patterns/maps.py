"""Labelled maps computed again from their encoders and inputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Int8
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from headscope.contracts import head_name
from headscope.data_modules.batches.examples import Example, encode_texts
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.layout import TokenClasses
from headscope.data_modules.patterns.labels import MapName
from headscope.data_modules.readers.glue import SAMPLE, TASKS, read_tsv, task_folder
from headscope.errors import InputError
from headscope.files import local_path

MAX_PIECES = 128
NO_SENTENCE = -1


@dataclass(frozen=True)
class PatternMap:
    """One head's map of one input, with what a person sees at its axes."""

    name: MapName
    weights: Float[Tensor, "token token"]
    tokens: list[str]
    special: Int8[np.ndarray, "token"]  # numbers of segments.TOKEN_CLASSES
    sentence: Int8[np.ndarray, "token"]  # of a pair; NO_SENTENCE for special tokens


def pattern_maps(
    names: Sequence[MapName],
    encoders: Mapping[str, FrozenEncoder],
    folder: str | None = None,
    table: str = "the table of labels",
) -> Iterator[PatternMap]:
    """Every map, those of one encoder and input from one pass; `folder` has GLUE files, the packaged sample unless named.

    `table` is what errors call the source of the names.
    """
    if others := sorted({name.task for name in names} - {*TASKS}):
        raise InputError(f"{table} names inputs of {others[0]}, which are no GLUE task: such maps are stored, not computed.")
    examples = {task: _examples(task, folder) for task in {name.task for name in names}}
    for encoder_name, of_encoder in groupby(sorted(names), key=lambda name: name.encoder):
        of_encoder = list(of_encoder)
        encoder = _require_encoder(encoder_name, {name.sha256 for name in of_encoder}, encoders, table)
        tokenizer = encoder.tokenizer()
        classes = TokenClasses(tokenizer, encoder.layout())
        for (task, split, number), wanted in groupby(of_encoder, key=lambda name: name.input):
            if number >= len(examples[task].get(split, ())):
                raise InputError(f"{task} {split}: has no example {number}, which {table} names.")
            yield from _maps_of_input(list(wanted), examples[task][split][number], encoder, tokenizer, classes)


def _examples(task: str, folder: str | None) -> dict[str, list[Example]]:
    """The examples of a task's files by split."""
    inside = task_folder(local_path(folder) if folder else SAMPLE, TASKS[task])
    files = {"train": inside / "train.tsv", "val": inside / TASKS[task].dev_file}
    return {split: read_tsv(file, TASKS[task], None) for split, file in files.items() if file.is_file()}


def _require_encoder(name: str, named: set[str], encoders: Mapping[str, FrozenEncoder], table: str) -> FrozenEncoder:
    if name not in encoders:
        raise InputError(f"{table} names the encoder {name}; known are {', '.join(encoders)}.")
    if others := named - {encoders[name].checksum()}:
        raise InputError(
            f"{table} is for another encoder: {name} has the sha256 {encoders[name].checksum()}, the table {min(others)}."
        )
    return encoders[name]


@torch.inference_mode()
def _maps_of_input(
    names: list[MapName],
    example: Example,
    encoder: FrozenEncoder,
    tokenizer: PreTrainedTokenizerBase,
    classes: TokenClasses,
) -> Iterator[PatternMap]:
    ids, inputs, encoding = encode_texts(example.words, tokenizer, MAX_PIECES)
    sentence = [NO_SENTENCE if number is None else number for number in encoding.sequence_ids(0)]
    layers: list[Tensor] = []
    device = next(encoder.load().parameters()).device
    batch = {"input_ids": ids, "attention_mask": np.ones_like(ids), **inputs}
    encoder(
        **{key: torch.tensor(value, dtype=torch.long, device=device)[None] for key, value in batch.items()},
        sink=lambda weights: layers.append(weights[0].float()),
    )
    for name in names:
        if not (1 <= name.layer <= encoder.layers and 1 <= name.head <= encoder.heads):
            raise InputError(
                f"{name.encoder}: has no head {head_name(name.layer, name.head)}, which the table of labels names."
            )
        yield PatternMap(
            name,
            require_finite(layers[name.layer - 1][name.head - 1], name),
            cast(list[str], tokenizer.convert_ids_to_tokens(ids.tolist())),
            classes(ids),
            np.array(sentence, dtype=np.int8),
        )


def require_finite(weights: Float[Tensor, "token token"], name: MapName) -> Float[Tensor, "token token"]:
    """The map as it is; an error where it holds what is no number."""
    if not bool(torch.isfinite(weights).all()):
        raise InputError(
            f"{name.encoder}: the map of head {head_name(name.layer, name.head)} on {name.task} {name.example} holds NaN."
        )
    return weights
