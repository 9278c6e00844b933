"""What an atlas will run: which parts, for which model, with which overrides; mistakes are found before any work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hydra.core.global_hydra import GlobalHydra
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.files import local_path, read_json
from headscope.reports.results import RESULTS, finished_results, way_out

AUTO, HUB = "auto", "hub"
ENCODER, TUNED = "encoder", "tuned"  # the two models
CONTENT = "atlas.json"
Step = tuple[str, str]  # model and part


@dataclass(frozen=True)
class Planned:
    """A part that is to be run: of which model, where, and with which of its analyses."""

    name: str
    part: DictConfig
    folder: Path
    given: Sequence[str]  # overrides of the command line that all parts get
    always: Sequence[str]  # the atlas's own for all parts
    experiments: Mapping[str, str] = field(default_factory=dict)  # that each analysis of the part is known from
    analyses: Sequence[str] = ()  # those of them that are to be run
    encoder: Mapping[str, Any] | None = None  # another model than the atlas's own, whole
    own_data: str | None = None  # the user's own file or folder, where the part reads one


def check(cfg: DictConfig) -> Any:
    """Find mistakes before any work; returns the encoder, its weights not yet read."""
    for key in ("only", "tuned_parts", "shown"):
        for name in as_list(cfg[key]):
            if name not in cfg.parts:
                raise ConfigError(f"{key}: {name} is no part of the atlas{did_you_mean(name, cfg.parts)}")
    for kind, path in cfg.data_of.items():
        if path is not None and path != HUB and not local_path(path).exists():
            raise InputError(f"data_of.{kind}={path}: no such file or folder.")
    if cfg.beside is not None:
        first_model_of(cfg.beside)
    for key in ("change", "revision", "sha256") if cfg.tuned.name == AUTO else ():
        if cfg.tuned[key] is not None:
            raise ConfigError(f"tuned.{key}={cfg.tuned[key]}: of which model? Give tuned.name= too, or tuned.name=null.")
    encoder = instantiate(cfg.encoder, _convert_="all")
    if cfg.tuned.name != AUTO and (tuned := instantiate(cfg.tuned, _convert_="all")):
        encoder.require_same_shape(tuned)
        tuned.require_maps()
    instantiate(cfg.encoder, _convert_="all").require_maps()  # of its own, so that no weights stay in memory
    return encoder


def first_model_of(folder: str) -> dict[str, Any]:
    """The model of another atlas."""
    path = Path(folder).expanduser()
    missing = ConfigError(f"beside={folder}: no finished atlas there (expected {RESULTS} and {CONTENT}).")
    if finished_results(path) is None:  # which also checks the content
        raise missing
    content = read_json(path / CONTENT, {"models": [{"name": str, "encoder": dict}]}, way_out(path))
    if not content or not content["models"]:
        raise missing
    return content["models"][0]


def as_list(value: Any) -> list[Any]:
    """Several of what was given, or the one."""
    return [value] if isinstance(value, str) else list(value or ())


def made_by(cfg: DictConfig, part: str) -> dict[str, str]:
    """The keys of the atlas that a part makes, and the file of its folder that each is."""
    return dict(cfg.parts[part].get("makes") or {}) if cfg.parts[part] else {}


def wanted_parts(cfg: DictConfig) -> list[str]:
    """The parts that were asked for, never one more; one that makes a key runs only where the key is left to it."""
    chosen = set(as_list(cfg.only) or cfg.parts)
    return [
        name
        for name, part in cfg.parts.items()
        if part and name in chosen and all(OmegaConf.select(cfg, key) == AUTO for key in made_by(cfg, name))
    ]


def steps(cfg: DictConfig) -> list[Step]:
    """Model and part, in order; the fine-tuned model comes second, where one is there or made."""
    wanted = wanted_parts(cfg)
    chosen = [name for name, analyses in (cfg.tuned_parts or {}).items() if name in wanted and analyses is not None]
    second = chosen if has_tuned(cfg) and cfg.beside is None else []
    return [(ENCODER, name) for name in wanted] + [(TUNED, name) for name in second]


def needs_of(cfg: DictConfig, step: Step) -> list[Step]:
    """The parts without whose results a step would be out of date; all of the fine-tuned model need who makes it."""
    model, name = step
    return [(ENCODER, need) for need in [*cfg.parts[name].get("needs", []), *(makers(cfg) if model == TUNED else [])]]


def waves(cfg: DictConfig) -> list[list[Step]]:
    """The steps in groups that can run at the same time, each after those that it needs."""
    left, groups = steps(cfg), []
    while left:
        group = [step for step in left if not set(needs_of(cfg, step)) & set(left)]
        if not group:
            raise ConfigError(f"parts: {', '.join(name for _, name in left)} need each other.")
        groups.append(group)
        left = [step for step in left if step not in group]
    return groups


def has_tuned(cfg: DictConfig) -> bool:
    """Whether there is a fine-tuned model, or one will be made."""
    return cfg.tuned.name is not None or cfg.tuned.change is not None


def makers(cfg: DictConfig) -> list[str]:
    """The parts that make a key of the atlas."""
    return [name for name in cfg.parts if made_by(cfg, name)]


def never_made(cfg: DictConfig) -> dict[str, None]:
    """The keys that were left to a part which is not wanted."""
    wanted = wanted_parts(cfg)
    keys = [key for name in makers(cfg) if name not in wanted for key in made_by(cfg, name)]
    return {key: None for key in keys if OmegaConf.select(cfg, key) == AUTO}


def not_asked_for(cfg: DictConfig) -> list[dict[str, str]]:
    """Rows of what was left out: the parts that `only` does not name and whose keys others of it would need."""
    asked, missing = as_list(cfg.only), never_made(cfg)
    needed = {need for name in wanted_parts(cfg) for need in cfg.parts[name].get("needs", [])}
    return [
        {
            "experiment": cfg.parts[name].experiment,
            "why": f"only=[{','.join(asked)}] does not name {name}; add it, or give {'= and '.join(keys)}=.",
        }
        for name in makers(cfg)
        if name in needed and name not in asked and (keys := [key for key in made_by(cfg, name) if key in missing])
    ]


def settled(cfg: DictConfig, made: Mapping[str, str | None]) -> DictConfig:
    """A copy in which the keys that parts make have their values; the atlas's own configuration stays as it is."""
    copy = cfg.copy()
    for key, value in made.items():
        OmegaConf.update(copy, key, value)
    return copy


