"""Whether numbers can show anything: of the packaged samples, or of a few inputs, they cannot, and every report says so."""

from pathlib import Path

from headscope.contracts import Source

FEW = 30  # inputs
WHOLE = ("votes.csv", "maps.safetensors")  # real maps of real encoders, in full


def is_sample(path: Path) -> bool:
    """Whether it is of the small samples that ship with the project; the set of labelled maps is no such sample."""
    return ("data_modules", "samples") in zip(path.parts, path.parts[1:], strict=False) and path.name not in WHOLE


def inputs(source: Source) -> int | None:
    """The inputs that were tested, or those of the only part that there is."""
    counts = source.examples
    return counts.get("test", next(iter(counts.values())) if len(counts) == 1 else None)


def sample_notes(source: Source) -> list[str]:
    """A warning where the inputs are too few, or too much of our own making, to show anything; else none."""
    count = inputs(source)
    if any(is_sample(Path(file)) for file in source.data):
        return ["A sample that ships with the project: no evidence."]
    return [f"A sample of {count} inputs: no evidence."] if count and count < FEW else []
