"""An example of each pattern (Kovaleva, Figure 1): of all maps that were classified, that of which the network is surest."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headscope.contracts import Row, head_at
from headscope.data_modules.batches.batch import AttentionBatch
from headscope.data_modules.segments import TOKEN_CLASSES

SURE, INPUT, MAP, SIZE = range(4)  # of an example that is packed into one row, before its tokens and its cells
FIRST = 4
NO_TOKEN = -1
SPECIAL = ("cls", "sep")
DECIMALS = 4
Packed = Float[Tensor, "*of number"]


def packed_size(tokens: int) -> int:
    """How many numbers an example of at most so many tokens takes: what it is, its ids, their classes, its cells."""
    return FIRST + 2 * tokens + tokens * tokens


def no_examples(*shape: int, tokens: int) -> Packed:
    """Room for examples that are not found yet: nothing is less sure."""
    return torch.full((*shape, packed_size(tokens)), -1.0)


def surest_maps(
    maps: Float[Tensor, "batch map query key"],
    sure: Float[Tensor, "batch map"],
    found: Int[Tensor, "batch map"],
    batch: AttentionBatch,
    classes: int,
    tokens: int,
) -> Float[Tensor, "class number"]:
    """Of each class, the map of a batch that the network is surest of, among inputs of at most so many tokens."""
    packed = no_examples(classes, tokens=tokens).to(maps.device)
    short = (batch.mask.sum(1) <= tokens)[:, None]
    order = batch.input_index[:, None] * maps.shape[1] + torch.arange(maps.shape[1], device=maps.device)
    for number in range(classes):
        among: Bool[Tensor, "batch map"] = (found == number) & short
        if among.any():
            best = sure.masked_fill(~among, -1).max()
            # Several may be equally sure: then the first, in whatever order batches come.
            place = order.masked_fill(~among | (sure < best), int(order.max()) + 1).argmin()
            packed[number] = packed_map(maps, sure, batch, divmod(int(place), maps.shape[1]), tokens)
    return packed


def packed_map(
    maps: Float[Tensor, "batch map query key"],
    sure: Float[Tensor, "batch map"],
    batch: AttentionBatch,
    place: tuple[int, int],
    tokens: int,
) -> Float[Tensor, "number"]:
    """One map with all that a picture of it says."""
    example, number = place
    size = int(batch.mask[example].sum())
    row = no_examples(tokens=tokens).to(maps.device)
    row[SURE], row[INPUT], row[MAP], row[SIZE] = sure[example, number], batch.input_index[example], number, size
    if batch.inputs is not None:
        row[FIRST : FIRST + size] = batch.inputs["input_ids"][example, :size]
    row[FIRST + tokens : FIRST + tokens + size] = batch.gold["token_class"][example, :size]
    cells = row[FIRST + 2 * tokens :].view(tokens, tokens)
    cells[:size, :size] = maps[example, number, :size, :size]
    return row


def most_confident(candidates: Float[Tensor, "candidate *of number"]) -> Packed:
    """Of several candidates for each example, that of several processes or batches, the surest; of equals the first."""
    best = candidates[0]
    for other in candidates[1:]:
        (sure, first, number), (than, before, lower) = (
            [one[..., part] for part in (SURE, INPUT, MAP)] for one in (other, best)
        )
        earlier = (first < before) | ((first == before) & (number < lower))
        better = (sure > than) | ((sure == than) & earlier)
        best = torch.where(better[..., None], other, best)
    return best


def example_rows(
    examples: Float[Tensor, "model class number"],
    models: Sequence[str],
    classes: Sequence[str],
    heads: int,
    tokens: int,
    names: Callable[[Sequence[int]], list[str]] | None,
) -> list[Row]:
    """What a picture needs of each example that there is; without `names` of ids, tokens have none."""
    rows: list[Row] = []
    special = [TOKEN_CLASSES.index(name) for name in SPECIAL]
    for model, of_model in zip(models, examples.cpu(), strict=True):
        for name, packed in zip(classes, of_model, strict=True):
            if packed[SURE] < 0:
                continue
            size = int(packed[SIZE])
            ids = packed[FIRST : FIRST + size].int().tolist()
            kinds = packed[FIRST + tokens : FIRST + tokens + size].int().tolist()
            cells = packed[FIRST + 2 * tokens :].view(tokens, tokens)[:size, :size].tolist()
            rows.append(
                {
                    "model": model,
                    "class": name,
                    "confidence": float(packed[SURE]),
                    "head": head_at(int(packed[MAP]), heads),
                    "input": int(packed[INPUT]) + 1,
                    "tokens": names(ids) if names and NO_TOKEN not in ids else [],
                    "special": [index for index, kind in enumerate(kinds) if kind in special],
                    "attention": [[round(cell, DECIMALS) for cell in row] for row in cells],
                }
            )
    return rows


def surest_of_tasks(of_tasks: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Of each model and class the surest example of all tasks, which it then names."""
    best: dict[tuple[str, str], Row] = {}
    for task, rows in of_tasks.items():
        for row in rows:
            before = best.get((row["model"], row["class"]))
            if before is None or row["confidence"] > before["confidence"]:
                best[row["model"], row["class"]] = {"task": task, **row}
    return list(best.values())
