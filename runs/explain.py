"""What an error means to a user: an exit status, and one clear sentence unless it is a defect of the program."""

import re
import sys
from collections.abc import Iterator, Sequence

import yaml
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import OmegaConfBaseException

from headscope.errors import InputError, did_you_mean
from headscope.processes import Terminated, sigterm_received
from headscope.runs.help import CONF, known_groups, known_keys

INTERRUPTED, TERMINATED = 130, 143  # by Ctrl-C and by SIGTERM, as shells count
STOPPED_BY = {INTERRUPTED: "interrupted", TERMINATED: "interrupted by SIGTERM"}
BAD_CONFIGURATION = 2
MODELS = ("encoder", "tuned")  # groups whose options are models


class Explained(SystemExit):
    """The end of the program with a status whose sentence has been printed."""


def explain(error: BaseException, overrides: Sequence[str] | None = None) -> tuple[int, str | None]:
    """The exit status of an error, and its sentence unless it is a defect of the program."""
    chain, overrides = list(causes(error)), sys.argv[1:] if overrides is None else overrides
    if how := interrupted(error):
        return how, f"{STOPPED_BY[how]}; resume=true with the same run_dir goes on from the last checkpoint."
    for cause in chain:
        if isinstance(cause, InputError):
            return cause.exit_status, str(cause)
    if isinstance(error, InstantiationException):
        return _explain_instantiation(error, chain, overrides)
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        return BAD_CONFIGURATION, explain_configuration(error)
    if isinstance(error, (TypeError, ValueError)) and (wrong := words_for_numbers(overrides)):
        return BAD_CONFIGURATION, wrong
    return 1, None


def _explain_instantiation(
    error: InstantiationException, chain: list[BaseException], overrides: Sequence[str]
) -> tuple[int, str | None]:
    """A value that a class refuses is the user's; anything else is ours."""
    reasons = [cause for cause in chain if not isinstance(cause, InstantiationException)]
    key = re.search(r"full_key: (\S+)", str(error))
    where = f" in {key[1]}" if key else ""
    if wrong := words_for_numbers(overrides):
        return BAD_CONFIGURATION, wrong
    if not reasons or type(reasons[0]).__name__ in ("TypeError", "ValueError", "MisconfigurationException"):
        reason = str(reasons[0]) if reasons else str(error)
        return BAD_CONFIGURATION, f"bad configuration{where}: {_one_line(reason)}"
    return 1, None


def explain_configuration(error: Exception) -> str:
    """A sentence for what Hydra could not compose, with the near matches."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        file = str(error.missing_cfg_file)
        # A path given for a model has slashes of its own; groups of Hydra's have one.
        group, _, name = file.partition("/") if file.partition("/")[0] in MODELS else file.rpartition("/")
        known = error.options or [file.stem for file in (CONF / group).glob("[!_]*.yaml")]
        kind = "launcher among those installed (extras joblib, slurm, ray)" if group == "hydra/launcher" else group
        if group in MODELS and "/" in name:
            return f"{group}={name}: no such {kind}; a folder or hub id goes into {group}.name=."
        return f"{group}={name}: no such {kind}{did_you_mean(name, known)}"
    text = str(error)
    if key := re.search(r"Could not override '([^']+)'", text):
        wrong = key[1].partition("@")[0]
        return f"{wrong}: no such key{did_you_mean(wrong, [*known_keys(sys.argv[1:]), *known_groups()])}"
    if isinstance(error, OverrideParseException):
        return f"{error.override}: not of the form key=value ({_one_line(text)})."
    if isinstance(error, ConfigCompositionException) and error.__cause__ is not None:
        text = f"{text} {error.__cause__}"
    return f"bad configuration: {_one_line(text)}"


def words_for_numbers(overrides: Sequence[str]) -> str | None:
    """A sentence for the first override that gives a word where the configuration has a number."""
    numbers = {key: value for key, value in known_keys(overrides).items() if isinstance(value, (int, float))}
    for key, _, value in (override.lstrip("+").partition("=") for override in overrides):
        if key in numbers and isinstance(yaml.safe_load(value), str):
            return f"{key}={value}: expected a value like {str(numbers[key]).lower()}."
    return None


def interrupted(error: BaseException) -> int | None:
    """The exit status where a user or the system ended the run; what else went wrong meanwhile came of that."""
    chain = list(causes(error))
    if sigterm_received() or any(isinstance(one, Terminated) or type(one).__name__ == "SIGTERMException" for one in chain):
        return TERMINATED
    return INTERRUPTED if any(isinstance(one, KeyboardInterrupt) for one in chain) else None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _one_line(text: str) -> str:
    return " ".join(text.split())
