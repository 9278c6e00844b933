"""What a folder says of an earlier run: whether it is the same, and how far it came; and making room for another."""

import copy
import logging
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from headscope.contracts import RunResults, Source
from headscope.errors import ConfigError, DamagedFile, InputError, given
from headscope.files import files_sha256, local_path, read_json, write_json
from headscope.processes import is_first_process
from headscope.reports.results import HEADS, RESULTS, finished_results

log = logging.getLogger(__name__)
NOTE = "config.json"
SHAPE = {"id": str, "config": dict, "data": {str: str}, "named": {str: str}}
# What others read of a run; results.json has the checksums.
READ_BACK = (HEADS, "predictions.csv", "model", "atlas.json", "tuned/heads.csv")
# All that a finished run may leave in its folder: a later one in the same folder would pass it off as its own.
LEFT_BY_A_RUN = (RESULTS, *READ_BACK, "figures", "atlas.html", "report.html", "report.pdf")


# The same configuration


def plain_config(cfg: DictConfig) -> dict[str, Any]:
    """The configuration with every reference filled in."""
    keep_texts(cfg)
    return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))


def keep_texts(cfg: DictConfig) -> None:
    """Let `${` in what a user wrote as text (the keys of `plain_text`) stand for itself, and for no reference."""
    for key in cfg.get("plain_text") or ():
        node: Any = cfg._get_node(key)
        if node is not None:
            OmegaConf.update(
                cfg, key, _escaped(OmegaConf.to_container(node) if OmegaConf.is_config(node) else node._value())
            )


def task_overrides() -> list[str]:
    """The overrides of the command line as they were typed, also those with `${` in them."""
    return cast(list[str], OmegaConf.to_container(HydraConfig.get().overrides.task))


def _escaped(text: Any) -> Any:
    if isinstance(text, list):
        return [_escaped(one) for one in text]
    return re.sub(r"\\*\$\{", r"\\${", text) if isinstance(text, str) else text


