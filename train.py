"""headscope: find out what the attention heads of a transformer do.

python train.py [experiment=NAME] [key=value ...]; --help explains groups, experiments and keys.
"""

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from runs.cli import clear_errors, command_line
from runs.sweep_job import sweep_job


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> None:
    """Run the job that the configuration names, in the folder that Hydra made for it."""
    hydra_config = HydraConfig.get()
    with sweep_job(cfg) if hydra_config.mode == RunMode.MULTIRUN else clear_errors():
        cfg.run_dir = hydra_config.runtime.output_dir
        hydra.utils.get_method(cfg.job)(cfg)


if __name__ == "__main__":
    command_line(main)
