"""Any Hugging Face encoder, frozen, with its attention maps handed on layer by layer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from headscope.data_modules.encoders.attention import IMPLEMENTATION, Sink, weights_go_to
from headscope.data_modules.encoders.model_files import (
    files_sha256,
    joined_sha256,
    model_folder,
    tokenizer_files,
    weights_sha256,
)
from headscope.data_modules.encoders.weight_change import add_change, change_file
from headscope.errors import InputError, require_choice

transformers_logging.disable_progress_bar()
INITS = ("pretrained", "embeddings", "normal")
DTYPES = ("float32", "bfloat16")
POSITION_EMBEDDINGS = ("position_embeddings", "wpe")


class LastLayerSeen(Exception):
    """Ends a forward pass whose output nobody needs, once the last layer's weights are out."""


class FrozenEncoder(nn.Module):
    """An encoder in eval mode that never learns; its weights are read on `load`."""

    gives = "attention"  # what its maps hold
    masks_tokens = False  # whether its inputs must have masked tokens, with labels beside them

    def __init__(
        self,
        name: str,
        init: str = "pretrained",
        dtype: str = "float32",
        sha256: str | None = None,
        seed: int = 0,
        trust_remote_code: bool = False,
        change: str | None = None,
    ) -> None:
        super().__init__()
        require_choice("encoder.init", init, INITS)
        require_choice("encoder.dtype", dtype, DTYPES)
        self.name, self.init, self.dtype, self.seed = name, init, getattr(torch, dtype), seed
        self.expected_sha256, self.trust_remote_code = sha256, trust_remote_code
        self.folder: Path = model_folder(name)
        self.change: Path | None = change_file(change) if change else None
        try:
            self.config = AutoConfig.from_pretrained(self.folder, trust_remote_code=trust_remote_code)
        except (OSError, ValueError) as error:
            raise InputError(f"{name}: config.json is not that of a transformers model ({first_line(error)}).") from error
        if not hasattr(self.config, "num_attention_heads") or not hasattr(self.config, "num_hidden_layers"):
            raise InputError(f"{name}: {self.config.model_type} is no model with layers of attention heads.")
        self.layers: int = self.config.num_hidden_layers
        self.heads: int = self.config.num_attention_heads
        self.model: PreTrainedModel | None = None
        self._streams = True

    def load(self) -> "FrozenEncoder":
        """Read the weights, once."""
        if self.model is None:
            self.sha256  # noqa: B018  (checked before anything is read from the file)
            model = load_model(self.folder, self.init, self.dtype, self.seed, self.trust_remote_code)
            # Models outside the attention interface hand out their maps themselves, from eager attention.
            self._streams = model._supports_attention_backend
            if self.change:
                add_change(model, self.change)
            if self._streams:
                model.set_attn_implementation(IMPLEMENTATION)
            self.model = model.eval().requires_grad_(False)
        return self

    @property
    def sha256(self) -> str:
        """The checksum of the weights' file, joined with that of their change where there is one."""
        weights = weights_sha256(self.name, self.folder, self.expected_sha256)
        return joined_sha256([weights, files_sha256([self.change])]) if self.change else weights

    @property
    def identity(self) -> dict[str, object]:
        """All that decides what the encoder computes, for caches and reports."""
        random = {"seed": self.seed} if self.init != "pretrained" else {}
        return {
            "name": self.name, "sha256": self.sha256, "init": self.init, "dtype": str(self.dtype), **random,
            "config_sha256": files_sha256([self.folder / "config.json"]),
            "tokenizer_sha256": files_sha256(tokenizer_files(self.folder)),
        }  # fmt: skip

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The fast tokenizer, which knows the word of each piece."""
        tokenizer_files(self.folder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                self.folder, add_prefix_space=True, trust_remote_code=self.trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise InputError(f"{self.name}: no usable tokenizer in {self.folder} ({first_line(error)}).") from error
        if not tokenizer.is_fast:
            raise InputError(
                f"{self.name}: its tokenizer cannot align pieces to words; a fast one (tokenizer.json) is needed."
            )
        return tokenizer

    @torch.inference_mode()
    def forward(
        self,
        input_ids: Int[Tensor, "batch token"],
        attention_mask: Int[Tensor, "batch token"],
        sink: Sink | None = None,
        hidden_states: bool = False,
        token_type_ids: Int[Tensor, "batch token"] | None = None,
    ) -> tuple[Float[Tensor, "batch token size"], ...] | None:
        """Give each layer's maps to the sink; return all hidden states (embeddings first) on request."""
        received = 0

        def counting_sink(weights: Tensor) -> None:
            nonlocal received
            received += 1
            if sink:
                sink(weights)
            if received == self.layers and not hidden_states:
                raise LastLayerSeen

        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        output = None
        try:
            with weights_go_to(counting_sink):
                output = self.load().model(**inputs, output_hidden_states=hidden_states, output_attentions=not self._streams)
        except LastLayerSeen:
            pass
        if not self._streams and output is not None:
            received = self._hand_on(output.attentions, sink)
        if received != self.layers:
            raise InputError(f"{self.name}: gave the maps of {received} layers, expected {self.layers}.")
        return output.hidden_states if hidden_states and output is not None else None

    @staticmethod
    def _hand_on(attentions: tuple[Tensor, ...] | None, sink: Sink | None) -> int:
        for weights in attentions or ():
            if sink:
                sink(weights)
        return len(attentions or ())


def load_model(folder: Path, init: str, dtype: torch.dtype, seed: int, remote: bool) -> PreTrainedModel:
    """The model with its own weights, with none of them, or with its embeddings only."""
    options = {"trust_remote_code": remote, "dtype": dtype, "attn_implementation": "eager"}
    try:
        with quiet_loading():
            trained, report = AutoModel.from_pretrained(folder, output_loading_info=True, **options)
    except (OSError, ValueError, RuntimeError, SafetensorError, UnpicklingError) as error:
        raise InputError(f"{folder}: the weights cannot be read ({first_line(error)}).") from error
    # Checkpoints of other tasks may lack the pooler, which no map depends on.
    if lacking := sorted(key for key in report["missing_keys"] if "pooler" not in key):
        raise InputError(f"{folder}: the weights lack {len(lacking)} tensors of the model, such as {lacking[0]}.")
    if init == "pretrained":
        return trained
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModel.from_config(trained.config, **options)
    if init == "embeddings":
        copy_embeddings(trained, model)
    return model


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Without transformers' own page on tensors that are missing or not needed; what matters is said in our sentence."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)


def copy_embeddings(source: PreTrainedModel, target: PreTrainedModel) -> None:
    """Word and position embeddings go over; every other weight of the target stays as drawn."""
    positions = {name: module for name, module in source.named_modules() if name.endswith(POSITION_EMBEDDINGS)}
    with torch.no_grad():
        target.get_input_embeddings().weight.copy_(source.get_input_embeddings().weight)
        for name, module in positions.items():
            target.get_submodule(name).weight.copy_(module.weight)


def first_line(error: Exception) -> str:
    """The first line of an error of a library, to quote in a sentence."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def open_encoder(name: str | None, dtype: str = "float32") -> FrozenEncoder | None:
    """The encoder of a name; none where no name is given."""
    return FrozenEncoder(name, dtype=dtype) if name else None
