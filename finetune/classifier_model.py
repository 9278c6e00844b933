"""A classifier over an encoder: with its own weights, or with weights drawn anew."""

from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from headscope.data_modules.encoders.frozen import first_line, quiet_loading
from headscope.data_modules.readers.glue_tasks import Task
from headscope.errors import ConfigError, InputError, require_choice

INITS = ("pretrained", "normal")
STANDARD_DEVIATION = 0.02


def load_classifier(
    folder: str | Path,
    task: Task,
    init: str,
    seed: int,
    trained: bool = False,
    remote: bool = False,
    dropout: float | int | None = None,
) -> PreTrainedModel:
    """A model with one output per label; a head that is not in the weights is drawn by the seed, or refused.

    `dropout` stands for every rate that the model's own configuration has; None leaves them.
    """
    require_choice("encoder.init", init, INITS)
    if dropout is not None and not 0 <= dropout < 1:
        raise ConfigError(f"module.dropout={dropout}: expected a number from 0 to less than 1, or null for the model's own.")
    options = {
        "trust_remote_code": remote,
        "num_labels": task.outputs,
        "problem_type": "single_label_classification" if task.labels else "regression",
        "label2id": {label: number for number, label in enumerate(task.labels or ("score",))},
        "id2label": dict(enumerate(task.labels or ("score",))),
    }
    try:
        if dropout is not None:
            options |= dict.fromkeys(dropout_rates(AutoConfig.from_pretrained(folder, trust_remote_code=remote)), dropout)
        with torch.random.fork_rng(), quiet_loading():
            torch.manual_seed(seed)
            if init == "pretrained":
                return _pretrained(folder, trained, options)
            config = AutoConfig.from_pretrained(folder, **options, initializer_range=STANDARD_DEVIATION)
            return AutoModelForSequenceClassification.from_config(config, dtype=torch.float32, trust_remote_code=remote)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError, UnpicklingError) as error:
        raise InputError(f"{folder}: no classifier with {task.outputs} outputs there ({first_line(error)}).") from error


def _pretrained(folder: str | Path, trained: bool, options: dict) -> PreTrainedModel:
    model, report = AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, **options
    )
    if trained:
        require_labels(folder, options["id2label"], options["trust_remote_code"])
    if trained and report["missing_keys"]:
        raise InputError(
            f"{folder}: has no trained classification head; fine-tune first (experiment=kovaleva_glue) "
            "and name the model folder of that run with encoder.name=."
        )
    return model


def dropout_rates(config: PreTrainedConfig) -> list[str]:
    """The names that the rates of dropout have in a model's configuration; they differ between architectures."""
    return [
        name
        for name, value in config.to_dict().items()
        if ("dropout" in name or name.endswith("pdrop")) and (value is None or isinstance(value, (int, float)))
    ]


def require_labels(folder: str | Path, expected: dict[int, str], remote: bool = False) -> None:
    """Refuse a model that was trained for other labels, or the same in another order; unnamed labels pass."""
    named = AutoConfig.from_pretrained(folder, trust_remote_code=remote).id2label
    unnamed = all(str(name).startswith("LABEL_") for name in named.values())
    if not unnamed and {int(number): name for number, name in named.items()} != expected:
        found, wanted = (", ".join(map(str, labels.values())) for labels in (named, expected))
        raise InputError(f"{folder}: was trained for the labels {found}, the task has {wanted}.")
