"""A scorer that works in the first process only."""

from data_modules.errors import InputError
from data_modules.ranks import is_first_process
from probes.scorers import RightBranchingScorer


class FailsInTheSecond(RightBranchingScorer):
    def forward(self, batch):
        if not is_first_process():
            raise InputError("the second process cannot go on.")
        return super().forward(batch)