def plan(cfg: DictConfig, model: str, name: str, given: Sequence[str]) -> Planned:
    """A part of the atlas's own model, or the same of the fine-tuned one in a folder below."""
    folder, known, data = Path(cfg.run_dir), analyses_of(name), own_data(cfg, name)
    always = list(cfg.every_part)
    if model == TUNED:
        alone = settled(cfg, dict.fromkeys(("tuned.name", "tuned.change"))).parts[name]
        chosen = list(cfg.tuned_parts[name]) or list(known)
        return Planned(name, alone, folder / TUNED / name, given, always, known, chosen, spec_of(cfg.tuned), data)
    part = cfg.parts[name]
    of_tuned = part.get("of") == TUNED and has_tuned(cfg)
    encoder = spec_of(cfg.tuned) if of_tuned else None  # where there is none, the encoder itself may be a classifier
    return Planned(name, part, folder / name, given, always, known, list(known), encoder, data)


def analyses_of(part: str) -> dict[str, str]:
    """The analyses that say in their files (`atlas_parts`) that they are run in a part, and the experiment of each."""
    loader: Any = GlobalHydra.instance().config_loader()
    declared = [loader.repository.load_config(f"analyses/{name}").config for name in loader.get_group_options("analyses")]
    found = {name: row for one in declared for name, row in (one.get("atlas_parts") or {}).items() if row.part == part}
    return {name: row.experiment for name, row in sorted(found.items(), key=lambda item: item[1].order)}


def spec_of(tuned: DictConfig) -> dict[str, Any]:
    """The fine-tuned model as a run's encoder: every key of it."""
    content = cast(dict[str, Any], OmegaConf.to_container(tuned, resolve=True))
    base = content.pop("base")
    return {key: value for key, value in content.items() if key != "_target_"} | {"name": content["name"] or base}


def own_data(cfg: DictConfig, name: str) -> str | None:
    """The user's own files that a part reads."""
    kinds = as_list(cfg.parts[name].get("reads"))
    return next((str(cfg.data_of[kind]) for kind in kinds if cfg.data_of[kind] is not None), None)
