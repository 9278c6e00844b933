"""Attention maps in one safetensors file, each at its own length: 8 bits on a square-root scale, or as they are.

A cell of 8 bits is round(255 √w): at most 0.004 off where a weight is near 1, exact to 4e-6 near 0; rows are made to sum
to 1 again when they are read. Maps, classes of tokens and numbers of sentences are each one long row, in the table's order.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from headscope.data_modules.encoders.weight_change import tensors_sha256
from headscope.data_modules.segments import TOKEN_CLASSES
from headscope.errors import InputError
from headscope.files import parse_json, write_atomically

FORMAT = "headscope attention maps"
CHECKSUM = "maps_sha256"
LEVELS = 255
SLACK = 1e-3  # what a row of an encoder in half precision may lack of 1
LONGEST = 128
NAMES = ("cells", "lengths", "token_class", "sentence")


@dataclass(frozen=True)
class StoredMap:
    """One map with what is known of its tokens."""

    weights: Float[np.ndarray, "token token"]
    token_class: Int8[np.ndarray, "token"]  # numbers of segments.TOKEN_CLASSES
    sentence: Int8[np.ndarray, "token"]  # of a pair; -1 for special tokens
    sha256: str  # the first 16 digits, of the cells as they are stored


def quantised(weights: Float[np.ndarray, "token token"]) -> np.ndarray:
    """A map in 8 bits."""
    return np.round(LEVELS * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8)


def restored(cells: np.ndarray) -> Float[np.ndarray, "token token"]:
    """The weights that cells stand for, not yet made to sum to 1."""
    return (cells.astype(np.float32) / LEVELS) ** 2 if cells.dtype == np.uint8 else cells.astype(np.float32)


def row_tolerance(cells: np.ndarray) -> Float[np.ndarray, "token"]:
    """How far from 1 a row may sum: half a level of every cell, where there are levels."""
    off = (cells.astype(np.float64) + 0.25).sum(1) / LEVELS**2 if cells.dtype == np.uint8 else np.zeros(len(cells))
    return off + SLACK


def cells_sha256(cells: np.ndarray) -> str:
    """What the table names a map's cells by."""
    return hashlib.sha256(np.ascontiguousarray(cells).tobytes()).hexdigest()[:16]


def require_map(cells: np.ndarray, where: str) -> None:
    """An error that says which map holds NaN, or has a row that does not sum to 1."""
    weights = restored(cells)
    if not np.isfinite(weights).all():
        raise InputError(f"{where} holds NaN or infinity; expected weights from 0 to 1.")
    off = np.abs(weights.astype(np.float64).sum(1) - 1) > row_tolerance(cells)
    if off.any():
        row = int(off.argmax())
        raise InputError(f"{where}: row {row + 1} sums to {weights[row].sum():.3f}; rows of attention sum to 1.")


def write_maps(
    file: Path,
    weights: Sequence[np.ndarray],
    token_classes: Sequence[np.ndarray],
    sentences: Sequence[np.ndarray],
    exact: bool = False,
) -> list[str]:
    """Write maps, in 8 bits unless they are to be `exact`; their checksums, for the table."""
    for number, one in enumerate(weights):
        require_map(one.astype(np.float32), f"{file}: map {number}")
    kept = [one.astype(np.float32) if exact else quantised(one) for one in weights]
    tensors = {
        "cells": torch.from_numpy(np.concatenate([one.ravel() for one in kept])),
        "lengths": torch.tensor([len(one) for one in kept], dtype=torch.int32),
        "token_class": torch.from_numpy(np.concatenate(token_classes).astype(np.int8)),
        "sentence": torch.from_numpy(np.concatenate(sentences).astype(np.int8)),
    }
    about = {"format": FORMAT, "token_classes": TOKEN_CLASSES, CHECKSUM: tensors_sha256(tensors)}
    write_atomically(file, save(tensors, {name: json.dumps(value) for name, value in about.items()}), durable=True)
    return [cells_sha256(one) for one in kept]


def read_maps(file: Path) -> list[StoredMap]:
    """All maps of a file, whose rows sum to 1; an error says what is wrong with it."""
    about, tensors = _opened(file)
    if about.get("format") != FORMAT or sorted(tensors) != sorted(NAMES):
        raise InputError(f"{file}: expected attention maps ({', '.join(NAMES)}), found something else.")
    if about.get(CHECKSUM) != (found := tensors_sha256(tensors)):
        raise InputError(f"{file}: its maps have the sha256 {found[:16]}…, not {str(about.get(CHECKSUM))[:16]}…: damaged.")
    lengths = tensors["lengths"].tolist()
    if not lengths or min(lengths) < 1 or max(lengths) > LONGEST:
        raise InputError(f"{file}: expected maps of 1 to {LONGEST} tokens.")
    sizes = {"cells": sum(n * n for n in lengths), "token_class": sum(lengths), "sentence": sum(lengths)}
    for name, size in sizes.items():
        if tensors[name].numel() != size:
            raise InputError(f"{file}: expected {size} numbers in {name} for maps of these lengths.")
    cells = np.split(tensors["cells"].numpy(), np.cumsum([n * n for n in lengths])[:-1])
    per_token = [np.split(tensors[name].numpy(), np.cumsum(lengths)[:-1]) for name in ("token_class", "sentence")]
    return [
        _stored(one.reshape(length, length), classes, sentence, f"{file}: map {number}")
        for number, (one, length, classes, sentence) in enumerate(zip(cells, lengths, *per_token, strict=True))
    ]


def _opened(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not file.is_file():
        raise InputError(f"{file}: no such file of attention maps.")
    try:
        with safe_open(file, "pt") as opened:
            about = {name: parse_json(value) for name, value in (opened.metadata() or {}).items()}
            return about, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        raise InputError(f"{file}: expected a safetensors file of attention maps, found something else.") from error


def _stored(cells: np.ndarray, classes: np.ndarray, sentence: np.ndarray, where: str) -> StoredMap:
    require_map(cells, where)
    weights = restored(cells)
    return StoredMap(weights / weights.sum(1, keepdims=True), classes, sentence, cells_sha256(cells))
