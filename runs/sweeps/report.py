"""The end of a sweep: one table of all jobs, the best one as a command, a figure, results.json."""

import copy
import shlex
from pathlib import Path

from omegaconf import DictConfig, open_dict

from headscope.contracts import Findings, Row, RunResults, Source
from headscope.errors import DamagedFile, InputError
from headscope.reports.figures.sweeps import parallel_coordinates
from headscope.reports.results import finished_results
from headscope.reports.terminal import paper, print_table
from headscope.runs.report import describe, finish, publish_sweep
from headscope.runs.sweeps.jobs import SweepJobs
from headscope.runs.sweeps.launch import Job
from headscope.runs.sweeps.search import GridSearch

# Of the sweep, of jobs, and of the rows of a job that is a table.
OFFLINE = ("wandb/offline-run-*", "*/wandb/offline-run-*", "*/*/wandb/offline-run-*")


class JobsFailed(InputError):
    """Some jobs of a sweep did not finish."""


def report(config: DictConfig, jobs: SweepJobs, search: GridSearch, trouble: str | None) -> None:
    """Write and show what the jobs found; an error at the end if some did not finish."""
    found = {number: jobs.results(job) for number, job in jobs.mine.items()}
    values = {number: results and search.value(results) for number, results in found.items()}
    best = search.best(values)
    rows = [row(job, found[number], search.metric, values[number]) for number, job in jobs.mine.items()]
    done = [results for results in found.values() if results]
    tables = {"jobs": rows, "metrics": [{"metric": name} for name in sorted({n for one in done for n in one.metrics})]}
    if best is not None and (results := found[best]):
        tables["best"] = [{"job": best, "command": command(jobs.mine[best]), **results.metrics}]
    example = found[best] if best is not None else done[0] if done else None
    source = example.provenance.as_source() if example else Source({"name": None}, {}, {})
    cfg = copy.deepcopy(config)
    with open_dict(cfg):
        del cfg["hydra"]
    results = RunResults(
        experiment=", ".join(dict.fromkeys(one.experiment for one in done)) or cfg.experiment_name,
        metrics={} if best is None else {search.metric: values[best]},
        tables=tables,
        # Model and data are those of the best job, or of any.
        provenance=describe(cfg, source, sum(one.provenance.seconds for one in done)),
        runs={str(number): str(number) for number, one in found.items() if one},
    )
    missing = [row for row in rows if row["status"] != "done"]
    stays = bool(missing) and knows_more(jobs.folder, results)
    if not stays:
        results = finish(jobs.folder, results, Findings(), [parallel_coordinates] if config.get("figures") else [])
        cfg.run_dir = str(jobs.folder)
        publish_sweep(cfg, results)
    show(results, jobs.folder)
    if missing:
        reason = f" ({trouble})" if trouble else ""
        kept = " The results of before have more jobs and stay." if stays else ""
        raise JobsFailed(
            f"{len(missing)} of {len(rows)} jobs did not finish{reason}; "
            f"the same command with run_dir={jobs.folder} tries them again.{kept}"
        )


def knows_more(folder: Path, results: RunResults) -> bool:
    """Whether the sweep's results of before have a job that is done there and not in the new ones."""
    try:
        before = finished_results(folder)
    except DamagedFile:  # nothing to keep
        return False
    return before is not None and not set(before.runs) <= set(results.runs)


def row(job: Job, results: RunResults | None, metric: str, value: float | None) -> Row:
    """A job in the table."""
    failure = None if results else job.read_failure()
    return {
        "job": job.number,
        "overrides": " ".join(f"{key}={text}" for key, text in job.values.items()),
        metric: value,
        "status": "done" if results else "failed" if failure else "unfinished",
        "seconds": results.provenance.seconds if results else None,
        "error": failure,
        "values": dict(job.values),
    }


def command(job: Job) -> str:
    """The job as a line to paste."""
    return shlex.join(["python", "train.py", *job.overrides])


def show(results: RunResults, folder: Path) -> None:
    """Print the table, the errors and the best job; the last line is the path of results.json."""
    rows = results.tables["jobs"]
    columns = [column for column in rows[0] if column not in ("error", "values")]
    print_table(paper(), f"{results.experiment}: {len(rows)} jobs", rows, columns)
    for row in rows:
        if row["error"]:
            print(f"job {row['job']} failed: {row['error']}")
    for best in results.tables.get("best", []):
        (metric, value), *_ = results.metrics.items()
        print(f"best {metric} {value:.4g}, job {best['job']}:\n{best['command']}")
    if not results.metrics and (found := results.tables["metrics"]):
        names = ", ".join(row["metric"] for row in found)
        print(f"no job has {columns[2]}; to compare the jobs, give search.metric= one of {names}")
    for figure in sorted((folder / "figures").glob("*.png")):
        print(f"figure: {figure}")
    if offline := [f"{shlex.quote(str(folder))}/{runs}" for runs in OFFLINE if next(folder.glob(runs), None)]:
        print("wandb sync", *offline)
    print(folder / "results.json", flush=True)
