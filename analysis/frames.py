"""Frame-semantic links by single heads (Kovaleva, section 4.2): from a target to its core elements and back."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.analysis.base import DrawsMaps, flat_maps
from headscope.analysis.links import largest, link_attention, link_ends, seen_links
from headscope.analysis.statistics import holm, interval, poisson_weights, require_replicates
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, Section, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import require_least

SECTION = Section("frames", "frame semantics")
LEVEL = 0.05
DIRECTIONS = ("target_to_element", "element_to_target")
QUANTITIES = {
    "target_to_element": Quantity(
        "frame_target_to_element",
        "frames, target to element",
        "Largest attention from a frame's target to its core elements, averaged over sentences.",
        better="high",
        section=SECTION,
        headline=True,
    ),
    "element_to_target": Quantity(
        "frame_element_to_target",
        "frames, element to target",
        "Largest attention from a frame's core elements to its target, averaged over sentences.",
        better="high",
        section=SECTION,
    ),
}


class FrameHeads(DrawsMaps):
    """Per input the largest attention among the linked token pairs; averaged over the inputs with a pair that is seen.

    The heads above a percentile are marked where there are at least `min_count` inputs: of fewer, they are chance. That
    marks some whatever they do, so that every head is also tested against pairs of words at the same distances in the same
    sentences that carry no link: one is drawn in the place of each link, `permutations` times.
    """

    kind = "frames"
    total: Tensor
    null_total: Tensor
    untested: Tensor
    inputs: Tensor
    targets: Tensor
    resampled_total: Tensor
    resampled_inputs: Tensor

    def __init__(
        self,
        facts: Facts,
        percentile: float = 99.0,
        min_count: int = 30,
        replicates: int = 500,
        permutations: int = 9999,
        seed: int = 0,
    ) -> None:
        super().__init__(facts)
        self.min_count = require_least("analyses.frames.min_count", min_count)
        self.percentile, self.replicates, self.seed = percentile, require_replicates(replicates), seed
        self.permutations = require_least("analyses.frames.permutations", permutations)
        self.filters = facts.filters
        maps = self.layers * self.heads
        self.add_sum("total", len(DIRECTIONS), maps)
        self.add_sum("inputs", len(DIRECTIONS))
        self.add_sum("targets")
        self.add_sum("resampled_total", replicates, len(DIRECTIONS), maps)
        self.add_sum("resampled_inputs", replicates, len(DIRECTIONS))
        self.add_sum("null_total", permutations, len(DIRECTIONS), maps)
        self.add_sum("untested")
        self.keep_maps_of(facts.drawn, [len(one.tokens) for one in facts.drawn])

    def update(self, batch: AttentionBatch) -> None:
        values, defined = frame_values(flat_maps(batch), batch.gold["links"], batch.visible())
        values, defined = values.double(), defined.double()  # (batch, direction, map), (batch, direction)
        weights = poisson_weights(batch.input_index, self.replicates, self.seed).double()
        self.total += values.sum(0)
        self.inputs += defined.sum(0)
        self.targets += len(values)
        self.resampled_total += (weights @ values.flatten(1)).view_as(self.resampled_total)
        self.resampled_inputs += weights @ defined
        self._count_null(batch)
        self.keep_maps(batch)

    def _count_null(self, batch: AttentionBatch) -> None:
        """What words at the same distances get that carry no link; what is drawn depends on seed and input alone."""
        for maps, links, inside, visible, index in zip(
            flat_maps(batch),
            batch.gold["links"],
            batch.gold["inside"] == 1,
            batch.visible(),
            batch.input_index.tolist(),
            strict=True,
        ):
            pairs = links[links >= 0].unflatten(0, (-1, 2))
            drawn, same = null_pairs(pairs, inside, self.permutations, [self.seed, index])
            self.untested += same
            start, end = drawn.unbind(-1)  # (permutation, link)
            for direction, (one, other) in enumerate(((start, end), (end, start))):
                # At the same distance, so that a pair is seen where the link that it stands for is.
                seen = maps[:, one, other] * visible[one, other]
                self.null_total[:, direction] += seen.amax(-1).T.double()

    def _p_values(self, means: Tensor) -> list[list[float]]:
        """Of each direction and head, corrected by Holm over all of both: how often chance pairs get as much."""
        above = (self.null_total.cpu() / self.inputs[:, None].cpu() >= means - 1e-12).sum(0)
        p = ((above + 1) / (self.permutations + 1)).flatten().tolist()
        corrected = holm(p)
        return [corrected[part] for part in self.map_slices(len(DIRECTIONS))]

    def compute(self) -> Findings:
        means = (self.total / self.inputs[:, None]).cpu()
        low, high = interval(self.resampled_total, self.resampled_inputs[..., None])
        inputs, p_values = [int(count) for count in self.inputs.tolist()], self._p_values(means)
        marks = np.percentile(means.numpy(), self.percentile, axis=1)
        rows = [
            {
                "head": head_at(index, self.heads),
                "direction": direction,
                "score": float(means[d, index]),
                "low": float(low[d, index]),
                "high": float(high[d, index]),
                "p_holm": p_values[d][index],
                "finding": "yes" if p_values[d][index] < LEVEL else "no",
                "n": inputs[d],
            }
            for d, direction in enumerate(DIRECTIONS)
            for index in (means[d] > marks[d]).nonzero().flatten().tolist()
            if inputs[d] >= self.min_count
        ]
        rows.sort(key=lambda row: -row["score"])
        return Findings(
            metrics={f"highest_{direction}": float(means[d].max()) for d, direction in enumerate(DIRECTIONS)}
            | {"marked_heads": len({row["head"] for row in rows})}
            | {"heads_above_chance": sum(min(p) < LEVEL for p in zip(*p_values, strict=True))},
            tables={
                "marked": rows,
                "filters": [{"targets": reason, "removed": count} for reason, count in self.filters.items()]
                + [{"targets": "left", "removed": int(self.targets)}],
            },
            heads=by_name(
                HeadValues(
                    QUANTITIES[direction],
                    value=self.grid(means[d]),
                    n=self.grid(self.inputs[d].expand(self.layers * self.heads)),
                    low=self.grid(low[d]),
                    high=self.grid(high[d]),
                    p=self.grid(np.array(p_values[d])),
                )
                for d, direction in enumerate(DIRECTIONS)
            ),
            notes={"marked": [self._what_is_marked(rows), *self._what_is_found(rows)]},
            drawings={"example_maps": self._example_maps({row["head"] for row in rows})},
        )

    def _what_is_marked(self, rows: Sequence[Row]) -> str:
        least = f"at least {self.min_count} targets (analyses.frames.min_count)"
        if rows:
            return f"marked: above the {self.percentile:g}th percentile of all heads, of {least}"
        return f"no head is marked: that asks for {least}, found {int(self.inputs.max())}"

    def _what_is_found(self, rows: Sequence[Row]) -> list[str]:
        if not rows:
            return []
        told = (
            "a percentile marks heads whatever they do; a finding beats pairs of words at the same distances without a link"
        )
        lines = [f"{told} (p, corrected by Holm over all heads and both directions, below {LEVEL:g})"]
        if self.untested:
            lines.append(f"links without any such pair, which stand for themselves in the test: {int(self.untested)}")
        return lines

    def _example_maps(self, heads: set[str]) -> list[Row]:
        """The first input's map of each marked head."""
        first = self.drawn[0]
        size = len(first.tokens)
        return [
            {
                "head": name,
                "frame": first.title,
                "tokens": list(first.tokens),
                "marked": {part: list(tokens) for part, tokens in first.marked.items()},
                "attention": self.drawn_map(0, name)[:size, :size].tolist(),
            }
            for name in sorted(heads)
        ]


