"""Any Hugging Face encoder, frozen, with its attention maps handed on layer by layer."""

from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import MODEL_MAPPING, AutoModel, AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.attention import Sink, weights_go_to
from headscope.data_modules.encoders.layout import ModelTraits, layout_of, traits_of, with_separator
from headscope.data_modules.encoders.models import ModelFiles, tokenizer_files
from headscope.data_modules.encoders.self_check import (
    Verdict,
    key_of,
    remembered,
    require_layout,
    require_usable,
    verdict_of,
)
from headscope.errors import ConfigError, InputError, first_line, given
from headscope.files import once
from headscope.layout import Layout


class LastLayerSeen(Exception):
    """Ends a forward pass whose output nobody needs, once the last layer's weights are out."""


class FrozenEncoder(nn.Module):
    """An encoder in eval mode that never learns; its weights are read on `load`. Options are the fields of `EncoderSpec`."""

    gives = "attention"  # what its maps hold
    kind: type = AutoModel  # what opens its weights
    masks_tokens = False  # whether its inputs must have masked tokens, with labels beside them

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.spec = EncoderSpec(name, **options)
        self.files = ModelFiles(self.spec)
        self.config = of_text(self.files.config(), name)
        self.layers: int = self.config.num_hidden_layers
        self.heads: int = self.config.num_attention_heads
        self.model: PreTrainedModel | None = None
        self._streams = True

    @property
    def name(self) -> str:
        """As the spec says it: hub id, folder or `package:NAME/folder`."""
        return self.spec.name

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.files.folder

    def load(self) -> "FrozenEncoder":
        """Read the weights, once, and check that the maps will be those of the model's own attention."""
        if self.model is None:
            model, missing = self.files.load()
            decodes = model.config.is_encoder_decoder
            # Checkpoints of other tasks may lack the pooler, which no map depends on, and those of encoders the decoder.
            lacking = [key for key in missing if "pooler" not in key and not (decodes and key.startswith("decoder."))]
            if lacking:
                raise InputError(
                    f"{self.folder}: the weights lack {len(lacking)} tensors of the model, such as {lacking[0]}."
                )
            model = (model.get_encoder() if decodes else model).eval().requires_grad_(False)
            # Models outside the attention interface hand out their maps themselves, from eager attention.
            self._streams = self._verdict(model).kind == "streamed"
            self.model = model
        return self

    def _verdict(self, model: PreTrainedModel) -> Verdict:
        """What the self-check said of the model, now or when it was first loaded; an error where it is refused."""
        return self._usable(verdict_of(model, self.layers, self.heads, key_of(self.files, self.kind)))

    def _usable(self, verdict: Verdict) -> Verdict:
        require_layout(self.name, require_usable(self.name, verdict), self._traits().causal)
        return verdict

    def require_maps(self) -> None:
        """Refuse a model whose maps cannot be had, before any work; its weights are read where nothing is known of it."""
        verdict = remembered(key_of(self.files, self.kind))
        if verdict is None:
            self.load()
        else:
            self._usable(verdict)

    def loaded(self) -> PreTrainedModel:
        """The model itself."""
        return given(self.load().model, "a loaded model")

    def checksum(self) -> str:
        """The sha256 of the weights, joined with that of their change where there is one."""
        return self.files.checksum()

    def identity(self) -> dict[str, Any]:
        """All that decides what the encoder computes, and its number of parameters, for caches and reports."""
        return self.files.identity()

    def inputs(self) -> dict[str, str]:
        """The checksums of all files that decide what the encoder computes."""
        return self.files.inputs()

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The fast tokenizer, which knows the word of each piece."""
        tokenizer_files(self.folder)
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                self.folder, add_prefix_space=True, trust_remote_code=self.spec.trust_remote_code
            )
        except Exception as error:  # the libraries raise whatever a damaged vocabulary leads to
            raise InputError(f"{self.name}: no usable tokenizer in {self.folder} ({first_line(error)}).") from error
        if not tokenizer.is_fast:
            raise InputError(
                f"{self.name}: its tokenizer cannot align pieces to words; a fast one (tokenizer.json) is needed."
            )
        if not self._traits().segments:
            tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
        return with_separator(tokenizer)

    @once
    def layout(self) -> Layout:
        """Which special tokens stand around its texts, and whether a token sees those that follow it."""
        return layout_of(self.tokenizer(), self._traits().causal)

    @once
    def _traits(self) -> ModelTraits:
        return traits_of(self.config, self.spec.trust_remote_code)

    def require_same_shape(self, other: "FrozenEncoder") -> None:
        """Refuse a model that cannot be compared head by head: it must have the same heads and read the same tokens."""
        if (self.layers, self.heads) != (other.layers, other.heads):
            shapes = f"{self.layers} × {self.heads} and {other.layers} × {other.heads}"
            raise ConfigError(f"{self.name} and {other.name}: have {shapes} heads, so they cannot be compared head by head.")
        if self.tokenizer().get_vocab() != other.tokenizer().get_vocab():
            raise ConfigError(f"{self.name} and {other.name}: have different tokenizers, so they cannot be compared.")

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
            # The last layer's own output, its feed-forward part and the pooler change no map: an exception is the one
            # way out of a model's forward pass that works for every architecture.
            if received == self.layers and not hidden_states:
                raise LastLayerSeen

        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            inputs["token_type_ids"] = token_type_ids
        output = None
        try:
            with weights_go_to(counting_sink):
                model = self.loaded()
                output = model(**inputs, output_hidden_states=hidden_states, output_attentions=not self._streams)
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
            if weights.shape[-1] != weights.shape[-2]:
                raise InputError(f"its own maps are {tuple(weights.shape)}, expected one of all tokens by all tokens.")
            if sink:
                sink(weights)
        return len(attentions or ())


def of_text(config: PreTrainedConfig, name: str) -> PreTrainedConfig:
    """The configuration of what reads text in a model; an error where nothing does, or it has no attention heads."""
    kind = MODEL_MAPPING.get(type(config), None)
    reads = getattr(kind[0] if isinstance(kind, tuple) else kind, "main_input_name", "input_ids")
    if reads != "input_ids":
        raise InputError(f"{name}: {config.model_type} reads {reads}, not text; name a model of text.")
    for part in (config, getattr(config, "encoder", None), getattr(config, "text_config", None)):
        if getattr(part, "num_attention_heads", None) and getattr(part, "num_hidden_layers", None):
            return cast(PreTrainedConfig, part)
    raise InputError(f"{name}: {config.model_type} is no model with layers of attention heads; name another model.")


def tuned_encoder(name: str | None = None, base: str | None = None, **options: Any) -> FrozenEncoder | None:
    """The second model of a comparison: a name, or what fine-tuning changed in the base; None where neither is given."""
    if name or options.get("change"):
        return FrozenEncoder(given(name or base, "the model that tuned.change= is of"), **options)
    plain = EncoderSpec("")
    for field in ("revision", "init", "sha256"):
        if options.get(field, getattr(plain, field)) != getattr(plain, field):
            raise ConfigError(f"tuned.{field}={options[field]}: of which model? Name it with tuned.name= or tuned.change=.")
    return None
