"""An experiment of one GLUE task, or of several at once: a run for each of `tasks`, joined.

Where an experiment is about fine-tuned models, each task's is the one that `tuned_of` names, the one that `tuned_run` left,
or one that is fine-tuned inside this run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from headscope.contracts import ChildRun, Findings, Grid, HeadValues, Quantity, Row, RunResults, Section, by_name
from headscope.contracts import joined as as_one
from headscope.errors import ConfigError, InputError
from headscope.reports.terminal import quoted
from headscope.runs import tables, training
from headscope.runs.children import compose_child, key_of, run_child
from headscope.runs.limits import launcher_is_chosen
from headscope.runs.part_jobs import Child, run_children
from headscope.runs.resume import task_overrides

MODEL_IN = ("{}_pre-trained/model", "tuned_{}/model", "{}/model")  # where runs leave the fine-tuned model of a task


@dataclass(frozen=True)
class Task:
    """A task whose model is to be fine-tuned."""

    label: str


def run(cfg: DictConfig) -> RunResults:
    """The experiment itself where no tasks are named."""
    if not cfg.tasks:
        model = named_model(cfg, cfg.data.get("task"))
        for override in of_model(cfg, model) if model else ():
            key, _, value = override.partition("=")
            OmegaConf.update(cfg, key, str(model) if key == cfg.model_key else {"null": None}.get(value, value))
        return training.run(cfg)
    require_models(cfg)
    if launcher_is_chosen():  # all at the same time, and before what needs them
        run_children([Task(task) for task in to_tune(cfg)], lambda one: tuning(cfg, one.label), cfg.experiment_name)
    return tables.run(cfg, partial(with_model, cfg))


# The fine-tuned model of a task


def named_model(cfg: DictConfig, task: str | None) -> Path | None:
    """The folder that is named for a task, or that a named run left."""
    if task is None:  # no task of GLUE: a treebank, say
        return None
    named, run_folder = (cfg.get("tuned_of") or {}).get(task), cfg.get("tuned_run")
    if named or not run_folder:
        return Path(named) if named else None
    places = [Path(run_folder) / place.format(task) for place in MODEL_IN]
    return next((place for place in places if place.is_dir()), None)


def has_own(cfg: DictConfig) -> bool:
    """Whether the second model is named by its own key, such as tuned.name=out/${data.task}/model."""
    own = cfg.get("tuned") if cfg.get("model_key") == "tuned.name" else None
    return bool(own and (own.name or own.change))


def to_tune(cfg: DictConfig) -> list[str]:
    """The tasks whose model this run fine-tunes."""
    if has_own(cfg) or not cfg.get("fine_tune"):
        return []
    return [task for task in cfg.tasks if named_model(cfg, task) is None]


def require_models(cfg: DictConfig) -> None:
    """An error, before any work, for a task that lacks files, or has a model in a run that cannot be found."""
    run_folder = cfg.get("tuned_run")
    if run_folder and not Path(run_folder).is_dir():
        raise ConfigError(f"tuned_run={run_folder}: no such folder.")
    lacking = instantiate(cfg.lacking, _convert_="all")(splits=["train", "val"]) if to_tune(cfg) else {}
    for task in to_tune(cfg):
        if why := lacking.get(task):
            raise InputError(f"{task}: is to be fine-tuned, but {why}; name a model with tuned_of.{task}=.")


def with_model(cfg: DictConfig, planned: tables.Planned) -> Sequence[str]:
    """The overrides that give a row its task's model, which is fine-tuned now where there is none."""
    if has_own(cfg):
        return []
    model = named_model(cfg, planned.value)
    if model is None and planned.value in to_tune(cfg):
        child = tuning(cfg, planned.value)
        if not launcher_is_chosen():
            run_child(child.cfg)
        model = child.folder / "model"
    return of_model(cfg, model) if model else []


def tuning(cfg: DictConfig, task: str) -> Child:
    """The run that fine-tunes the model of a task."""
    given = [text for text in task_overrides() if is_below(key_of(text), cfg.handed_to_tuning)]
    folder = Path(cfg.run_dir) / f"tuned_{task}"
    own = [f"data.task={task}", *cfg.tuning]
    return Child(f"fine-tuning, {task}", compose_child("kovaleva_glue", folder, given, own))


def is_below(key: str, entries: Mapping[str, Any]) -> bool:
    """Whether a key, or one above it, has an entry."""
    parts = key.split(".")
    return any(".".join(parts[:length]) in entries for length in range(1, len(parts) + 1))


def of_model(cfg: DictConfig, model: Path) -> list[str]:
    """The overrides that name a model; what else was said of the one that training began with is not about it."""
    group = cfg.model_key.partition(".")[0]
    reset = [f"{group}.{key}=null" for key in ("revision", "change", "sha256")] + [f"{group}.init=pretrained"]
    return [f"{cfg.model_key}={quoted(str(model))}", *reset]


# Several tasks as one


def joined(
    parts: Sequence[ChildRun], tables: Sequence[str], more: Callable[[Sequence[ChildRun]], Findings] | None = None
) -> Findings:
    """The tables with a column of tasks, and every quantity of a head once for each task; `more` is asked of all tasks."""
    rows = {name: [{"task": p.value, **row} for p in parts for row in p.results.tables.get(name, ())] for name in tables}
    notes = {name: [f"{p.value}: {line}" for p in parts for line in p.results.notes.get(name, ())] for name in tables}
    found = Findings(
        metrics={f"{p.value} {n.removeprefix('test/')}": v for p in parts for n, v in p.results.metrics.items()},
        tables={name: some for name, some in rows.items() if some},
        heads=by_name(values for part in parts for values in heads_of(part)),
        notes={name: lines for name, lines in notes.items() if lines},
    )
    return as_one([found, more(parts)]) if more else found


def heads_of(part: ChildRun) -> Iterator[HeadValues]:
    """The quantities of a part's heads, named by its task too."""
    rows: dict[str, list[Row]] = {}
    for row in part.heads:
        rows.setdefault(row["quantity"], []).append(row)
    for name, some in rows.items():
        known = {key: grid_of(some, key) for key in ("n", "low", "high", "p") if any(row.get(key) for row in some)}
        yield HeadValues(of_task(part.results.quantities[name], part.value), grid_of(some, "value"), **known)


def of_task(quantity: Quantity, task: str) -> Quantity:
    """The same quantity on one of several tasks."""
    section = Section(f"{quantity.section.name}_of_tasks", f"{quantity.section.label}, by task", quantity.section.prefix)
    return replace(quantity, name=f"{quantity.name}:{task}", label=f"{quantity.label}, {task}", section=section)


def grid_of(rows: Sequence[Row], column: str) -> Grid:
    """A column of heads.csv as rows of layers."""
    cells = {(int(row["layer"]), int(row["head"])): row.get(column) for row in rows}
    layers, heads = (max(axis) for axis in zip(*cells, strict=True))
    numbers = {head: float(value) if value not in (None, "") else None for head, value in cells.items()}
    return [[numbers.get((layer, head)) for head in range(1, heads + 1)] for layer in range(1, layers + 1)]
