"""What fine-tuning changed in an encoder's weights, at a low rank, as a small file that encoder.change= applies."""

import argparse
from pathlib import Path

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.encoders.weight_change import change_content, low_rank_change
from headscope.errors import InputError
from headscope.files import write_atomically


def main() -> None:
    """Compare two folders and write the difference."""
    parser = argparse.ArgumentParser(prog="python -m headscope.tools.weight_change", description=__doc__)
    parser.add_argument("before", help="the pre-trained encoder: hub id, folder or package:")
    parser.add_argument("after", help="the model folder of a kovaleva_glue run")
    parser.add_argument("file", type=Path, help="where to write the change (.safetensors)")
    parser.add_argument("--rank", type=int, default=8, help="of the change of each matrix (8)")
    given = parser.parse_args()
    if given.rank < 1:
        parser.error(f"--rank {given.rank}: expected at least 1")
    try:
        before, after = (FrozenEncoder(name).loaded().state_dict() for name in (given.before, given.after))
        write_atomically(given.file, change_content(low_rank_change(before, after, given.rank), given.file))
    except InputError as error:
        raise SystemExit(str(error)) from None
    print(given.file)


if __name__ == "__main__":
    main()
