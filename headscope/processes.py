"""Which of several processes this is, as whoever started them says in the environment."""

import os

RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK")


def is_first_process() -> bool:
    """Whether this process speaks for all: it writes the files, and says what there is to say."""
    return all(os.environ.get(rank, "0") == "0" for rank in RANKS)
