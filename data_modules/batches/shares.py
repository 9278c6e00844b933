"""A batch that several processes share: each takes its part, and all learn what one process would learn of the whole."""

import torch
from torch import Tensor, distributed


def mean_of_all(total: Tensor, count: Tensor) -> Tensor:
    """The total over the count of the whole batch, from the total and the count of this process's part.

    The gradients of what the processes return, averaged as DDP does, are those of the mean over the whole batch. The
    counts are added up on the device.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return total / count.clamp(min=1)
    everywhere = count.detach().to(torch.float32, copy=True)
    distributed.all_reduce(everywhere)
    return total * distributed.get_world_size() / everywhere.clamp(min=1)
