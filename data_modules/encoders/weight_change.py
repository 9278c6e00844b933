"""A fine-tuned encoder as a small file: what training changed in its weights, at a low rank.

Matrices are kept as two thin factors, vectors as they are, both in float16; embeddings are left out. The file holds the
checksum of its tensors.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from headscope.data_modules.encoders.checks import require_finite_tensors
from headscope.errors import InputError
from headscope.files import local_path

LEFT, RIGHT = ".left", ".right"
NOT_KEPT = ("embeddings.", "pooler.")


def low_rank_change(before: Mapping[str, Tensor], after: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """The best approximation of each matrix's change by a product of two thin ones; the change of vectors as it is."""
    found: dict[str, Tensor] = {}
    for name, weights in before.items():
        if name.startswith(NOT_KEPT) or not weights.is_floating_point():
            continue
        if name not in after or after[name].shape != weights.shape:
            raise InputError(
                f"the two models differ in more than their weights: {name} of the first does not fit the second."
            )
        change = after[name].float() - weights.float()
        if change.dim() == 2:
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            scale = sizes[:rank].sqrt()
            found[name + LEFT] = (left[:, :rank] * scale).half().contiguous()
            found[name + RIGHT] = (scale[:, None] * right[:rank]).half().contiguous()
        else:
            found[name] = change.half()
    return found


def change_content(change: Mapping[str, Tensor], file: Path) -> bytes:
    """What a file of a change holds; refused where float16 does not hold the change, or the models were damaged."""
    require_finite_tensors(change, file)
    return save(dict(change), metadata={"sha256": tensors_sha256(change)})


def read_change(file: Path) -> dict[str, Tensor]:
    """The tensors of a change, which are finite and as they were written."""
    try:
        with safe_open(file, framework="pt") as stored:
            written = (stored.metadata() or {}).get("sha256")
            change = {name: stored.get_tensor(name) for name in sorted(stored.keys())}
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{file}: expected a change of weights in safetensors, found something else.") from error
    if written and written != tensors_sha256(change):
        raise InputError(f"{file}: its tensors are not those that were written (sha256), so it is damaged; make it again.")
    require_finite_tensors(change, file)
    return change


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """One checksum for the names, types, shapes and numbers of some tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def add_change(model: nn.Module, file: Path) -> None:
    """Add the change of a file to a model's weights; an error where they do not fit."""
    change = read_change(file)
    parameters: dict[str, Tensor] = dict(model.named_parameters())
    with torch.no_grad():
        for key, part in change.items():
            if key.endswith(RIGHT):
                continue
            name = key.removesuffix(LEFT)
            added = _product(part, change.get(name + RIGHT)) if key.endswith(LEFT) else part.float()
            if added is None or name not in parameters or parameters[name].shape != added.shape:
                raise InputError(f"{file}: is the change of another model: {name} does not fit.")
            parameters[name] += added.to(parameters[name].dtype)


def _product(left: Tensor, right: Tensor | None) -> Tensor | None:
    """What two factors stand for; None where they do not belong together."""
    return left.float() @ right.float() if right is not None and left.shape[1:] == right.shape[:1] else None


def change_file(name: str) -> Path:
    """The file of a change: a path, or `package:NAME/file`."""
    file = local_path(name)
    if not file.is_file():
        raise InputError(f"encoder.change={name}: no such file; python -m headscope.tools.weight_change makes one.")
    return file
