"""How long many models take on many sentences, by the roofline of a device: python -m benchmarks.plan.

A forward pass takes at least as long as its arithmetic at the device's peak, and at least as long as moving its bytes;
the larger of the two, at a share of the peak that real programs reach, is the plan. docs/planning.md has the table.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

MODELS, SENTENCES, TOKENS = 1_000, 1_000_000, 32  # tokens of a sentence with its special ones
BATCH_TOKENS = 16_384  # as trainer=gpu has it
WEIGHT, CELL = 2, 4  # bytes: weights and activations in bfloat16, maps in float32
MAP_PASSES = 5  # a map is written as scores, read and written by softmax, read for the values and by the analyses
MACHINES, DEVICES_EACH = (1, 8, 100), 8


@dataclass(frozen=True)
class Shape:
    """What decides the cost of an encoder."""

    name: str
    layers: int
    heads: int
    hidden: int
    inner: int

    @property
    def weights(self) -> int:
        """Of all matrices that every token is multiplied with; embeddings are looked up."""
        return self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.inner)

    def flops(self, tokens: int) -> float:
        """Of the forward pass of one input: two for each weight and token, and scores and values of each pair of tokens."""
        return 2 * self.weights * tokens + self.layers * 4 * tokens**2 * self.hidden

    def map_bytes(self, tokens: int) -> float:
        """Of all attention maps of one input."""
        return self.layers * self.heads * tokens**2 * CELL

    def moved(self, tokens: int) -> float:
        """Bytes that one input moves: its maps, its activations, its share of the weights, which a batch reads once."""
        activations = self.layers * tokens * (10 * self.hidden + 2 * self.inner) * WEIGHT
        return MAP_PASSES * self.map_bytes(tokens) + activations + self.weights * WEIGHT * tokens / BATCH_TOKENS


@dataclass(frozen=True)
class Device:
    """Peaks from the data sheet, and the share of them that a program of ordinary kernels reaches."""

    name: str
    flops: float  # a second, dense bfloat16
    bandwidth: float  # bytes a second
    share: float = 0.4

    def seconds(self, shape: Shape, tokens: int) -> tuple[float, str]:
        """For one input, and what bounds it."""
        arithmetic = shape.flops(tokens) / (self.share * self.flops)
        movement = shape.moved(tokens) / (self.share * self.bandwidth)
        return max((arithmetic, "arithmetic"), (movement, "memory"))


SHAPES = (
    Shape("MiniLM-L6", 6, 12, 384, 1536),
    Shape("BERT-base", 12, 12, 768, 3072),
    Shape("BERT-large", 24, 16, 1024, 4096),
)
DEVICES = (Device("A100", 312e12, 1.555e12), Device("H100", 989e12, 3.35e12))


def forward_rows() -> Iterator[tuple[str, ...]]:
    """Of each model: what a sentence costs, and how long a million of them take on each device."""
    yield ("model", "GFLOP", "maps, MB", "moved, MB", *(f"{one.name}: bound by, sentences/s, hours" for one in DEVICES))
    for shape in SHAPES:
        cells = [f"{shape.flops(TOKENS) / 1e9:.2f}"]
        cells += [f"{size / 1e6:.2f}" for size in (shape.map_bytes(TOKENS), shape.moved(TOKENS))]
        for device in DEVICES:
            seconds, bound = device.seconds(shape, TOKENS)
            cells.append(f"{bound}, {rounded(1 / seconds)}, {seconds * SENTENCES / 3600:.3f}")
        yield (shape.name, *cells)


def machine_rows() -> Iterator[tuple[str, ...]]:
    """Of each model: how long all of it takes on some machines of several A100."""
    yield ("model", "GPU hours", *(f"{count} machine{'s' * (count > 1)}" for count in MACHINES))
    for shape in SHAPES:
        hours = DEVICES[0].seconds(shape, TOKENS)[0] * SENTENCES / 3600
        # A model is one job, so that a device takes whole models.
        walls = [math.ceil(MODELS / (count * DEVICES_EACH)) * hours for count in MACHINES]
        yield (
            shape.name,
            f"{MODELS * hours:.1f}",
            *(f"{wall:.2f} h" if wall >= 1 else f"{60 * wall:.1f} min" for wall in walls),
        )


def rounded(number: float) -> str:
    """To two digits that mean something."""
    return f"{float(f'{number:.2g}'):,.0f}"


def as_markdown(rows: Iterator[tuple[str, ...]]) -> str:
    """A table; the first row is its head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *body))


if __name__ == "__main__":
    print(as_markdown(forward_rows()), as_markdown(machine_rows()), sep="\n\n")
