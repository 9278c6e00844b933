"""Encoders by the names that tables of labels use."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from headscope.contracts import EncoderSpec
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.errors import InputError

PATTERNS = Path(__file__).parents[2] / "conf" / "data" / "patterns.yaml"
SPEC = tuple(field.name for field in fields(EncoderSpec))


def encoder_options(file: Path | None, given: Sequence[str]) -> dict[str, dict[str, str]]:
    """The encoders of a YAML file (`encoders: {NAME: {name: ..., change: ...}}`) and those given as NAME=PATH."""
    options = _of_file(file or PATTERNS) if file or PATTERNS.is_file() else {}
    for one in given:
        name, equals, path = one.partition("=")
        if not (name and equals and path):
            raise InputError(f"--encoder {one}: expected NAME=PATH, such as mine=outputs/mrpc/model.")
        options[name] = {"name": path}
    return options


def _of_file(file: Path) -> dict[str, dict[str, str]]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        content: Any = OmegaConf.to_container(OmegaConf.load(file), resolve=False)
        found = content["encoders"]
        # What refers to the rest of a configuration, such as the seed, is not known here and decides no trained model.
        given = {name: {key: value for key, value in one.items() if key in SPEC and value} for name, one in found.items()}
        return {
            name: {"name": one["name"], **{key: value for key, value in one.items() if not str(value).startswith("${")}}
            for name, one in given.items()
        }
    except (OSError, YAMLError, OmegaConfBaseException, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: expected YAML with encoders: {{NAME: {{name: PATH}}}}.") from error


def open_encoders(names: Iterable[str], options: Mapping[str, Mapping[str, str]]) -> dict[str, FrozenEncoder]:
    """The encoders that are needed, without their weights yet."""
    encoders = {}
    for name in dict.fromkeys(names):
        if name not in options:
            raise InputError(f"the table names the encoder {name}; say where it is with --encoder {name}=PATH.")
        encoders[name] = FrozenEncoder(**options[name])
    return encoders
