"""headscope: find out what the attention heads of a transformer do.

python train.py [experiment=NAME] [key=value ...]; --help explains groups, experiments and keys.
"""

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from runs.cli import command_line


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> None:
    """Run the job that the configuration names, in the folder that Hydra made for it."""
    cfg.run_dir = HydraConfig.get().runtime.output_dir
    hydra.utils.get_method(cfg.job)(cfg)


if __name__ == "__main__":
    command_line(main)
