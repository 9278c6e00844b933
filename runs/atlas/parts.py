"""The parts of an atlas: ordinary runs, each in a folder of its own; what the model or data does not allow is left out."""

import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hydra import compose
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.contracts import Row
from headscope.errors import DamagedFile, DataError, InputError
from headscope.runs.atlas.plan import Planned, Step
from headscope.runs.children import compose_child, key_of, run_child
from headscope.runs.explain import causes
from headscope.runs.part_jobs import Child, launched
from headscope.runs.resume import Note, changed_settings, finished_or_damaged, plain_config

log = logging.getLogger(__name__)
REPORT = "report.txt"  # what a part prints


@dataclass
class Outcome:
    """What became of a part: its configuration and whether it was computed now, unless it was left out altogether."""

    cfg: DictConfig | None = None
    analyses: Sequence[str] = ()
    computed: bool = False
    left_out: list[Row] = field(default_factory=list)
    failed: str | None = None  # the sentence of a mistake in the user's own files


Attempts = Generator[DictConfig, InputError | None, Outcome]  # gives what to run, is told the mistake that ended it


def run_part(planned: Planned, resume: bool) -> Outcome:
    """Run a part in this process, or as much of it as the model and data allow."""
    trying, error = attempts(planned, resume), None
    while True:
        try:
            cfg = trying.send(error)
        except StopIteration as end:
            return end.value
        error = mistake_of_running(cfg)


def run_together(tries: Mapping[Step, tuple[Planned, bool]], description: str) -> dict[Step, Outcome]:
    """Run several parts, each with whether a finished one is kept, at the same time, as jobs of the chosen launcher."""
    trying = {step: attempts(planned, resume) for step, (planned, resume) in tries.items()}
    outcomes: dict[Step, Outcome] = {}
    told: dict[Step, InputError | None] = dict.fromkeys(trying)
    while told:
        children: dict[Step, Child] = {}
        for step, error in told.items():
            try:
                children[step] = Child(step[1], trying[step].send(error), REPORT)
            except StopIteration as end:
                outcomes[step] = end.value
        found = launched(list(children.values()), description) if children else []
        mistakes = zip(children, found, strict=True)
        told = {step: one if isinstance(one, InputError) else None for step, one in mistakes}
    return outcomes


def attempts(planned: Planned, resume: bool) -> Attempts:
    """A part, or as much of it as the model and data allow; with `resume`, a finished one is kept as it is."""
    refused = refusals(planned, left_out_before(planned)) if resume else {}
    outcome, error = yield from attempt(planned, without(planned.analyses, refused), resume)
    if outcome is None and len(planned.analyses) > 1 and not isinstance(error, DataError):
        refused = refusals(planned, planned.analyses)
        allowed = without(planned.analyses, refused)
        if refused and allowed:
            outcome, error = yield from attempt(planned, allowed, resume)
        elif refused:
            outcome = Outcome()
    if outcome is None:
        failed = str(error) if planned.own_data and isinstance(error, DataError) else None
        return Outcome(left_out=[{"experiment": planned.part.experiment, "why": str(error)}], failed=failed)
    outcome.left_out = [{"experiment": planned.experiments[name], "why": reason} for name, reason in refused.items()]
    return outcome


def without(analyses: Sequence[str], refused: Mapping[str, str]) -> list[str]:
    """The analyses that are not refused."""
    return [name for name in analyses if name not in refused]


def left_out_before(planned: Planned) -> list[str]:
    """The analyses that the run in the part's folder went on without."""
    note = note_of(planned)
    before = (note.config.get("analyses") if note else None) or planned.analyses
    return [name for name in planned.analyses if name not in before]


def note_of(planned: Planned) -> Note | None:
    """What the part's folder says of an earlier run; nothing where it is damaged, and the part is run anew."""
    try:
        return Note.of(planned.folder)
    except DamagedFile as error:
        log.warning("%s The part is run anew.", error)
        return None


