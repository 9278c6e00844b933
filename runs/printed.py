"""Several finished runs as one printable page, with the reproducibility checklist of each."""

import datetime
import time
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from headscope.contracts import Findings, Row, RunResults, Source
from headscope.errors import ConfigError, InputError, require_choice
from headscope.files import write_atomically
from headscope.processes import is_first_process
from headscope.reports.checklist import checklist
from headscope.reports.pdf import browser, print_pdf
from headscope.reports.printable import PrintedRun, printed_run, report_html
from headscope.runs.compare import open_runs, run_folders
from headscope.runs.report import open_run
from headscope.runs.resume import clear

PAGE, PDF = "report.html", "report.pdf"
AUTO = "auto"


def run(cfg: DictConfig) -> RunResults:
    """Read the runs, write the page, print it."""
    started = time.monotonic()
    folder = Path(cfg.run_dir).resolve()
    require_choice("pdf", str(cfg.pdf).lower(), (AUTO, "true", "false"))
    if folder in run_folders(cfg.runs):
        raise ConfigError(f"run_dir={cfg.run_dir}: holds one of the runs of the report; use another run_dir.")
    program = browser() if cfg.pdf else None
    if cfg.pdf is True and program is None:
        raise InputError("pdf=true: no browser is installed that could print; pdf=false makes the page alone.")
    opened_runs = open_runs(cfg.runs, least=1)
    runs = [printed_run(one.label, one.folder, one.results) for one in opened_runs]
    page = report_html(cfg.title, datetime.date.today().isoformat(), runs)
    lines = [f"page: {folder / PAGE}"]
    if is_first_process():
        clear(folder)
        write_atomically(folder / PAGE, page.encode())
        lines += printed(program, folder, cfg.pdf) if cfg.pdf else []
    with open_run(cfg, lines=lines) as opened:
        folders = {one.label: str(one.folder) for one in runs}
        return opened.finish(findings_of(runs), source_of(runs), time.monotonic() - started, folders)


def printed(program: str | None, folder: Path, wanted: bool | str) -> list[str]:
    """Print the page; what to tell of it, also why there is no PDF where one is made only if it can be."""
    if program is None:
        return ["no PDF: no browser is installed that could print; open the page and print it there"]
    try:
        print_pdf(program, folder / PAGE, folder / PDF)
    except InputError as error:
        if wanted is True:
            raise
        return [f"no PDF: {error}"]
    return [f"PDF: {folder / PDF}"]


def findings_of(runs: Sequence[PrintedRun]) -> Findings:
    """What the page is about, and the checklist of every run."""
    return Findings(
        metrics={f"{run.label}/{name}": value for run in runs for name, value in run.results.metrics.items()},
        tables={
            "summary": [summary_row(run) for run in runs],
            "checklist": [{"run": run.label, **row} for run in runs for row in checklist(run.results)],
        },
    )


def summary_row(run: PrintedRun) -> Row:
    """A run in one line."""
    known = run.results.provenance
    return {
        "run": run.label,
        "experiment": run.results.experiment,
        "encoder": known.encoder["name"],
        "data": ", ".join(Path(file).name for file in known.data),
        "seconds": known.seconds,
        "tables": len(run.results.tables),
        "figures": len(run.figures),
    }


def source_of(runs: Sequence[PrintedRun]) -> Source:
    """Where the figures of all runs come from."""
    known = [run.results.provenance for run in runs]
    names = dict.fromkeys(str(one.encoder["name"]) for one in known)
    return Source(
        encoder={"name": " and ".join(names)},
        data={file: sha256 for one in known for file, sha256 in one.data.items()},
        examples={
            f"{part} in {run.label}": count for run in runs for part, count in run.results.provenance.examples.items()
        },
        skipped={run.label: sum(run.results.provenance.skipped.values()) for run in runs},
        words_without_pieces={run.label: sum(run.results.provenance.words_without_pieces.values()) for run in runs},
    )
