"""Which heads attend alike (Clark, section 6): Jensen-Shannon distances of all pairs of heads, drawn in the plane."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headscope.analysis.base import Analysis, flat_maps
from headscope.analysis.entropy import SMALLEST, smoothed
from headscope.contracts import Facts, Findings, HeadValues, Quantity, Row, RunResults, Section, by_name, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.errors import ConfigError, given
from headscope.files import local_path

SECTION = Section("clusters", "clusters of heads")
RELEASED_SMOOTHING = 0.001
ReadRun = Callable[[Path], RunResults | None]  # the results in a folder, if a run finished there
ROUNDING = 1e-12  # two sums of the same numbers in another order count as equal
CELLS_IN_CACHE = 4096  # of each map, on the CPU; a GPU takes whole inputs


class HeadDistances(Analysis):
    """The sum over tokens of JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2, for every two heads."""

    kind = "segments"
    mixed: Tensor
    tokens: Tensor

    def __init__(
        self,
        facts: Facts,
        released: bool = False,
        seed: int = 0,
        permutations: int = 1999,
        relations_run: str | None = None,
        coreference_run: str | None = None,
        read_run: ReadRun | None = None,
    ) -> None:
        super().__init__(facts)
        self.smoothing, self.seed, self.permutations = RELEASED_SMOOTHING if released else 0.0, seed, permutations
        self.marked: list[Row] = []
        for run, found_by in ((relations_run, relation_heads_of), (coreference_run, coreference_head_of)):
            if run:
                self.marked += found_by(local_path(run), given(read_run, "what reads runs"), facts.encoder_sha256)
        self.add_sum("mixed", self.layers * self.heads, self.layers * self.heads)
        self.add_sum("tokens")

    def update(self, batch: AttentionBatch) -> None:
        self.mixed += mixture_sums(flat_maps(batch), batch.mask, self.smoothing, batch.seen)
        self.tokens += batch.mask.sum()

    def compute(self) -> Findings:
        mean = (js_from_sums(self.mixed) / self.tokens).cpu()
        points, stress = plane(mean, self.seed)
        names = [head_at(index, self.heads) for index in range(len(mean))]
        return Findings(
            metrics={"mean_js_per_token": float(mean.sum() / max(1, len(mean) * (len(mean) - 1))), "mds_stress": stress},
            tables={
                "marked_relations": self.marked,
                "layer_distances": within_and_between(mean, self.layers, self.permutations, self.seed),
                "distances": [
                    {"head": name, **dict(zip(names, row, strict=True))}
                    for name, row in zip(names, mean.tolist(), strict=True)
                ],
            },
            notes={"layer_distances": [f"p: layers drawn at random {self.permutations:,} times; n: pairs of heads"]},
            heads=by_name(HeadValues(coordinate(axis), self.grid(points[:, n])) for n, axis in enumerate("xy")),
        )


def coordinate(axis: str) -> Quantity:
    """Where a head lies in the plane, along one axis."""
    meaning = "The head's place where near heads attend alike (Jensen–Shannon distance, scaled to the plane)."
    return Quantity(f"mds_{axis}", f"place in the plane, {axis}", meaning, section=SECTION, one_of="plane", which=axis)


def relation_heads_of(run: Path, read_run: ReadRun, encoder_sha256: str | None) -> list[Row]:
    """The best head of each relation, as another run found it with the same encoder."""
    rows = table_of_run("relations_run", run, read_run, encoder_sha256, "relation_heads", "clark_relations")
    return [{"relation": row["relation"], "head": row["head"]} for row in rows]


def coreference_head_of(run: Path, read_run: ReadRun, encoder_sha256: str | None) -> list[Row]:
    """The head that finds most antecedents, as another run found it with the same encoder."""
    rows = table_of_run("coreference_run", run, read_run, encoder_sha256, "coreference", "clark_coreference")
    return [{"relation": "coreference", "head": row["head"]} for row in rows if row["row"] == "best head, among mentions"]


def table_of_run(
    key: str, run: Path, read_run: ReadRun, encoder_sha256: str | None, table: str, experiment: str
) -> Sequence[Row]:
    """A table of a finished run of the same encoder."""
    results = read_run(run)
    if results is None or table not in results.tables:
        raise ConfigError(f"analyses.clusters.{key}={run}: no finished run of {experiment} there.")
    encoder = results.provenance.encoder
    if encoder.get("sha256") != encoder_sha256:
        raise ConfigError(f"analyses.clusters.{key}={run}: was run with another encoder, {encoder['name']}.")
    return results.tables[table]


def within_and_between(distances: Float[Tensor, "map map"], layers: int, permutations: int, seed: int) -> list[Row]:
    """The mean distance of two heads of a layer and of two layers; how often layers drawn at random are as close within."""
    heads = len(distances) // layers
    pairs = layers * heads * (heads - 1), len(distances) * (len(distances) - heads)
    if not all(pairs):
        return []
    total, draw = distances.double().sum(), torch.Generator().manual_seed(seed)

    def within(order: Tensor) -> Tensor:
        blocks = distances.double()[order][:, order].view(layers, heads, layers, heads)
        return torch.einsum("lalb->", blocks)

    observed = within(torch.arange(len(distances)))
    orders = (torch.randperm(len(distances), generator=draw) for _ in range(permutations))
    as_close = sum(bool(within(order) <= observed * (1 + ROUNDING)) for order in orders)
    p = (1 + as_close) / (1 + permutations)
    means = float(observed / pairs[0]), float((total - observed) / pairs[1])
    return [
        {"heads": "of one layer", "mean_js": means[0], "p": p, "n": pairs[0] // 2},
        {"heads": "of two layers", "mean_js": means[1], "p": None, "n": pairs[1] // 2},
    ]


def mixture_sums(
    maps: Float[Tensor, "batch map token token"],
    real: Bool[Tensor, "batch token"],
    smoothing: float = 0.0,
    seen: Bool[Tensor, "batch token token"] | None = None,
) -> Float[Tensor, "map map"]:
    """The sum over cells of s log s, s = p + q, for every two maps p, q; twice p on the diagonal."""
    count, tokens = maps.shape[1], maps.shape[-1]
    rows = max(1, CELLS_IN_CACHE // tokens) if maps.device.type == "cpu" else tokens
    cells = maps.new_empty(count, rows, tokens)
    flat = cells.flatten(1)
    mixed, logs = torch.empty_like(flat), torch.empty_like(flat)
    # Each map with itself and those behind it.
    pairs = [(flat[index:], flat[index], mixed[index:], logs[index:]) for index in range(count)]
    parts = list(_parts(maps, real, rows, smoothing, seen))
    sums = maps.new_zeros(len(parts), count, count)
    for of_part, (part, row_mask) in zip(sums, parts, strict=True):
        cells[:, part.shape[1] :] = 0
        torch.mul(part, row_mask[:, None], out=cells[:, : part.shape[1]])
        cells.clamp_(min=SMALLEST)
        for index, (others, one, both, log) in enumerate(pairs):
            torch.log(torch.add(others, one, out=both), out=log)
            torch.sum(log.mul_(both), 1, out=of_part[index, index:])
    upper = sums.sum(0, dtype=torch.float64)
    return upper + upper.triu(1).T


def _parts(maps: Tensor, real: Tensor, rows: int, smoothing: float, seen: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Some rows of all maps of an input, and which of them are no padding; smoothed over what they may see."""
    for grid, mask, keys in zip(maps, real, real if seen is None else seen, strict=True):
        for start in range(0, len(mask), rows):
            part, row_mask = grid[:, start : start + rows], mask[start : start + rows]
            visible = keys if seen is None else keys[start : start + rows]
            yield (smoothed(part, visible, smoothing) if smoothing else part), row_mask


def js_from_sums(mixed: Float[Tensor, "map map"]) -> Float[Tensor, "map map"]:
    """Distances: with s = p + q, JS = log 2 + (p log p + q log q - s log s) / 2, and the diagonal holds 2p log 2p."""
    alone = mixed.diagonal()
    return ((alone[:, None] + alone) / 4 - mixed / 2).fill_diagonal_(0).clamp(min=0)


def plane(distances: Float[Tensor, "map map"], seed: int) -> tuple[Float[Tensor, "map 2"], float]:
    """Places in the plane whose distances are as near as can be, from metric multidimensional scaling; its stress."""
    from sklearn.manifold import MDS

    if not distances.any():
        return torch.zeros(len(distances), 2), 0.0
    options: dict[str, Any] = {"metric": "precomputed", "init": "random", "normalized_stress": False}
    scaling: Any = MDS(2, random_state=seed, n_init=4, **options)
    points = scaling.fit_transform(distances.cpu().double().numpy())
    return torch.from_numpy(points), float(scaling.stress_)
