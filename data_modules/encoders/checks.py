"""What must hold of a model's files before anything is computed with them."""

import json
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedConfig

from headscope.errors import InputError, first_line

# The largest value that is believed; far above any model there is, far below what would exhaust the memory of a machine.
LARGEST = {
    "num_hidden_layers": 10_000,
    "num_attention_heads": 10_000,
    "hidden_size": 1_000_000,
    "vocab_size": 100_000_000,
    "max_position_embeddings": 1_000_000_000,
}
CHECKSUM = re.compile("[0-9a-f]{64}")


def require_sizes(config: PreTrainedConfig, file: Path) -> None:
    """Refuse sizes that no model has; whoever builds the model would take them at their word."""
    for key, largest in LARGEST.items():
        if not hasattr(config, key):
            continue
        value = getattr(config, key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
            raise InputError(f"{file}: {key} is {value!r}, expected a whole number from 1 to {largest:,}.")


def promised_sha256(file: Path) -> str | None:
    """What the sha256 of a file must be: as FILE.sha256 beside it says, or the name that the hub's cache gives the file."""
    beside = file.with_name(f"{file.name}.sha256")
    if beside.is_file():
        found = CHECKSUM.match(beside.read_text(encoding="utf-8", errors="replace"))
        if not found:
            raise InputError(f"{beside}: expected the sha256 of {file.name}, found something else; remove it or mend it.")
        return found[0]
    blob = file.resolve()
    return blob.name if blob.parent.name == "blobs" and CHECKSUM.fullmatch(blob.name) else None


def require_finite_weights(model: nn.Module, files: list[Path], missing: Container[str] = ()) -> None:
    """Refuse weights that hold NaN or infinite values; `files` are those that they were read from, but for the missing."""
    for name, tensor in model.state_dict().items():
        if name not in missing and not is_finite(tensor):
            raise InputError(
                f"{file_with(name, files)}: the tensor {name} holds NaN or infinite values; "
                "the file is damaged, so get it again, or name another encoder."
            )


def require_finite_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    """The same of the tensors of one file."""
    for name, tensor in tensors.items():
        if not is_finite(tensor):
            raise InputError(
                f"{file}: the tensor {name} holds NaN or infinite values; the file is damaged, so make it again."
            )


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of a tensor are finite; it is read once, as it is stored, and never converted."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    # NaN and infinite numbers reach the sum. A sum may also overflow without them, so that it only raises the question.
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def file_with(tensor: str, files: list[Path]) -> Path:
    """The file that holds a tensor, whose name there may have something before it; else the first."""
    for file in files:
        if file.suffix == ".safetensors" and any(name.endswith(tensor) for name, _ in tensor_headers(file)):
            return file
    return files[0]


def tensor_headers(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name, type and shape of each tensor: a safetensors file starts with the length of its header, which says them."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(min(size, file.stat().st_size)))
    yield from ((name, tensor) for name, tensor in header.items() if name != "__metadata__")


def quoted_reason(error: BaseException) -> str:
    """Why a library could not read a file of weights; what holds code is refused, and says so in half a page."""
    if "weights_only" in str(error) or "Weights only" in str(error):
        return "it holds more than tensors, and code is never run; save it as safetensors"
    return first_line(error)
