"""What an atlas will run: which parts, for which model, with which overrides; mistakes are found before any work."""

from collections.abc import Sequence
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.data_modules.base import require_same_shape
from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.files import local_path
from headscope.reports.results import read_json
from headscope.runs.atlas.parts import Planned
from headscope.runs.help import CONF

AUTO, TUNED, HUB = "auto", "tuned", "hub"
FIRST, SECOND = "first", "second"
CONTENT = "atlas.json"
OF_THE_ATLAS = (
    "experiment", "run_dir", "resume", "data_of", "task", "tuned", "compare_with", "only", "sentences", "parts",
    "every_part", "second", "shown", "typed_tokens", "map_bytes", "least_words", "questions", "quantities", "facts",
    "show", "figures", "published",
)  # fmt: skip
OF_ONE_EXPERIMENT = ("data", "module", "analyses", "stages", "job", "monitor")


def overrides_for_parts(given: Sequence[str], encoder: str) -> list[str]:
    """The encoder's group option and the user's overrides, which every part takes; an error for what only one could."""
    of_all_data = OmegaConf.load(CONF / "data" / "_shared.yaml")
    kept = [f"encoder={encoder}"]  # also where an experiment by itself would take another
    for override in given:
        key = override.lstrip("+~").partition("=")[0]
        group, _, rest = key.partition("@")[0].partition(".")
        if group in OF_ONE_EXPERIMENT and not (group == "data" and rest.partition(".")[0] in of_all_data):
            way = "data_of.<kind>= names files" if group == "data" else f"parts.<part>.overrides=['{override}'] is for one"
            raise ConfigError(f"{key}: an atlas has several parts, each with its own; {way}.")
        if group not in OF_THE_ATLAS and key != "encoder":
            kept.append(override)
    return kept


def check(cfg: DictConfig) -> FrozenEncoder:
    """Find mistakes before any work; returns the encoder, its weights not yet read."""
    for key in ("only", "second", "shown"):
        for name in as_list(cfg[key]):
            if name not in cfg.parts:
                raise ConfigError(f"{key}: {name} is no part of the atlas{did_you_mean(name, cfg.parts)}")
    for kind, path in cfg.data_of.items():
        if path is not None and path != HUB and not local_path(path).exists():
            raise InputError(f"data_of.{kind}={path}: no such file or folder.")
    if cfg.compare_with not in (None, TUNED):
        first_model_of(cfg.compare_with)
    encoder = instantiate(cfg.encoder, _convert_="all")
    if cfg.tuned not in (None, AUTO):
        require_same_shape(encoder, FrozenEncoder(cfg.tuned))
    return encoder


def first_model_of(folder: str) -> dict[str, object]:
    """The model of another atlas."""
    try:
        return read_json(Path(folder).expanduser() / CONTENT)["models"][0]
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise ConfigError(f"compare_with={folder}: no finished atlas there (expected {CONTENT}).") from error


def as_list(value: object) -> list:
    """Several of what was given, or the one."""
    return [value] if isinstance(value, str) else list(value or ())


def wanted_parts(cfg: DictConfig) -> list[str]:
    """The parts that the user did not leave out, and those that they need; none that makes what is given already."""
    chosen = set(as_list(cfg.only) or cfg.parts)
    chosen |= {need for name in chosen if cfg.parts[name] for need in cfg.parts[name].get("needs", [])}
    return [
        name
        for name, part in cfg.parts.items()
        if part and name in chosen and all(cfg[key] == AUTO for key in part.get("makes", {}))
    ]


def steps(cfg: DictConfig) -> list[tuple[str, str]]:
    """Model and part, in order; the second model is the fine-tuned one, where one is there or made."""
    wanted = wanted_parts(cfg)
    second = [name for name in cfg.second if name in wanted] if cfg.compare_with == TUNED and cfg.tuned is not None else []
    return [(FIRST, name) for name in wanted] + [(SECOND, name) for name in second]


def makers(cfg: DictConfig) -> list[str]:
    """The parts that make a key of the atlas."""
    return [name for name, part in cfg.parts.items() if part and part.get("makes")]


def with_what_is_not_made(cfg: DictConfig) -> DictConfig:
    """A copy in which a key that was left to a part is null where that part is not wanted."""
    cfg, wanted = cfg.copy(), wanted_parts(cfg)
    for maker in makers(cfg):
        for key in cfg.parts[maker].makes:
            if cfg[key] == AUTO and maker not in wanted:
                cfg[key] = None
    return cfg


def plan(cfg: DictConfig, model: str, name: str, shared: Sequence[str]) -> Planned:
    """A part of the first model, or the same of the fine-tuned one in a folder below."""
    folder = Path(cfg.run_dir)
    if model == FIRST:
        part = cfg.parts[name]
        return Planned(name, part, folder / name, shared, list(part.get("analyses", {})))
    alone = cfg.copy()
    alone.tuned = None
    return Planned(name, alone.parts[name], folder / TUNED / name, shared, list(cfg.second[name]), cfg.tuned)
