"""The jobs of a sweep: numbered folders, remembered by their overrides so that a sweep goes on where it was stopped."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hydra.core.config_loader import ConfigLoader
from omegaconf import DictConfig

from headscope.contracts import Row, RunResults
from headscope.errors import DamagedFile
from headscope.files import content_sha256, read_json, write_json
from headscope.runs.children import compose_job
from headscope.runs.resume import is_done, plain_config
from headscope.runs.sweeps.launch import JOBS, Job, require_one_process

CHECKSUM = "sha256"  # of the jobs
SHAPE = {"jobs": [{"job": int, "overrides": [str], "values": {str: str}, "search": [str]}]}


class SweepJobs:
    """All jobs that the sweep's folder has seen, in jobs.json, and those that the present command asks for."""

    def __init__(self, config: DictConfig, loader: ConfigLoader, fixed: Sequence[str]) -> None:
        self.config, self.loader, self.fixed = config, loader, tuple(fixed)
        self.folder = sweep_folder(config)
        self.records = self._read()
        self.mine: dict[int, Job] = {}
        self.configs: dict[int, DictConfig] = {}
        self.found: dict[int, RunResults] = {}

    def _read(self) -> list[Row]:
        """The jobs as they were written."""
        file, way_out = self.folder / JOBS, "without it no job can be told from another: mend the file, or use a new run_dir"
        content = read_json(file, SHAPE, way_out) or {"jobs": []}
        if content.get(CHECKSUM, expected := content_sha256(content["jobs"])) != expected:
            raise DamagedFile(f"{file}: is not as the sweep wrote it; {way_out}.")
        return content["jobs"]

    def claim(self, values: Mapping[str, str], search: Sequence[str] = ()) -> Job:
        """The job with these values, under its old number if the folder has seen it."""
        overrides = sorted([*self.fixed, *(f"{key}={value}" for key, value in values.items())])
        number = next((known["job"] for known in self.records if known["overrides"] == overrides), len(self.records))
        if number == len(self.records):
            self.records.append({"job": number, "overrides": overrides, "values": dict(values), "search": list(search)})
        if number not in self.mine:
            job = Job(number, self.folder / str(number), self.fixed, values)
            # A mistake in any job is found before the first one starts.
            self.configs[number] = compose_job(self.loader, self.config, job.arguments, job.folder)
            require_one_process(self.configs[number], self.config.hydra.launcher)
            self.mine[number] = job
        return self.mine[number]

    def earlier(self, search: Sequence[str]) -> list[Mapping[str, str]]:
        """The values that the same search has tried or begun."""
        return [record["values"] for record in self.records if record["search"] == list(search)]

    def save(self) -> None:
        """Remember the jobs; before any of them starts."""
        write_json(self.folder / JOBS, {"jobs": self.records, CHECKSUM: content_sha256(self.records)})

    def results(self, job: Job) -> RunResults | None:
        """What the job found, if it finished with the configuration that it would have now."""
        if job.number not in self.found:
            results = is_done(job.folder, plain_config(self.configs[job.number]))
            if results:
                self.found[job.number] = results
        return self.found.get(job.number)


def sweep_folder(config: DictConfig) -> Path:
    """The folder of the sweep."""
    return Path(os.path.abspath(config.hydra.sweep.dir))  # noqa: PTH100 - as Hydra does, links are kept
