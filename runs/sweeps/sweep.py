"""A sweep: jobs that differ in some overrides, each an ordinary run; stopped and started again, it goes on."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec

from hydra.core.config_loader import ConfigLoader
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import InstantiationException
from hydra.plugins.launcher import Launcher
from hydra.utils import instantiate
from omegaconf import DictConfig

from headscope.errors import ConfigError, did_you_mean
from headscope.processes import sole_run
from headscope.runs.explain import STOPPED_BY, Explained, explain
from headscope.runs.sweeps.jobs import SweepJobs
from headscope.runs.sweeps.launch import Job, LauncherFailed, launch
from headscope.runs.sweeps.report import report
from headscope.runs.sweeps.search import GridSearch

SPACE = "search/space"


def run_sweep(config: DictConfig, loader: ConfigLoader, launcher: Launcher, arguments: Sequence[str]) -> None:
    """Run the jobs that the search names and that are not done yet, then report all of them."""
    HydraConfig.instance().set_config(config)
    search = build(config.search)
    fixed, swept = split(search, loader, arguments, config.sweep_only)
    jobs = SweepJobs(config, loader, fixed)
    with ExitStack() as stack:
        trouble = run_batches(search.batches(jobs, swept), jobs, launcher, stack)
        HydraConfig.instance().set_config(config)
        report(config, jobs, search, trouble)


def run_batches(batches: Iterator[list[Job]], jobs: SweepJobs, launcher: Launcher, stack: ExitStack) -> str | None:
    """Run the jobs; the sentence of a launcher that gave up. The folder is the sweep's own once the first batch is known.

    The report of an earlier command stays until there is one to take its place.
    """
    try:
        for batch in batches:
            stack.enter_context(sole_run(jobs.folder))
            jobs.save()
            if batch:
                launch(launcher, batch, jobs.config.hydra.launcher)
    except LauncherFailed as error:
        return str(error)
    except BaseException as error:
        if (status := explain(error)[0]) in STOPPED_BY:
            print(f"{STOPPED_BY[status]}; the same command with run_dir={jobs.folder} goes on from here.", file=sys.stderr)
            raise Explained(status) from error
        raise
    return None


def build(search: DictConfig) -> GridSearch:
    """The search that the configuration names."""
    try:
        return instantiate(search, _convert_="all")
    except InstantiationException:
        if "sampler" in search and find_spec("optuna") is None:
            raise ConfigError("search=optuna: needs a package that is not installed; pip install optuna.") from None
        raise


def split(
    search: GridSearch, loader: ConfigLoader, arguments: Sequence[str], own: Mapping[str, bool]
) -> tuple[list[str], list[Override]]:
    """What all jobs share, and what differs between them: the command line's and, for other keys, the search's own.

    `own` names the keys that concern the sweep and not its jobs.
    """
    parser = OverridesParser.create(config_loader=loader)
    given = {override.get_key_element(): override for override in parser.parse_overrides(list(arguments))}.values()
    if any(override.key_or_group == "resume" and override.value() is not True for override in given):
        raise ConfigError("resume: a sweep always goes on where its folder stands; use a new run_dir to start anew.")
    for space in (override.value() for override in given if override.key_or_group == SPACE):
        if space not in (known := loader.get_group_options(SPACE)):  # Hydra takes what is optional for granted
            raise ConfigError(f"{SPACE}={space}: no such {SPACE}{did_you_mean(str(space), known)}")
    ours = [override for override in given if not own.get(override.key_or_group.partition(".")[0])]
    ranges = parser.parse_overrides(search.ranges([override.key_or_group for override in ours]))
    fixed = [str(override.input_line) for override in ours if not override.is_sweep_override()]
    return fixed, [override for override in [*ours, *ranges] if override.is_sweep_override()]
