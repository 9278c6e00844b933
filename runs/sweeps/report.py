"""The end of a sweep: one table of all jobs, the best one as a command, a figure, results.json."""

import copy
import shlex
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig, open_dict
from rich.console import Console
from rich.markup import escape

from headscope.errors import InputError
from headscope.reports.figures.sweeps import parallel_coordinates
from headscope.reports.results import write_report
from headscope.reports.terminal import WIDTH_OF_A_FILE, table_of
from headscope.runs.provenance import describe
from headscope.runs.sweeps.jobs import Job, SweepJobs
from headscope.runs.sweeps.search import GridSearch

OFFLINE = ("*/wandb/offline-run-*", "*/*/wandb/offline-run-*")  # of jobs, and of the rows of a job that is a table


class JobsFailed(InputError):
    """Some jobs of a sweep did not finish."""


def report(config: DictConfig, jobs: SweepJobs, search: GridSearch, trouble: str | None) -> None:
    """Write and show what the jobs found; an error at the end if some did not finish."""
    found = {number: jobs.results(job) for number, job in jobs.mine.items()}
    values = {number: results and search.value(results) for number, results in found.items()}
    best = search.best(values)
    rows = [row(job, found[number], search.metric, values[number]) for number, job in jobs.mine.items()]
    results = sweep_results(config, rows, found, best)
    if best is not None:
        results["metrics"] = {search.metric: values[best]}
        results["tables"]["best"] = [{"job": best, "command": command(jobs.mine[best]), **found[best]["metrics"]}]
    figures = [parallel_coordinates] if config.get("figures") else []
    write_report(jobs.folder, results, {}, figures)
    show(results, jobs.folder)
    missing = [row for row in rows if row["status"] != "done"]
    if missing:
        reason = f" ({trouble})" if trouble else ""
        raise JobsFailed(
            f"{len(missing)} of {len(rows)} jobs did not finish{reason}; "
            f"the same command with run_dir={jobs.folder} tries them again."
        )


def row(job: Job, results: Mapping | None, metric: str, value: float | None) -> dict[str, object]:
    """A job in the table."""
    failure = None if results else job.failure
    return {
        "job": job.number,
        "overrides": " ".join(f"{key}={text}" for key, text in job.values.items()),
        metric: value,
        "status": "done" if results else "failed" if failure else "unfinished",
        "seconds": results and results["provenance"]["seconds"],
        "error": failure,
        "values": dict(job.values),
    }


def sweep_results(config: DictConfig, rows: list[dict], found: Mapping[int, Mapping | None], best: int | None) -> dict:
    """What results.json holds; model and data are those of the best job, or of any."""
    done = [results for results in found.values() if results]
    example = found[best] if best is not None else done[0] if done else {"provenance": {}}
    names = dict.fromkeys(results["experiment"] for results in done)
    cfg = copy.deepcopy(config)
    with open_dict(cfg):
        del cfg["hydra"]
    seconds = round(sum(results["provenance"]["seconds"] for results in done), 2)
    return {
        "experiment": ", ".join(names) or cfg.experiment_name,
        "metrics": {},
        "tables": {"jobs": rows, "metrics": sorted({name for results in done for name in results["metrics"]})},
        "provenance": {**example["provenance"], **describe(cfg), "seconds": seconds},
    }


def command(job: Job) -> str:
    """The job as a line to paste."""
    return shlex.join(["python", "train.py", *job.overrides])


def show(results: Mapping, folder: Path) -> None:
    """Print the table, the errors and the best job; the last line is the path of results.json."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_FILE)
    rows = results["tables"]["jobs"]
    columns = [column for column in rows[0] if column not in ("error", "values")]
    shown = [{**row, "overrides": escape(row["overrides"])} for row in rows]
    console.print(table_of(f"{results['experiment']}: {len(rows)} jobs", shown, columns))
    for row in rows:
        if row["error"]:
            print(f"job {row['job']} failed: {row['error']}")
    for best in results["tables"].get("best", []):
        (metric, value), *_ = results["metrics"].items()
        print(f"best {metric} {value:.4g}, job {best['job']}:\n{best['command']}")
    if not results["metrics"] and (found := results["tables"]["metrics"]):
        print(f"no job has {columns[2]}; to compare the jobs, give search.metric= one of {', '.join(found)}")
    for figure in sorted((folder / "figures").glob("*.png")):
        print(f"figure: {figure}")
    if offline := [f"{shlex.quote(str(folder))}/{runs}" for runs in OFFLINE if next(folder.glob(runs), None)]:
        print("wandb sync", *offline)
    print(folder / "results.json", flush=True)
