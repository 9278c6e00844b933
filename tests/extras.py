"""Each extra of pyproject.toml alone, with the constraints, in an empty environment.

python -m tests.extras [EXTRA ...]              whether pip finds versions for each (all but dev without a name)
python -m tests.extras --install [EXTRA ...]    installs them, and imports the package
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

PROJECT = Path(__file__).parents[1]


def extras() -> list[str]:
    """What a user can ask for."""
    content = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    return [name for name in content["project"]["optional-dependencies"] if name != "dev"]


def check(extra: str, install: bool) -> bool:
    """Whether the extra can be had; what pip says is printed where not."""
    with tempfile.TemporaryDirectory(prefix="headscope-extra-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        options = [] if install else ["--dry-run"]
        wanted = ["--constraint", str(PROJECT / "constraints.txt"), f"{PROJECT}[{extra}]"]
        calls = [[python, "-m", "pip", "install", "--quiet", *options, *wanted]]
        calls += [[python, "-c", "import headscope.runs.cli"]] if install else []
        for call in calls:
            done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                print(f"[{extra}] {done.stderr.strip()}")
                return False
    print(f"[{extra}] {'installed' if install else 'resolved'}", flush=True)
    return True


if __name__ == "__main__":
    named = [word for word in sys.argv[1:] if word != "--install"]
    found = [check(extra, "--install" in sys.argv) for extra in named or extras()]  # all, also after one that fails
    sys.exit(not all(found))