def refusals(planned: Planned, analyses: Sequence[str]) -> dict[str, str]:
    """Which of the analyses cannot be built alone, and why."""
    return {name: str(error) for name in analyses if (error := refusal(planned, name))}


def attempt(
    planned: Planned, analyses: Sequence[str], resume: bool
) -> Generator[DictConfig, InputError | None, tuple[Outcome | None, InputError | None]]:
    """The run with these analyses; or none, and the mistake that says why."""
    cfg = compose_part(planned, analyses)
    note = note_of(planned)
    cfg.resume = bool(resume and note and not changed_settings(note.config, plain_config(cfg)) and not note.changed())
    if cfg.resume and finished_or_damaged(planned.folder) is not None:
        return Outcome(cfg, analyses), None
    mistake = yield cfg
    return (None, mistake) if mistake else (Outcome(cfg, analyses, computed=True), None)


def mistake_of_running(cfg: DictConfig) -> InputError | None:
    """Run a part in this process; the user's mistake, or what the model lacks, where that ended it."""
    try:
        run_child(cfg, Path(cfg.run_dir) / REPORT)
    except Exception as error:
        if (mistake := mistake_in(error)) is None:
            raise
        return mistake
    wait_for_all()
    return None


def refusal(planned: Planned, analysis: str) -> InputError | None:
    """Why an analysis alone cannot be built; None where it can."""
    cfg = compose_part(planned, [analysis])
    try:
        datamodule = instantiate(cfg.data, _convert_="all")
        instantiate(cfg.module, _convert_="all")(facts=datamodule.facts())
    except Exception as error:
        if (mistake := mistake_in(error)) is None:
            raise
        return mistake
    return None


def compose_part(planned: Planned, analyses: Sequence[str]) -> DictConfig:
    """The configuration of a part: its experiment, the user's overrides, its own, and the atlas's settings."""
    part = planned.part
    chosen = [f"analyses=[{','.join(analyses)}]"] if analyses else []
    own = [*chosen, *planned.always, *own_overrides(planned, analyses)]
    cfg = compose_child(part.experiment, planned.folder, planned.given, own, settings_of(planned))
    # Whole: what was said of the atlas's own encoder, such as a checksum, is not about this one.
    for key, value in (planned.encoder or {}).items():
        cfg.encoder[key] = value
    # A parser is loaded only where one of the analyses asks for it.
    if cfg.parser and not any(experiment_of(planned, planned.experiments[name]).parser for name in analyses):
        cfg.parser = None
    return cfg


def settings_of(planned: Planned) -> dict[str, Any]:
    """What the atlas sets in a part, such as its data, by dotted key."""
    return plain_config(planned.part).get("settings") or {}


def own_overrides(planned: Planned, analyses: Sequence[str]) -> list[str]:
    """The part's overrides, without those of its analyses that are not run."""
    not_run = tuple(f"analyses.{name}." for name in planned.experiments if name not in analyses)
    return [text for text in planned.part.get("overrides", []) if not key_of(text).startswith(not_run)]


def published_figures(planned: Planned, analyses: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The published figures of every experiment that a part stands for."""
    experiments = [planned.experiments[name] for name in analyses] or [planned.part.experiment]
    found = {name: experiment_of(planned, name) for name in dict.fromkeys(experiments)}
    return {name: plain_config(cfg.published) for name, cfg in found.items()}


def experiment_of(planned: Planned, experiment: str) -> DictConfig:
    """An experiment as it would be run by itself on the part's data."""
    cfg = compose("train", [f"experiment={experiment}", *planned.given, *planned.always])
    for key, value in settings_of(planned).items():
        group, _, name = key.rpartition(".")
        if value is not None and name in (OmegaConf.select(cfg, group) if group else cfg):
            OmegaConf.update(cfg, key, value)
    return cfg


def mistake_in(error: BaseException) -> InputError | None:
    """A user's mistake, or a thing that a model lacks, behind an error; None for a defect."""
    return next((cause for cause in causes(error) if isinstance(cause, InputError)), None)


def wait_for_all() -> None:
    """With several processes, go on when the first has written its files."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
