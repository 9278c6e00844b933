"""Types of all packages, checked by basedpyright; the folders stand at top level, so the import names are laid out first."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
LAYOUT = PROJECT / ".venv" / "types" / "headscope"  # named in pyproject.toml
FOLDERS = ("analysis", "conf", "data_modules", "finetune", "live", "notebook", "probes", "reports", "runs", "tools")


def lay_out() -> None:
    """Links under which a checker that reads no import hooks finds headscope.probes, headscope.files ..."""
    LAYOUT.mkdir(parents=True, exist_ok=True)
    for target in [*(PROJECT / name for name in FOLDERS), *(PROJECT / "headscope").glob("*.py")]:
        link = LAYOUT / target.name
        if not link.is_symlink():
            link.symlink_to(target, target_is_directory=target.is_dir())


if __name__ == "__main__":
    lay_out()
    sys.exit(subprocess.run([sys.executable, "-m", "basedpyright", "--level", "error"], cwd=PROJECT).returncode)
