"""What a sweep computed of a batch, in files, so that a run that was stopped redoes nothing."""

import hashlib
import logging
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

log = logging.getLogger(__name__)


def stored_parts(file: Path, device: torch.device) -> dict[str, Tensor] | None:
    """What was computed of a batch before; None where it was not, or cannot be read any more."""
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: torch.from_numpy(stored[name]).to(device) for name in ("outputs", "importance")}
    except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile, zlib.error):
        log.warning("%s: damaged, computing this batch again.", file)
        return None


def digest(identity: str, tokens: Tensor) -> str:
    """A name for what is computed of a batch, by the models, what is done to them, and the batch's tokens."""
    content = f"{identity} {tuple(tokens.shape)}".encode() + tokens.cpu().numpy().tobytes()
    return hashlib.sha256(content).hexdigest()[:32]
