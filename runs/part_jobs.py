"""The runs inside a run: in this process one after the other, or as jobs of the launcher that the command line names.

A job gets the configuration that the run would have here, so that its numbers are the same.
"""

import copy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, RunMode, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from headscope.contracts import RunResults
from headscope.errors import InputError, given
from headscope.processes import announced, answered_sigterm, is_first_process
from headscope.reports.results import finished_results
from headscope.runs.children import key_of, run_child
from headscope.runs.limits import BASIC, launcher_is_chosen
from headscope.runs.resume import NOTE, clear, is_done, plain_config, task_overrides
from headscope.runs.slurm import requeued_when_warned
from headscope.runs.sweeps.job import MISTAKES, recorded_job
from headscope.runs.sweeps.launch import DIED, LauncherFailed, in_folder, launch, read_failure, require_one_process


class PartsUnfinished(InputError):
    """Some runs inside a run have no results, and the command is to be given again."""


class PartDefect(RuntimeError):
    """A run inside a run ended by a defect of the program; its own traceback is in its folder."""


class Labelled(Protocol):
    """A plan of a run."""

    @property
    def label(self) -> str: ...


@dataclass(frozen=True)
class Child:
    """A run inside a run: what to call it, its configuration, and the file that gets what it prints as a job."""

    label: str
    cfg: DictConfig
    output: str = "output.txt"

    @property
    def folder(self) -> Path:
        """Where it runs."""
        return Path(self.cfg.run_dir)


@dataclass(frozen=True)
class PartJob:
    """A run inside a run, as a launcher gets it."""

    number: int
    parent: Path
    subdir: str
    overrides: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where it runs."""
        return self.parent / self.subdir

    @property
    def arguments(self) -> list[str]:
        """The overrides of the whole, and the folder of this part."""
        return [*self.overrides, *in_folder(self.parent, self.subdir)]


def run_children(planned: Sequence[Labelled], child: Callable[[Any], Child], description: str) -> list[RunResults]:
    """What the run made of each plan found; the error of the first that failed. In this process each is made in its turn."""
    if not launcher_is_chosen():
        told = announced(planned, description, lambda one: one.label)
        return [run_child(child(one).cfg) for one in told]
    children, found = [child(one) for one in planned], []
    for one, outcome in zip(children, launched(children, description), strict=True):
        if isinstance(outcome, InputError):
            raise type(outcome)(f"{one.label}: {outcome}") from outcome
        found.append(outcome)
    return found


def launched(children: Sequence[Child], description: str) -> list[RunResults | InputError]:
    """Run all that are not done as jobs, at the same time; what each found, or the user's mistake that ended it."""
    parent = Path(HydraConfig.get().runtime.output_dir)
    todo = [child for child in children if not (child.cfg.resume and is_done(child.folder, plain_config(child.cfg)))]
    trouble = None
    if todo and is_first_process():
        print(f"{description}: {len(todo)} jobs ({', '.join(child.label for child in todo)})", file=sys.stderr, flush=True)
        for child in todo:
            require_one_process(child.cfg, HydraConfig.get().launcher)
            if not child.cfg.resume:
                begin_anew(child)
        parts = {child.folder.relative_to(parent).as_posix(): content(child) for child in todo}
        overrides = tuple(text for text in task_overrides() if key_of(text) != "run_dir")
        jobs = [PartJob(number, parent, subdir, overrides) for number, subdir in enumerate(parts)]
        launcher = build_launcher(PartTask(str(parent), parts), [*overrides, *in_folder(parent, "")])
        try:
            launch(launcher, jobs, HydraConfig.get().launcher)
        except LauncherFailed as error:
            trouble = str(error)
    return outcomes(children, trouble)


def begin_anew(child: Child) -> None:
    """Remove what an earlier run left in the folder: a job that is started a second time goes on with its own alone."""
    inputs = {key: OmegaConf.select(child.cfg, key) for key in ("encoder.name", "tuned.name")}
    clear(child.folder, "checkpoints", inputs=inputs)
    (child.folder / NOTE).unlink(missing_ok=True)


def content(child: Child) -> dict[str, Any]:
    """What a process elsewhere needs to know of a run; references in its configuration are resolved there, as here."""
    return {"label": child.label, "output": child.output, "config": OmegaConf.to_container(child.cfg)}


