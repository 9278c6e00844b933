"""The reproducibility checklist of a run, filled from its provenance: machine, time, parameters, search, data.

The items are those that conferences ask for (Dodge et al. 2019, Show Your Work). What a run did not write down is said to
be missing, never guessed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headscope.contracts import Provenance, Row, RunResults
from headscope.reports.evidence import is_sample, sample_notes

NOT_RECORDED = "not recorded"
NONE = "none"
INSIDE = "see the runs inside this one, each in a folder of its own"
DIGITS = 12  # of a checksum
SPLITS = ("train", "val", "test")
HYPERPARAMETERS = ("module", "trainer", "callbacks")
# Keys of these that say how a run is built or shown, and nothing of what it learns.
NOT_LEARNT = ("_target_", "_partial_", "_convert_", "enable_", "log_every", "logger", "num_sanity", "dirpath", "filename")
RANGE = re.compile(r"^(?:\w+\()+|,")  # a value that stands for several
# Where the program lies, before its name; the folder of ours may have blanks in its name.
FOLDER = re.compile(r"^(?:/.*?/(?=(?:train\.py|headscope)(?:\s|$))|\S*/)")
QUOTED = re.compile(r"^'[^']*/([^'/]+)'(?=\s|$)")  # a program in such a folder, as a shell takes it
MINUTE, HOUR = 60, 3600


def checklist(results: RunResults) -> list[Row]:
    """Items by group, each with what the run wrote down."""
    parts = {
        "results": evaluation,
        "computing infrastructure": infrastructure,
        "model": model,
        "hyper-parameters": hyperparameters,
        "search": search,
        "data": data,
    }
    return [
        {"group": group, "item": item, "value": value if value not in (None, "") else NOT_RECORDED}
        for group, items in parts.items()
        for item, value in items(results)
    ]


def evaluation(results: RunResults) -> Iterator[tuple[str, str]]:
    """What was measured; what a validation part said stands beside what the test part says."""
    parts: dict[str, list[str]] = {}
    for name, value in results.metrics.items():
        part, _, metric = name.rpartition("/")
        parts.setdefault(part, []).append(f"{metric} {number(value)}")
    yield "experiment", results.experiment
    yield "validation figures", some(parts.pop("val", []))
    yield "test figures", some([figure for figures in parts.values() for figure in figures])
    yield "seed of all that is drawn", str(results.provenance.seed)
    yield "evidence", " ".join(sample_notes(results.provenance)) or "no packaged sample, and not few inputs"


def infrastructure(results: RunResults) -> Iterator[tuple[str, str]]:
    """Machine, time, code and packages."""
    known = results.provenance
    machine = known.hardware
    gpus = ", ".join(machine.get("gpus") or ()) or "no GPU"
    yield "hardware", f"{machine['machine']}, {machine['system']}, {machine['cores']} cores, {gpus}" if machine else ""
    yield "time", duration(known.seconds)
    yield "packages", ", ".join(f"{name} {version}" for name, version in known.packages.items() if version)
    git = known.git
    changed = ", with changes that are not in it" if git and git.get("changed") else ""
    yield "code", f"commit {git['commit'][:DIGITS]}{changed}" if git else "an installed package, no checkout"
    yield "command", command_of(known)


def command_of(known: Provenance) -> str:
    """The command without the folder of the program, which is another one on the reader's machine."""
    return FOLDER.sub("", QUOTED.sub(r"\1", known.command))


def model(results: RunResults) -> Iterator[tuple[str, str]]:
    """The models that were read, and how many parameters they have."""
    known = results.provenance
    for name, one in (("model", known.encoder), ("fine-tuned model", known.tuned_encoder or {})):
        if one.get("name"):
            yield name, described(one)
            yield f"parameters of the {name}", number(one.get("parameters"))
    trained = known.trained_parameters
    untrained = INSIDE if known.config.get("rows") else "none: nothing was trained"
    yield "parameters that were trained", untrained if trained is None else number(trained)
    if known.vectors:
        yield "word vectors", f"{known.vectors['size']} numbers, {100 * known.vectors['coverage']:.1f} % of the words known"


