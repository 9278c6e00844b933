"""The models of an atlas, ready to be asked: maps and prediction of a text, with heads disabled on request."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BatchEncoding,
    PreTrainedConfig,
)

from headscope.contracts import EncoderSpec, Row
from headscope.data_modules.encoders.attention import weights_go_to
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.sentences import Shown, entry_of, require_finite
from headscope.errors import InputError
from headscope.finetune.head_mask import disabled

MOST_TOKENS = 128
WAYS = ("uniform", "zero", "mean")  # of disabling that a single input allows
BEST = 5  # tokens that are told of a prediction
CLASSES, SCORE, MASKED, NEXT, OUTPUT = "classes", "score", "masked", "next", "output"
# What a model is trained to predict, by the end of the name of its architecture.
HEADS: dict[str, tuple[str, Any]] = {
    "ForSequenceClassification": (CLASSES, AutoModelForSequenceClassification),
    "ForMaskedLM": (MASKED, AutoModelForMaskedLM),
    "ForCausalLM": (NEXT, AutoModelForCausalLM),
    "LMHeadModel": (NEXT, AutoModelForCausalLM),
}
Head = Sequence[int]  # layer and head, from 1


class TooLong(InputError):
    """A text of more tokens than are answered."""


@dataclass(frozen=True)
class Seen:
    """What one pass gave: the maps, what the model predicts, and its output."""

    maps: Float[Tensor, "layer head query key"]
    logits: Tensor | None  # without the axis of inputs
    states: Float[Tensor, "token size"]  # of the last layer


class PredictingEncoder(FrozenEncoder):
    """A frozen model together with the trained head that its weights hold, where they hold one."""

    predicts = OUTPUT

    def load(self) -> "PredictingEncoder":
        """Read the weights, once."""
        if self.model is None and (head := head_of(self.files.config(), self.spec)):
            model, missing = self.files.load(head[1])
            if not missing:
                model = model.eval().requires_grad_(False)
                self._streams = self._verdict(model).kind == "streamed"
                self.model, self.predicts = model, head[0]
                if self.predicts == CLASSES and model.config.num_labels == 1:
                    self.predicts = SCORE
        super().load()
        return self

    @torch.inference_mode()
    def look(self, encoding: BatchEncoding, without: Sequence[Head] = (), how: str = WAYS[0]) -> Seen:
        """One input through the whole model, heads disabled."""
        model, layers = self.loaded(), list[Tensor]()
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = {name: torch.tensor([encoding[name]]) for name in names if name in encoding}
        scope = disabled(model, without, how) if without else nullcontext()
        with scope, weights_go_to(lambda weights: layers.append(weights[0].float())):
            output = model(**inputs, output_hidden_states=True, output_attentions=not self._streams)
        maps = torch.stack(layers if self._streams else [layer[0].float() for layer in output.attentions])
        require_finite(self, encoding, maps)
        logits = None if self.predicts == OUTPUT else output.logits[0].float()
        return Seen(maps, logits, output.hidden_states[-1][0].float())


def head_of(config: PreTrainedConfig, spec: EncoderSpec) -> tuple[str, Any] | None:
    """What the model says it was trained to predict, and how to load it so; None where it says nothing."""
    if spec.init != "pretrained" or config.is_encoder_decoder:
        return None
    names = cast("Sequence[str]", config.architectures or ())
    return next((head for name in names for end, head in HEADS.items() if name.endswith(end)), None)


class LiveModel:
    """One model of the atlas; not for two threads at once."""

    def __init__(self, spec: EncoderSpec, sha256: str | None = None) -> None:
        self.encoder = PredictingEncoder(**vars(spec))
        if sha256 and self.encoder.checksum() != sha256:
            raise InputError(f"{spec.name}: its weights are not those that the atlas was made with (sha256 {sha256[:8]}…).")
        self.encoder.load()
        self.tokenizer = self.encoder.tokenizer()

    def answer(self, texts: Sequence[str], without: Sequence[Head] = (), how: str = WAYS[0]) -> dict[str, Any]:
        """The input with all maps, as the page draws it, and what the model predicts, beside that of all its heads."""
        shown = Shown(tuple(texts), typed=True)
        encoding = shown.tokenised(self.tokenizer)
        self._require_short(len(encoding["input_ids"]))
        now = self.encoder.look(encoding, without, how)
        before = self.encoder.look(encoding) if without else None
        tokens = self.tokenizer.convert_ids_to_tokens(encoding["input_ids"])
        return {
            "sentence": entry_of(shown, encoding, tokens, now.maps),
            "prediction": self.prediction(encoding, now, before),
        }

    def _require_short(self, length: int) -> None:
        positions = getattr(self.encoder.config, "max_position_embeddings", None) or MOST_TOKENS
        if length > (most := min(MOST_TOKENS, positions, self.tokenizer.model_max_length)):
            raise TooLong(f"The text has {length:,} tokens; up to {most} are shown here, so shorten it.")

    def prediction(self, encoding: BatchEncoding, now: Seen, before: Seen | None) -> dict[str, Any]:
        """What is predicted, in groups of rows: a label, its value, and its value with all heads where some are disabled."""
        kind = self.encoder.predicts
        if kind == OUTPUT or now.logits is None:
            moved = (
                [] if before is None else [{"label": "cosine", "value": cosine(now.states, before.states), "before": 1.0}]
            )
            return {"kind": OUTPUT, "groups": [{"title": "", "rows": moved}] if moved else []}
        if kind == SCORE:
            was = None if before is None else float(cast(Tensor, before.logits))
            rows: list[Row] = [{"label": "score", "value": float(now.logits), "before": was}]
            return {"kind": kind, "groups": [{"title": "", "rows": rows}]}
        groups = []
        for title, at in self._places(encoding):
            shares = now.logits[at].softmax(-1)
            was = None if before is None else cast(Tensor, before.logits)[at].softmax(-1)
            groups.append({"title": title, "rows": self._rows(shares, was)})
        return {"kind": kind, "groups": groups, "mask": self.tokenizer.mask_token}

    def _places(self, encoding: BatchEncoding) -> list[tuple[str, Any]]:
        """Where something is predicted: the whole input, every masked token, or behind the last one."""
        if self.encoder.predicts == CLASSES:
            return [("", slice(None))]
        if self.encoder.predicts == NEXT:
            return [("next token", -1)]
        mask = self.tokenizer.mask_token_id
        masked = [place for place, token in enumerate(encoding["input_ids"]) if token == mask]
        return [(f"{self.tokenizer.mask_token} at token {place + 1}", place) for place in masked]

    def _rows(self, shares: Float[Tensor, "label"], before: Float[Tensor, "label"] | None) -> list[Row]:
        """The most likely labels, now or with all heads, with their shares."""
        most = len(shares) if self.encoder.predicts == CLASSES else BEST
        wanted = dict.fromkeys(
            index for one in (shares, before) if one is not None for index in one.topk(most).indices.tolist()
        )
        return [
            {"label": self._label(index), "value": float(shares[index])}
            | {"before": None if before is None else float(before[index])}
            for index in sorted(wanted, key=lambda index: -float(shares[index]))
        ]

    def _label(self, index: int) -> str:
        if self.encoder.predicts == CLASSES:
            return str(cast("Mapping[int, str]", self.encoder.loaded().config.id2label)[index])
        return cast(str, self.tokenizer.decode([index])).strip() or str(self.tokenizer.convert_ids_to_tokens(index))


def cosine(one: Float[Tensor, "token size"], other: Float[Tensor, "token size"]) -> float:
    """How alike two outputs are: the cosine of their means over tokens."""
    return float(torch.nn.functional.cosine_similarity(one.mean(0), other.mean(0), dim=0))
