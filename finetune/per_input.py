"""What was found of every input, joined over processes and put back in the order of the data."""

import torch
from torch import Tensor
from torchmetrics import Metric

from headscope.errors import InputError


class PerInput(Metric):
    """Keeps some tensors with one row per input, in float32; made for dev sets, since it grows with their size."""

    full_state_update = False

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = ("index", *names)
        self.axes: dict[str, int] = {}
        for name in self.names:
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, index: Tensor, **rows: Tensor) -> None:
        for name, value in {"index": index, **rows}.items():
            self.axes[name] = value.dim()
            getattr(self, name).append(value.float() if value.is_floating_point() else value)

    def compute(self) -> dict[str, Tensor]:
        """All tensors by name; torchmetrics takes their axes from those of one element, so use `rows`."""
        states = {name: getattr(self, name) for name in self.names}
        joined = {name: torch.cat(state) if isinstance(state, list) else state for name, state in states.items()}
        order = joined["index"].argsort()
        return {name: values[order] for name, values in joined.items()}

    def rows(self) -> dict[str, Tensor]:
        """All tensors by name, with their axes also where there is but one input; an error where one is no number."""
        found = {
            name: values.reshape([1] * self.axes[name]) if values.numel() == 1 else values
            for name, values in self.compute().items()
        }
        for name, values in found.items():
            if broken := int((~values[:, None].flatten(1).isfinite().all(1)).sum()):
                raise InputError(
                    f"the model's {name} are NaN or infinite for {broken} of {len(values)} inputs, so there is no result; "
                    "try trainer.precision=32-true, a lower module.lr=, or another model."
                )
        return found
