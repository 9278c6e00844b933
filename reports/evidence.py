"""Whether numbers can show anything: of the packaged samples, or of a few inputs, they cannot, and every report says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headscope.contracts import INITS, Source

FEW = 30  # inputs
WHOLE = ("votes.csv", "maps.safetensors")  # real maps of real encoders, in full
# The states of a model that published figures are of (`published.state`), and what `encoder.init` has to be for each.
STATES = {
    "pre-trained": ("pretrained",),
    "random but for its embeddings": ("embeddings",),
    "fine-tuned": INITS,  # from any start, which the figure itself depends on
    "any": INITS,
}


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


def of_the_same_state(published: Mapping[str, Any], encoder: Mapping[str, Any]) -> bool:
    """Whether published figures are of a model in the state of ours: they never stand beside another."""
    state = published.get("state")
    if state is None:
        return True
    return encoder.get("init", INITS[0]) in STATES[state] and not (state == "pre-trained" and encoder.get("change"))
