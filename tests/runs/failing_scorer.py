"""A scorer that works in the first process only."""

from headscope.errors import InputError
from headscope.probes.parser.scorers import RightBranchingScorer
from headscope.processes import is_first_process


class FailsInTheSecond(RightBranchingScorer):
    def forward(self, batch):
        if not is_first_process():
            raise InputError("the second process cannot go on.")
        return super().forward(batch)
