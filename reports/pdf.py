"""A page as PDF, by a browser that is installed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from headscope.errors import InputError, first_line

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
QUIET = ("--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update")
PATIENCE = 180  # seconds


def browser() -> str | None:
    """A browser that can print, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def print_pdf(program: str, page: Path, file: Path) -> None:
    """Print a page into a file, without the browser's own header and footer."""
    # A browser that root starts has no sandbox; the page is ours and runs no script.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="headscope-browser-") as profile:
        printed = Path(profile) / "page.pdf"
        options = [*QUIET, *sandbox, f"--user-data-dir={profile}", "--no-pdf-header-footer", f"--print-to-pdf={printed}"]
        try:
            done = subprocess.run([program, *options, page.resolve().as_uri()], capture_output=True, timeout=PATIENCE)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{program}: cannot print {page} ({first_line(error)}); pdf=false does without.") from error
        if done.returncode or not printed.is_file():
            raise InputError(f"{program}: printed no PDF of {page} (status {done.returncode}); pdf=false does without.")
        shutil.move(printed, file)
