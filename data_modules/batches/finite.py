"""Whether what the encoder says, and what a module learns from it, are finite numbers.

Counted on the device batch by batch, read back once at the end of a pass: nothing waits for the device in between.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from headscope.contracts import head_at
from headscope.errors import InputError

HIDDEN = -1  # the index of the count of hidden states, behind those of all maps
WAY_OUT = "compute in float32 (trainer.precision=32-true, encoder.dtype=float32, data.cache=false), or name another encoder."


class FiniteCheck:
    """How many inputs have NaN or infinite values in the maps of each head, or in the hidden states that are read."""

    def __init__(self, name: str, layers: int, heads: int, hidden_layer: int | None = None) -> None:
        self.name, self.layers, self.heads, self.hidden_layer = name, layers, heads, hidden_layer
        self.inputs = 0
        self.counts: Tensor | None = None

    def count(self, outputs: Mapping[str, Tensor], real: Bool[Tensor, "batch word"]) -> None:
        """Count the inputs of a batch; rows that are padding are nobody's, whatever they hold."""
        self.inputs += len(real)
        for name, values in outputs.items():
            counts = self._counts_on(values.device)
            found = broken_inputs(values, real)
            if name == "hidden":
                counts[HIDDEN] += found
            else:
                counts[:HIDDEN] += found.flatten()

    def _counts_on(self, device: torch.device) -> Int[Tensor, "_"]:
        if self.counts is None or self.counts.device != device:
            # Made outside inference mode: what evaluation counts first, training may go on counting.
            with torch.inference_mode(False):
                self.counts = torch.zeros(self.layers * self.heads + 1, dtype=torch.int64, device=device)
        return self.counts

    def require_none(self, device: torch.device, add_up: Callable[[Tensor], Tensor] = lambda counts: counts) -> None:
        """Refuse what was counted since the last call; `add_up` joins the counts of several processes."""
        counts = torch.cat([self._counts_on(device), torch.tensor([self.inputs], device=device)])
        *of_heads, hidden, inputs = add_up(counts).tolist()
        self.counts, self.inputs = None, 0
        broken = [index for index, count in enumerate(of_heads) if count]
        if broken:
            others = f" and of {len(broken) - 1} other heads" if len(broken) > 1 else ""
            what, most = f"maps of head {head_at(broken[0], self.heads)}{others}", max(of_heads)
        elif hidden:
            what, most = f"hidden states of layer {self.hidden_layer}", hidden
        else:
            return
        raise InputError(
            f"{self.name}: the {what} hold NaN or infinite values in {most} of {inputs} inputs, so there is no result; "
            f"{WAY_OUT}"
        )


def broken_inputs(values: Shaped[Tensor, "batch *head word _"], real: Bool[Tensor, "batch word"]) -> Int[Tensor, "*head"]:
    """In how many inputs a real row holds what is no finite number: whatever it is, it reaches the sum of its row."""
    broken = ~values.sum(-1, dtype=torch.float32).isfinite()
    rows = real.view(len(real), *[1] * (broken.dim() - 2), -1)
    return (broken & rows).any(-1).sum(0)


class RequireFinite(pl.Callback):
    """At the end of every pass refuses maps, hidden states and losses that are no finite numbers.

    Lightning calls it before the module says what it found and before a checkpoint is kept, so nothing is written.
    """

    def __init__(self, checks: Sequence[FiniteCheck] = ()) -> None:
        self.checks = tuple(checks)
        self.steps = 0
        self.broken_steps: Tensor | None = None

    def join(self, callbacks: list[pl.Callback]) -> None:
        """Be the first that a trainer calls, once for all its stages."""
        if self not in callbacks:
            callbacks.insert(0, self)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if loss is not None:
            self.count_loss(loss.detach())

    def count_loss(self, loss: Tensor) -> None:
        """Count a step whose loss is no finite number."""
        self.steps += 1
        broken = (~loss.isfinite()).long()
        self.broken_steps = broken if self.broken_steps is None else self.broken_steps + broken

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.require(trainer)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.require(trainer)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.require(trainer)

    def require(self, trainer: pl.Trainer) -> None:
        """Refuse what any process counted; all say the same."""
        device = trainer.strategy.root_device

        def add_up(counts: Tensor) -> Tensor:
            return trainer.strategy.reduce(counts, reduce_op="sum")

        for check in self.checks:
            check.require_none(device, add_up)
        broken = torch.zeros((), dtype=torch.int64, device=device) if self.broken_steps is None else self.broken_steps
        broken, steps = add_up(torch.stack([broken, torch.tensor(self.steps, device=device)])).tolist()
        self.steps, self.broken_steps = 0, None
        if broken:
            raise InputError(
                f"epoch {trainer.current_epoch + 1}: the loss is NaN or infinite in {broken} of {steps} steps, so there is "
                "no result; try a lower module.lr= or trainer.precision=32-true."
            )
