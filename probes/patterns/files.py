"""A trained network as one small safetensors file that says what it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from headscope.data_modules.encoders.weight_change import tensors_sha256
from headscope.data_modules.patterns.labels import CLASSES
from headscope.errors import InputError
from headscope.files import local_path, parse_json, write_atomically
from headscope.probes.patterns.net import PatternNet

NAME = "headscope pattern network"
FORMAT = f"{NAME} 4"
BEFORE = (NAME, f"{NAME} 2", f"{NAME} 3")  # saw other pictures, had fewer measures, did not say how much convolutions weigh
CHECKSUM = "weights_sha256"
FILE = "pattern_cnn.safetensors"
PACKAGED = f"package:headscope.data_modules/samples/patterns/{FILE}"


class SaveNetwork(pl.Callback):
    """After training writes the network; the file appears only when whole."""

    def __init__(self, folder: str, f1: float | None = None, confidence: float | None = None) -> None:
        self.file, self.f1, self.confidence = Path(folder) / FILE, f1, confidence

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.is_global_zero:
            module: Any = pl_module  # whatever trains a PatternNet as its `net`
            known = {"cross_validated_f1": self.f1, "confidence": self.confidence}
            facts = {"labels_sha256": module.labels_sha256, **known}
            save_pattern_cnn(module.net, self.file, facts)


def save_pattern_cnn(net: PatternNet, file: Path, facts: Mapping[str, Any]) -> None:
    """Write the network with its shape and with what is known of it."""
    plain = net.without_norms()
    shape = {"size": net.size, "channels": list(net.channels), "axes": net.axes, "share": net.share}
    tensors = {name: tensor.contiguous().cpu() for name, tensor in plain.state_dict().items()}
    about = {"format": FORMAT, "classes": CLASSES, CHECKSUM: tensors_sha256(tensors), **shape, **facts}
    write_atomically(file, save(tensors, {name: json.dumps(value) for name, value in about.items()}), durable=True)


def load_pattern_cnn(file: str | Path) -> PatternNet:
    """The network of a file, in eval mode."""
    about, tensors = read_network(local_path(file))
    net = PatternNet(len(CLASSES), about["size"], about["channels"], about["axes"], norm=False, share=about["share"])
    net.load_state_dict(tensors)
    return net.eval().requires_grad_(False)


def read_network(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a file says of its network, and the weights."""
    if not file.is_file():
        raise InputError(f"{file}: no such file; experiment=pattern_cnn trains a network and leaves it in model/.")
    try:
        with safe_open(file, "pt") as opened:
            about = {name: parse_json(value) for name, value in (opened.metadata() or {}).items()}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        raise InputError(f"{file}: expected a network of experiment=pattern_cnn, found something else.") from error
    if about.get("format") in BEFORE:
        raise InputError(f"{file}: is a network of an earlier version; experiment=pattern_cnn trains a new one.")
    if about.get("format") != FORMAT or about["classes"] != list(CLASSES):
        raise InputError(f"{file}: expected a network of experiment=pattern_cnn, found something else.")
    if about.get(CHECKSUM, written := tensors_sha256(tensors)) != written:
        raise InputError(f"{file}: its weights are not those that were written (sha256), so it is damaged; make it again.")
    return about, tensors
