"""An experiment of one GLUE task, or of several at once: a run for each of `tasks`, joined."""

from omegaconf import DictConfig

from headscope.contracts import RunResults
from headscope.runs import tables, training


def run(cfg: DictConfig) -> RunResults:
    """The experiment itself where no tasks are named."""
    return tables.run(cfg) if cfg.tasks else training.run(cfg)
