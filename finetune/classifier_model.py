"""A classifier over an encoder: with its own weights, or with weights drawn anew."""

import math
from typing import Any

from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.models import ModelFiles
from headscope.data_modules.readers.glue import Task
from headscope.errors import ConfigError, InputError, given, require_choice
from headscope.layout import Layout

INITS = ("pretrained", "normal")
STANDARD_DEVIATION = 0.02


def load_classifier(
    spec: EncoderSpec,
    task: Task,
    seed: int,
    trained: bool = False,
    dropout: float | int | None = None,
    layout: Layout = Layout(),  # noqa: B008, it cannot be changed
) -> PreTrainedModel:
    """A model with one output per label; a head that is not in the weights is drawn by the seed, or refused.

    `dropout` stands for every rate that the model's own configuration has; None leaves them. The classifier of a causal
    model reads the last token that is no padding, and is told which id that is.
    """
    require_choice("encoder.init", spec.init, INITS)
    if spec.dtype != "float32":
        raise ConfigError(f"encoder.dtype={spec.dtype}: a classifier is float32; trainer.precision= lowers it.")
    if dropout is not None and not 0 <= dropout < 1:
        raise ConfigError(f"module.dropout={dropout}: expected a number from 0 to less than 1, or null for the model's own.")
    files = ModelFiles(spec)
    names = dict(enumerate(task.labels or ("score",)))
    changes: dict[str, Any] = {
        "num_labels": task.outputs,
        "problem_type": "single_label_classification" if task.labels else "regression",
        "label2id": {label: number for number, label in names.items()},
        "id2label": names,
    }
    if layout.causal:
        changes["pad_token_id"] = layout.padding
    if spec.init == "normal":
        changes["initializer_range"] = STANDARD_DEVIATION
    if dropout is not None:
        rates = dropout_rates(files.config())
        if not rates:
            raise ConfigError(f"module.dropout={dropout}: {spec.name} has no dropout that could be set; leave it null.")
        changes |= dict.fromkeys(rates, dropout)
    failure = f"no classifier with {task.outputs} outputs there"
    model, missing = files.load(AutoModelForSequenceClassification, None, seed, failure, **changes)
    if trained:
        require_labels(files, names)
    if trained and missing:
        raise InputError(
            f"{files.folder}: has no trained classification head; fine-tune first (experiment=kovaleva_glue) "
            "and name the model folder of that run with encoder.name=."
        )
    return model


def require_number(key: str, value: object, above: float | None = None) -> None:
    """Refuse what is no finite number from 0, or not above a bound."""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or number < 0 or (above is not None and number <= above):
        raise ConfigError(f"{key}={value}: expected a number {'from 0' if above is None else f'above {above:g}'}.")


def dropout_rates(config: PreTrainedConfig) -> list[str]:
    """The names that the rates of dropout have in a model's configuration; they differ between architectures."""
    return [
        name
        for name, value in config.to_dict().items()
        if ("dropout" in name or name.endswith("pdrop")) and (value is None or isinstance(value, (int, float)))
    ]


def require_labels(files: ModelFiles, expected: dict[int, str]) -> None:
    """Refuse a model that was trained for other labels, or the same in another order; unnamed labels pass."""
    named = given(files.config().id2label, f"{files.folder}: id2label")
    unnamed = all(str(name).startswith("LABEL_") for name in named.values())
    if not unnamed and {int(number): name for number, name in named.items()} != expected:
        found, wanted = (", ".join(map(str, labels.values())) for labels in (named, expected))
        raise InputError(f"{files.folder}: was trained for the labels {found}, the task has {wanted}.")