def described(encoder: Mapping[str, Any]) -> str:
    """A model by its name, state and weights."""
    told = {"revision": "revision", "init": "weights", "dtype": "in", "change": "changed by"}
    said = [f"{word} {encoder[key]}" for key, word in told.items() if encoder.get(key)]
    return ", ".join([str(encoder["name"]), *said, f"sha256 {str(encoder.get('sha256'))[:DIGITS]}"])


def hyperparameters(results: RunResults) -> Iterator[tuple[str, str]]:
    """Every number and word that decides training, where there was any."""
    config = results.provenance.config
    if "fit" not in (config.get("stages") or ()):
        yield "training", INSIDE if config.get("rows") else NONE
        return
    keys = {key: value for part in HYPERPARAMETERS for key, value in leaves(config.get(part) or {}, part)}
    batch = (config.get("data") or {}).get("batch_size")
    for key, value in {**keys, "data.batch_size": batch}.items():
        if value is not None and not any(part in key for part in NOT_LEARNT):
            yield key, str(value)


def leaves(node: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The values of a configuration by dotted key."""
    if isinstance(node, Mapping):
        for key, child in node.items():
            yield from leaves(child, f"{path}.{key}")
    else:
        yield path, node


def search(results: RunResults) -> Iterator[tuple[str, str]]:
    """How the values were found: method, bounds, number of trials, criterion and the best."""
    jobs = results.tables.get("jobs")
    if not jobs:
        yield "search", "none: one configuration was run"
        return
    known = results.provenance.config.get("search") or {}
    yield "method", str(known.get("_target_", "")).rpartition(".")[2]
    for key, bounds in searched(results, jobs).items():
        yield f"bounds of {key}", bounds
    done = sum(job["status"] == "done" for job in jobs)
    yield "trials", f"{len(jobs)}, of which {done} finished"
    yield "criterion", f"{known.get('metric')}, {known.get('direction')}"
    best = [job for row in results.tables.get("best", ()) for job in jobs if job["job"] == row["job"]]
    yield "best values", "; ".join(f"{key}={value}" for job in best for key, value in job["values"].items())


def searched(results: RunResults, jobs: Sequence[Row]) -> dict[str, str]:
    """The range of every key that differs between jobs: as the command or the search space gave it, else what was tried."""
    tried: dict[str, dict[str, None]] = {}
    for job in jobs:
        for key, value in job["values"].items():
            tried.setdefault(key, {})[value] = None
    words = (word.lstrip("+").partition("=") for word in results.provenance.command.split())
    given = {key: value for key, _, value in words if RANGE.search(value)}
    space = (results.provenance.config.get("search") or {}).get("space") or {}
    return {key: given.get(key) or str(space.get(key) or ",".join(values)) for key, values in tried.items()}


def data(results: RunResults) -> Iterator[tuple[str, str]]:
    """Files, splits, and what was not used of them."""
    known = results.provenance
    for file, sha256 in known.data.items():
        sample = ", packaged sample" if is_sample(Path(file)) else ""
        yield f"file {Path(file).name}", f"sha256 {sha256[:DIGITS]}{sample}"
    splits = [split for split in SPLITS if split in known.examples]
    for split in [*splits, *(split for split in known.examples if split not in splits)]:
        yield f"examples: {split}", f"{known.examples[split]:,}"
    yield "skipped as too long", counted(known.skipped)
    yield "words without pieces", counted(known.words_without_pieces)
    yield "left out", counted(known.left_out)


def counted(counts: Mapping[str, int]) -> str:
    """How often each thing happened, as far as it did."""
    return some([f"{count:,} {what}" for what, count in counts.items() if count])


def some(texts: Sequence[str]) -> str:
    """The texts in one, or that there are none."""
    return ", ".join(texts) or NONE


def number(value: float | None) -> str:
    """A number as people write it."""
    if value is None:
        return "not defined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds / HOUR:.2f} h" if seconds >= HOUR else f"{seconds / MINUTE:.1f} min"
