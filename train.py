"""headscope: find out what the attention heads of a transformer do.

python train.py [experiment=NAME] [key=value ...]; --help explains groups, experiments and keys. Installed, it is the
command `headscope`.
"""

from headscope.runs.cli import main

if __name__ == "__main__":
    main()