def null_pairs(
    pairs: Int[Tensor, "link 2"], inside: Bool[Tensor, "token"], permutations: int, seed: Sequence[int]
) -> tuple[Int[Tensor, "permutation link 2"], int]:
    """For each link pairs of tokens of the text at the same distance that are no link, drawn at random; and how many links
    have none, and stand for themselves."""
    linked, words = {(a, b) for a, b in pairs.tolist()}, inside.nonzero().flatten().tolist()
    there, draw, same, columns = set(words), np.random.default_rng(list(seed)), 0, []
    for start, end in pairs.tolist():
        steps = [(one, one + end - start) for one in words]
        others = [pair for pair in steps if pair[1] in there and pair not in linked and pair[::-1] not in linked]
        same += not others
        candidates = torch.tensor(others or [(start, end)], device=pairs.device)
        columns.append(candidates[torch.from_numpy(draw.integers(len(candidates), size=permutations)).to(pairs.device)])
    return torch.stack(columns, 1), same


def frame_values(
    maps: Float[Tensor, "batch map token token"], links: Tensor, visible: Bool[Tensor, "batch token token"]
) -> tuple[Float[Tensor, "batch direction map"], Bool[Tensor, "batch direction"]]:
    """The largest attention from a target's token to an element's that it may see, and back; 0 and False for none."""
    target, element, there = link_ends(links)
    values, defined = [], []
    for start, end in ((target, element), (element, target)):
        seen = there & seen_links(visible, start, end)
        values.append(largest(link_attention(maps, start, end), seen))
        defined.append(seen.any(1))
    return torch.stack(values, 1), torch.stack(defined, 1)
