"""An example of each pattern (Kovaleva, Figure 1): of all maps that were classified, that of which the network is surest."""

from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

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
    if not maps.shape[0]:  # a process without an input of its own
        return torch.full((classes, packed_size(tokens)), -1.0, device=maps.device)
    short = (batch.mask.sum(1) <= tokens)[:, None]
    order = batch.input_index[:, None] * maps.shape[1] + torch.arange(maps.shape[1], device=maps.device)
    of_class = found == torch.arange(classes, device=maps.device)[:, None, None]
    among: Bool[Tensor, "class batch map"] = of_class & short
    best = torch.where(among, sure, -1).flatten(1).amax(1)
    # Several may be equally sure: then the first, in whatever order batches come.
    candidates = among & (sure >= best[:, None, None])
    place = torch.where(candidates, order, torch.iinfo(order.dtype).max).flatten(1).argmin(1)
    packed = packed_maps(maps, sure, batch, place, tokens)
    return torch.where(among.flatten(1).any(1)[:, None], packed, -1)


def packed_maps(
    maps: Float[Tensor, "batch map query key"],
    sure: Float[Tensor, "batch map"],
    batch: AttentionBatch,
    place: Int[Tensor, "class"],
    tokens: int,
) -> Float[Tensor, "class number"]:
    """Some maps with all that a picture of them says, without a look at any number: the device need not wait."""
    example, number = place // maps.shape[1], place % maps.shape[1]
    size, width = batch.mask.sum(1)[example], min(tokens, maps.shape[-1])
    real = torch.arange(width, device=maps.device) < size[:, None]
    ids = torch.full_like(real, NO_TOKEN, dtype=torch.int64)
    if batch.inputs is not None:
        ids = torch.where(real, batch.inputs["input_ids"][example, :width], NO_TOKEN)
    kinds = torch.where(real, batch.gold["token_class"][example, :width], NO_TOKEN)
    cells = torch.where(real[:, :, None] & real[:, None], maps[example, number, :width, :width], -1.0)
    room = tokens - width
    return torch.cat(
        [
            torch.stack([sure[example, number], batch.input_index[example], number, size], 1),
            pad(ids, (0, room), value=NO_TOKEN),
            pad(kinds, (0, room), value=NO_TOKEN),
            pad(cells, (0, room, 0, room), value=-1.0).flatten(1),
        ],
        1,
    ).float()


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
