"""What an error means to a user: an exit status, and one clear sentence unless it is a defect of the program."""

import errno
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.processes import Terminated, sigterm_received
from headscope.runs.help import CONF, known_groups, known_keys

INTERRUPTED, TERMINATED = 130, 143  # by Ctrl-C and by SIGTERM, as shells count
STOPPED_BY = {INTERRUPTED: "interrupted", TERMINATED: "interrupted by SIGTERM"}
BAD_CONFIGURATION = 2
MODELS = ("encoder", "tuned")  # groups whose options are models
# Of Hydra's own command line.
FLAGS = (
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
)  # fmt: skip
FULL = "free some, or use another run_dir (HEADSCOPE_CACHE= for stored maps); resume=true goes on from the last checkpoint"
ANOTHER = "change that, or name another file or run_dir (HEADSCOPE_CACHE= for stored maps)"
SYSTEM_ERRORS = {
    errno.ENOSPC: f"no space is left on this disk; {FULL}.",
    errno.EDQUOT: f"your quota on this disk is used up; {FULL}.",
    errno.EFBIG: f"is larger than this disk or `ulimit -f` allows; {ANOTHER}.",
    errno.EROFS: f"this disk can only be read; {ANOTHER}.",
    errno.EACCES: f"permission denied; {ANOTHER}.",
    errno.EPERM: f"not permitted; {ANOTHER}.",
    errno.ENOENT: "no such file or folder.",
    errno.ENOTDIR: f"a file stands where a folder should be; {ANOTHER}.",
    errno.EEXIST: f"a file stands where a folder should be; {ANOTHER}.",
    errno.EISDIR: f"a folder stands where a file should be; {ANOTHER}.",
    errno.ENOTEMPTY: f"a folder that is not empty is in the way; {ANOTHER}.",
    errno.ENAMETOOLONG: "the name is too long for this disk; use a shorter one, or a shorter run_dir.",
    errno.EMFILE: "too many files are open; raise the limit (`ulimit -n`) or use fewer data.workers.",
    errno.ENFILE: "the system has too many files open; try again later.",
    errno.ENOMEM: "there is not enough memory.",
    errno.EIO: f"the disk cannot read or write it; {ANOTHER}.",
    errno.EPIPE: "whoever read what is printed, or a process of the run, has ended; what was written into files is there.",
}


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
    if told := system_error(error):
        return 1, told
    if isinstance(error, InstantiationException):
        return _explain_instantiation(error, chain, overrides)
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        return BAD_CONFIGURATION, explain_configuration(error, overrides)
    if isinstance(error, (TypeError, ValueError)) and (wrong := words_for_numbers(overrides, str(error))):
        return BAD_CONFIGURATION, wrong
    return 1, None


def system_error(error: BaseException | None) -> str | None:
    """What the system refused, with the file and the way out, where that is what an error comes from."""
    while error is not None:
        text = str(error)
        quoted = re.search(r"os error (\d+)|Os \{ code: (\d+)", text)  # as libraries written in Rust say it
        number = error.errno if isinstance(error, OSError) else int(quoted[1] or quoted[2]) if quoted else None
        if number in SYSTEM_ERRORS and (number != errno.ENOENT or getattr(error, "filename", None)):
            file = getattr(error, "filename", None)
            where = os.fsdecode(file) if isinstance(file, str | bytes | os.PathLike) else "the system says"
            return f"{where}: {SYSTEM_ERRORS[number]}"
        if isinstance(error, RuntimeError) and re.search("PytorchStreamWriter|inline_container", text):
            return f"a checkpoint could not be written, most likely because {SYSTEM_ERRORS[errno.ENOSPC]}"
        if isinstance(error, RuntimeError) and "home directory" in text:
            return "~: no home folder is known; set HOME, or write paths without ~ (HEADSCOPE_CACHE= for stored maps)."
        error = error.__cause__  # not its context, which may have been dealt with
    return None


def defect_line(packages: Mapping[str, str | None]) -> str:
    """What to do about a defect, below its traceback, given the versions of packages."""
    known = {"Python": platform.python_version(), **packages}
    versions = ", ".join(f"{name} {number}" for name, number in known.items() if number)
    return f"this is a defect of headscope; please report it with the traceback above, the command and {versions}."


def _explain_instantiation(
    error: InstantiationException, chain: list[BaseException], overrides: Sequence[str]
) -> tuple[int, str | None]:
    """A value that a class refuses is the user's; anything else is ours."""
    reasons = [cause for cause in chain if not isinstance(cause, InstantiationException)]
    key = re.search(r"full_key: (\S+)", str(error))
    where = f" in {key[1]}" if key else ""
    if wrong := words_for_numbers(overrides, " ".join(map(str, reasons)), key[1] if key else ""):
        return BAD_CONFIGURATION, wrong
    if not reasons or type(reasons[0]).__name__ in ("TypeError", "ValueError", "MisconfigurationException"):
        reason = str(reasons[0]) if reasons else str(error)
        return BAD_CONFIGURATION, f"bad configuration{where}: {_one_line(reason)}"
    return 1, None


def explain_configuration(error: Exception, overrides: Sequence[str]) -> str:
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
        return f"{wrong}: no such key{did_you_mean(wrong, [*known_keys(overrides), *known_groups()])}"
    if isinstance(error, OverrideParseException):
        word = str(error.override)
        if (CONF / "experiment" / f"{word}.yaml").is_file():
            return f"{word}: did you mean experiment={word}?"
        return f"{word}: not of the form key=value ({_one_line(text)})."
    if isinstance(error, ConfigCompositionException) and error.__cause__ is not None:
        text = f"{text} {error.__cause__}"
    as_text = " (\\${ stands for the text ${)" if isinstance(error, InterpolationKeyError) else ""
    return f"bad configuration: {_one_line(text)}{as_text}"


def require_no_dashes(words: Sequence[str]) -> None:
    """Refuse keys that are written as the flags of other programs; Hydra's own flags pass."""
    for number, word in enumerate(words):
        flag, _, value = word.partition("=")
        if not flag.startswith("--") or flag in FLAGS:
            continue
        key, after = flag.lstrip("-").replace("-", "_"), [*words[number + 1 : number + 2], ""][0]
        value = value or ("" if "=" in after else after)
        known = key in known_groups() or key in known_keys(())
        meant = f"did you mean {key}={value or '…'}?" if known else "they are written key=value; --help lists them."
        raise ConfigError(f"{flag}: keys have no dashes; {meant}")


def words_for_numbers(overrides: Sequence[str], text: str, instantiated: str = "") -> str | None:
    """A sentence for the first override that gives a word where the configuration has a number, if that led to an error.

    It did if what was `instantiated` is what the override is about, or if the error's text quotes it or speaks of strings.
    """
    numbers = {key: value for key, value in known_keys(overrides).items() if isinstance(value, (int, float))}
    for key, _, value in (override.lstrip("+").partition("=") for override in overrides if not _is_sweep(override)):
        if key in numbers and isinstance(yaml.safe_load(value), str):
            about = bool(instantiated) and f"{key}.".startswith(f"{instantiated}.")
            if about or value in text or re.search(r"\bstr(ing)?s?\b", text):
                return f"{key}={value}: expected a value like {str(numbers[key]).lower()}."
    return None


def _is_sweep(override: str) -> bool:
    try:
        return OverridesParser.create().parse_override(override).is_sweep_override()
    except HydraException:
        return False


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