def comparable(config: Mapping[str, Any], free: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The part of a configuration that decides the numbers, with the run's own folder taken out of its values.

    `free` names the keys that do not, with all below them; the configuration's own `may_differ_on_resume` unless given.
    """
    own = config.get("run_dir")
    if free is None:
        free = cast(Mapping[str, Any], config.get("may_differ_on_resume") or {})
    return _part(config, own, {key for key, may_differ in free.items() if may_differ}, "")


def _part(value: Any, folder: str | None, free: set[str], prefix: str) -> Any:
    if isinstance(value, Mapping):
        names = {key: f"{prefix}{key}" for key in value}
        return {key: _part(value[key], folder, free, f"{name}.") for key, name in names.items() if name not in free}
    return value.replace(folder, "${run_dir}") if isinstance(value, str) and folder else value


def changed_keys(before: Any, after: Any, prefix: str = "") -> list[str]:
    """The dotted names of the values that differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted({*before, *after})
        return [
            name
            for key in keys
            for name in changed_keys(before.get(key), after.get(key), f"{prefix}.{key}" if prefix else key)
        ]
    return [] if before == after else [prefix]


def changed_settings(before: Mapping[str, Any], config: Mapping[str, Any]) -> list[str]:
    """The keys that decide the numbers and are not as before, by what the present configuration says of keys."""
    free = config.get("may_differ_on_resume") or {}
    return changed_keys(comparable(before, free), comparable(config, free))


# The same content


def named_files(value: Any, own: Path) -> dict[str, str]:
    """The files that a configuration names, and the results of runs whose folders it names, with their checksums.

    What lies in the run's own folder is its own business.
    """
    files = {file for text in _texts(value) for file in _named(text) if not file.is_relative_to(own.resolve())}
    return {str(file): files_sha256([file]) for file in sorted(files)}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _texts(part)


def _named(text: str) -> Iterator[Path]:
    if "/" not in text and "." not in text:
        return  # a word of the configuration, which a file of that name is not to disturb
    try:
        path = local_path(text).resolve()
        yield from (file for file in (path, path / RESULTS) if file.is_file())
    except (OSError, RuntimeError, ValueError, InputError):  # no path at all; who reads it will say so
        return


def changed_content(before: Mapping[str, str]) -> list[str]:
    """Of files that a run read, given with their checksums, those that are there and hold something else by now."""
    return [name for name, sha256 in before.items() if Path(name).is_file() and files_sha256([Path(name)]) != sha256]


# What a run's folder says of it


@dataclass
class Note:
    """What a run's folder says of the run from its start (config.json): its configuration, what it reads, its identity."""

    config: dict[str, Any]
    data: dict[str, str] = field(default_factory=dict)  # checksums of all files that its data and models are made of
    named: dict[str, str] = field(default_factory=dict)  # the same of the files that the configuration names
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @classmethod
    def read(cls, folder: Path) -> "Note | None":
        """The note of a folder, if a run was begun there; an error where it is damaged."""
        way_out = "what was begun there cannot be told, so use a new run_dir, or leave resume=true out to start anew"
        content = read_json(folder / NOTE, dict, way_out)
        if content is None or not SHAPE.keys() <= content.keys():
            return None
        content = given(read_json(folder / NOTE, SHAPE, way_out), NOTE)
        return cls(content["config"], content["data"], content["named"], content["id"])

    @classmethod
    def of(cls, folder: Path) -> "Note | None":
        """The same; where it is damaged, what whole results say of their run."""
        try:
            return cls.read(folder)
        except DamagedFile as error:
            if (done := finished_or_damaged(folder)) is None:
                raise
            log.warning("%s: damaged, so that results.json is asked what the run was (%s)", folder / NOTE, error)
            return cls(comparable(done.provenance.config), {**done.provenance.data, **done.provenance.inputs})

    def write(self, folder: Path) -> None:
        """Into the folder, by the first process."""
        if is_first_process():
            content = {"id": self.run_id, "config": self.config, "data": self.data, "named": self.named}
            write_json(folder / NOTE, content)

    def changed(self) -> list[str]:
        """The files that hold something else now."""
        return changed_content(self.named | self.data)


def prepare_folder(folder: Path, cfg: DictConfig) -> RunResults | None:
    """Make room for a new run, or find what an earlier one left; its results if it had finished."""
    config, before = plain_config(cfg), Note.of(folder) if cfg.resume else None
    if cfg.resume and before is None and (folder / NOTE).is_file():
        raise ConfigError(f"resume=true: the run in {folder} was begun by another version; use a new run_dir.")
    if before:
        if changed := changed_settings(before.config, config):
            raise ConfigError(f"resume=true: {', '.join(changed)} differ from the run in {folder}; use a new run_dir.")
        require_unchanged(folder, before.changed())
        if done := finished_or_damaged(folder):
            return done
    if is_first_process():
        inputs = {key: OmegaConf.select(cfg, key) for key in ("encoder.name", "tuned.name")}
        clear(folder, *(() if cfg.resume else ("checkpoints",)), inputs=inputs)
    note = before or Note(comparable(config))
    Note(note.config, note.data, named_files(config, folder), note.run_id).write(folder)
    return None


class FolderBefore(Callback):
    """Looks whether the folder of a run is there, before Hydra makes it."""

    missing: ClassVar[bool] = False

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Called by Hydra, before it lets the names in a folder's name be resolved."""
        HydraConfig.instance().set_config(copy.deepcopy(config))
        FolderBefore.missing = not Path(config.hydra.run.dir).exists()


def require_room(folder: Path, cfg: DictConfig) -> None:
    """Refuse to resume what is not there, and to take the place of another experiment that has finished."""
    if not is_first_process():
        return
    if cfg.resume and FolderBefore.missing:
        shutil.rmtree(folder, ignore_errors=True)  # what Hydra has just made would pass for a run the next time
        raise ConfigError(f"resume=true: there is no run in {folder}; name its folder with run_dir=, or leave resume out.")
    if cfg.resume or cfg.overwrite or not (folder / RESULTS).is_file():
        return
    try:
        done = finished_results(folder)
    except (DamagedFile, InputError):
        return  # nothing that anybody could use
    if done and done.experiment != cfg.experiment_name:
        raise ConfigError(
            f"run_dir={folder}: holds the finished run of {done.experiment}; use another run_dir, "
            "or overwrite=true to put this one in its place."
        )


def finished_or_damaged(folder: Path) -> RunResults | None:
    """The results of a run that finished; None where it did not, or where they are damaged and to be computed again."""
    try:
        done = finished_results(folder)
    except DamagedFile as error:
        log.warning("%s It is computed again now.", error)
        return None
    gone = [name for name in done.provenance.data if not Path(name).is_file()] if done else []
    if gone:
        log.warning("%s: gone since the run in %s read it; its results stand as they are.", ", ".join(gone), folder)
    return done


def is_done(folder: Path, config: Mapping[str, Any]) -> RunResults | None:
    """The results in a folder, if they are whole, of this configuration, and of files that hold what they held."""
    done = finished_or_damaged(folder)
    if done is None or changed_settings(done.provenance.config, config):
        return None
    note = Note.of(folder)
    return None if changed_content({**done.provenance.data, **done.provenance.inputs}) or (note and note.changed()) else done


def require_unchanged(folder: Path, changed: Sequence[str]) -> None:
    """Refuse to go on where a file that the run has read holds something else now."""
    if changed:
        raise ConfigError(f"resume=true: {', '.join(changed)} changed since the run in {folder} read it; use a new run_dir.")


def note_data(folder: Path, source: Source) -> None:
    """Keep what the data files hold, so that a resumed run notices a change; an error where one was changed, by content.

    Files may be elsewhere than they were; none may be gone, or new.
    """
    if note := Note.read(folder):
        data = {**source.data, **source.inputs}
        if note.data and Counter(note.data.values()) != Counter(data.values()):
            old, new = set(note.data.values()), set(data.values())
            different = [name for name, one in note.data.items() if one not in new]
            different += [name for name, one in data.items() if one not in old]
            require_unchanged(folder, different or sorted(data))
        Note(note.config, data, note.named, note.run_id).write(folder)


def clear(folder: Path, *more: str, keep: Sequence[str] = (), inputs: Mapping[str, str | None] | None = None) -> None:
    """Remove what an earlier run left in a folder of ours; an error where this run, by a key of it, is to read from that."""
    if not any((folder / name).is_file() for name in (NOTE, RESULTS)):
        return  # no run's folder: what is there is the user's
    require_not_lost(folder, inputs or {}, *more, keep=keep)
    for name in [name for name in (*LEFT_BY_A_RUN, *more) if name not in keep]:  # results.json, which vouches for all, first
        left = folder / name
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


def require_not_lost(folder: Path, inputs: Mapping[str, str | None], *more: str, keep: Sequence[str] = ()) -> None:
    """Refuse a folder in which this run, by a key of it, is to read what it would remove."""
    gone = {*LEFT_BY_A_RUN, *more} - set(keep)
    for key, name in inputs.items():
        if name and any(Path(name).expanduser().resolve().is_relative_to((folder / left).resolve()) for left in gone):
            raise ConfigError(f"run_dir={folder}: {key}={name} lies in it and would be lost; use another run_dir.")
