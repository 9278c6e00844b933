"""The parts of an atlas: ordinary runs, each in a folder of its own; what the model or data does not allow is left out."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import torch
from hydra import compose
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.errors import InputError
from headscope.processes import is_first_process
from headscope.reports.results import finished_results, read_json
from headscope.runs.cli import causes
from headscope.runs.provenance import plain_config
from headscope.runs.training import comparable


@dataclass(frozen=True)
class Planned:
    """A part that is to be run: on which encoder (None: the atlas's own), where, and with which of its analyses."""

    name: str
    part: DictConfig
    folder: Path
    shared: Sequence[str]  # overrides of all parts
    analyses: Sequence[str] = ()
    encoder: str | None = None


@dataclass
class Outcome:
    """What became of a part: its configuration and whether it was computed now, unless it was left out altogether."""

    cfg: DictConfig | None = None
    analyses: Sequence[str] = ()
    computed: bool = False
    left_out: list[dict[str, str]] = field(default_factory=list)


def run_part(planned: Planned, resume: bool) -> Outcome:
    """Run a part, or as much of it as the model and data allow; with `resume`, a finished one is kept as it is."""
    refused = refusals(planned, left_out_before(planned)) if resume else {}
    outcome, why = attempt(planned, without(planned.analyses, refused), resume)
    if outcome is None and len(planned.analyses) > 1:
        refused = refusals(planned, planned.analyses)
        allowed = without(planned.analyses, refused)
        if refused and allowed:
            outcome, why = attempt(planned, allowed, resume)
        elif refused:
            outcome = Outcome()
    if outcome is None:
        return Outcome(left_out=[{"experiment": planned.part.experiment, "why": why}])
    outcome.left_out = [{"experiment": planned.part.analyses[name], "why": reason} for name, reason in refused.items()]
    return outcome


def without(analyses: Sequence[str], refused: Mapping[str, str]) -> list[str]:
    """The analyses that are not refused."""
    return [name for name in analyses if name not in refused]


def left_out_before(planned: Planned) -> list[str]:
    """The analyses that the run in the part's folder went on without."""
    before = (read_json(planned.folder / "config.json") or {}).get("analyses") or planned.analyses
    return [name for name in planned.analyses if name not in before]


def refusals(planned: Planned, analyses: Sequence[str]) -> dict[str, str]:
    """Which of the analyses cannot be built alone, and why."""
    return {name: reason for name in analyses if (reason := refusal(planned, name))}


def attempt(planned: Planned, analyses: Sequence[str], resume: bool) -> tuple[Outcome | None, str | None]:
    """The run with these analyses; or none, and the sentence that says why."""
    cfg = compose_part(planned, analyses)
    cfg.resume = resume and read_json(planned.folder / "config.json") == comparable(plain_config(cfg))
    finished = cfg.resume and finished_results(planned.folder) is not None
    if finished:
        return Outcome(cfg, analyses), None
    try:
        with output_to(planned.folder / "report.txt"):
            get_method(cfg.job)(cfg)
    except Exception as error:
        if (why := sentence(error)) is None:
            raise
        return None, why
    wait_for_all()
    return Outcome(cfg, analyses, computed=True), None


def refusal(planned: Planned, analysis: str) -> str | None:
    """Why an analysis alone cannot be built; None where it can."""
    cfg = compose_part(planned, [analysis])
    try:
        datamodule = instantiate(cfg.data, _convert_="all")
        instantiate(cfg.module, _convert_="all")(facts=datamodule.facts())
    except Exception as error:
        if (why := sentence(error)) is None:
            raise
        return why
    return None


def compose_part(planned: Planned, analyses: Sequence[str]) -> DictConfig:
    """The configuration of a part: its experiment, the user's overrides, its own, and the atlas's settings."""
    part = planned.part
    chosen = [f"analyses=[{','.join(analyses)}]"] if analyses else []
    cfg = compose("train", [f"experiment={part.experiment}", *planned.shared, *chosen, *own_overrides(part, analyses)])
    for key, value in (part.get("settings") or {}).items():
        if value is not None:
            OmegaConf.update(cfg, key, value)
    if encoder := planned.encoder or part.get("encoder"):
        cfg.encoder.name, cfg.encoder.sha256, cfg.encoder.init = str(encoder), None, "pretrained"
    # A parser is loaded only where one of the analyses asks for it.
    if cfg.parser and not any(experiment_of(planned, part.analyses[name]).parser for name in analyses):
        cfg.parser = None
    cfg.experiment_name, cfg.run_dir = part.experiment, str(planned.folder)
    return cfg


def own_overrides(part: DictConfig, analyses: Sequence[str]) -> list[str]:
    """The part's overrides, without those of its analyses that are not run."""
    not_run = tuple(f"analyses.{name}." for name in part.get("analyses", {}) if name not in analyses)
    return [text for text in part.get("overrides", []) if not text.lstrip("+~").startswith(not_run)]


def published_figures(planned: Planned, analyses: Sequence[str]) -> dict[str, Mapping]:
    """The published figures of every experiment that a part stands for."""
    experiments = [planned.part.analyses[name] for name in analyses] or [planned.part.experiment]
    found = {name: experiment_of(planned, name) for name in dict.fromkeys(experiments)}
    return {name: OmegaConf.to_container(cfg.published, resolve=True) for name, cfg in found.items()}


def experiment_of(planned: Planned, experiment: str) -> DictConfig:
    """An experiment as it would be run by itself on the part's data."""
    cfg = compose("train", [f"experiment={experiment}", *planned.shared])
    for key, value in (planned.part.get("settings") or {}).items():
        group, _, name = key.rpartition(".")
        if value is not None and name in (OmegaConf.select(cfg, group) if group else cfg):
            OmegaConf.update(cfg, key, value)
    return cfg


def sentence(error: BaseException) -> str | None:
    """What a user's mistake, or a thing that a model lacks, says; None for a defect."""
    return next((str(cause) for cause in causes(error) if isinstance(cause, InputError)), None)


@contextmanager
def output_to(file: Path) -> Iterator[None]:
    """What a run prints goes into a file beside its results; the terminal is the atlas's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    target = file if is_first_process() else Path(os.devnull)
    with target.open("w", encoding="utf-8") as stream, redirect_stdout(stream):
        yield


def wait_for_all() -> None:
    """With several processes, go on when the first has written its files."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