def build_launcher(task: TaskFunction, overrides: Sequence[str]) -> Launcher:
    """The launcher of the command line, for another task than the command's own."""
    loader = GlobalHydra.instance().config_loader()
    hydra = cast(list[str], OmegaConf.to_container(HydraConfig.get().overrides.hydra))
    kept = [text for text in hydra if key_of(text) not in ("hydra.mode", "hydra.sweep.subdir")]
    config = loader.load_configuration("train", [*kept, *overrides], RunMode.MULTIRUN)
    with read_write(config.hydra), open_dict(config.hydra):
        # Each job adds its own: Hydra refuses a key that is given twice.
        config.hydra.overrides.hydra = kept
    context = HydraContext(config_loader=loader, callbacks=Callbacks(config))
    return Plugins.instance().instantiate_launcher(hydra_context=context, task_function=task, config=config)


@dataclass(frozen=True)
class PartTask:
    """What a launcher runs in the process of each job: the part whose folder Hydra made, as the whole would run it."""

    whole: str  # folder
    parts: Mapping[str, Mapping[str, Any]]

    def __call__(self, cfg: DictConfig) -> None:
        hydra = HydraConfig.get()
        folder, part = Path(hydra.runtime.output_dir), self.parts[hydra.sweep.subdir]
        child = cast(DictConfig, OmegaConf.create(moved(part["config"], self.whole, hydra.sweep.dir)))
        OmegaConf.set_struct(child, True)
        child.run_dir, child.resume = str(folder), True
        label = f"{cfg.experiment_name}, {part['label']}"
        told = recorded_job(child, folder, label, lambda: f"{label}: begins", part["output"])
        with answered_sigterm(), requeued_when_warned(), told if is_first_process() else nullcontext():
            become_part_of(Path(hydra.sweep.dir))
            run_child(child)

    def inputs(self, subdir: str) -> list[str]:
        """What other parts made for this one, below the folder of the whole."""
        named = {Path(text) for text in texts(self.parts[subdir]["config"]) if text.startswith(f"{self.whole}/")}
        others = [path for path in named if path.exists() and not path.is_relative_to(Path(self.whole, subdir))]
        return [path.relative_to(self.whole).as_posix() for path in sorted(others)]


def texts(value: Any) -> Iterator[str]:
    """All texts in a configuration."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from texts(part)


def moved(value: Any, was: str, now: str) -> Any:
    """A configuration whose paths below a folder lie below another, where a job has no disk in common with the whole."""
    if isinstance(value, Mapping):
        return {key: moved(part, was, now) for key, part in value.items()}
    if isinstance(value, list):
        return [moved(part, was, now) for part in value]
    return f"{now}{value[len(was) :]}" if isinstance(value, str) and value.startswith(f"{was}/") else value


def become_part_of(folder: Path) -> None:
    """Let all that asks Hydra hear what it would in the process of the whole, but of no launcher: jobs start none."""
    config = cast(DictConfig, copy.deepcopy(given(HydraConfig.instance().cfg, "Hydra's configuration")))
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.mode = RunMode.RUN
        config.hydra.runtime.output_dir = str(folder.absolute())
        config.hydra.launcher = {"_target_": BASIC}
    HydraConfig.instance().set_config(config)


def outcomes(children: Sequence[Child], trouble: str | None) -> list[RunResults | InputError]:
    """What the folders say of the runs; an error where some have not come to an end of their own."""
    found: list[RunResults | InputError] = []
    unfinished: dict[str, str] = {}
    for child in children:
        failure = read_failure(child.folder)
        if done := finished_results(child.folder):
            found.append(done)
        elif failure and failure.get("kind") in MISTAKES:
            found.append(MISTAKES[failure["kind"]](failure["error"]))
        elif failure and failure.get("kind") != DIED:
            raise PartDefect(f"{child.label}: {failure['error']}")
        else:
            unfinished[child.label] = failure["error"] if failure else trouble or "it has left no results"
    if unfinished:
        sentences = "; ".join(f"{label}: {why}" for label, why in unfinished.items())
        raise PartsUnfinished(
            f"{len(unfinished)} of {len(children)} parts did not finish ({sentences}); "
            "the same command with its run_dir= and resume=true tries them again."
        )
    return found
