"""SLURM on this machine alone: munged, slurmctld and slurmd of a folder of their own, ended with the block.

Needs root and Debian's packages slurm-wlm and munge. `python -m tests.cluster.slurm FOLDER` starts one, to be tried by
hand: it prints the environment that makes srun, sbatch and submitit use it, and runs until Ctrl-C.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
PATIENCE = 60  # seconds
CORES = 4  # that SLURM believes in, so that two jobs of two tasks can run; the machine may have fewer
CONFIGURATION = """
ClusterName=headscope_tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmctldPort={controller}
SlurmdPort={daemon}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
SchedulerParameters=batch_sched_delay=1,sched_interval=5,bf_interval=5
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF
"""


class CannotStart(Exception):
    """SLURM is not there, or not to be had on this machine."""


@contextmanager
def one_machine(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which SLURM's commands speak with this cluster."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        raise CannotStart(f"needs {', '.join(missing) or 'root'}")
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir(parents=True)
    write_configuration(folder)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    started = []
    try:
        for command in (munged(folder), ["slurmctld", "-D", "-c"], ["slurmd", "-D", "-c"]):
            with (folder / f"{command[0]}.out").open("w") as output:
                started.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
            if command[0] == "munged":
                wait_for(lambda: (folder / "munge" / "socket").exists(), "munged", started[-1], folder)
        wait_for(lambda: is_idle(environment), "slurmd", started[-1], folder)
        yield environment
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def write_configuration(folder: Path) -> None:
    """The files that the daemons read."""
    host, (controller, daemon) = socket.gethostname().partition(".")[0], free_ports(2)
    text = CONFIGURATION.format(folder=folder, host=host, controller=controller, daemon=daemon, cores=CORES)
    (folder / "slurm.conf").write_text(text)
    key = folder / "munge" / "key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    (folder / "munge").chmod(0o755)


def munged(folder: Path) -> list[str]:
    """The command of the daemon that says who is who; --force: its folder may lie below one that others can write."""
    place = folder / "munge"
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    return ["munged", "--foreground", "--force", *(f"--{option}={place / name}" for option, name in files.items())]


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def is_idle(environment: dict[str, str]) -> bool:
    """Whether the machine takes jobs."""
    call = subprocess.run(["sinfo", "--noheader", "--format=%T"], env=environment, capture_output=True, text=True)
    return call.stdout.split()[:1] == ["idle"]


def wait_for(done, what: str, process: subprocess.Popen, folder: Path) -> None:
    """Until it is so; an error with the daemon's words where it ends or takes too long."""
    end = time.monotonic() + PATIENCE
    while not done():
        if process.poll() is not None or time.monotonic() > end:
            said = "".join(file.read_text()[-500:] for file in (*folder.glob("*.out"), *folder.glob("slurm*.log")))
            raise CannotStart(f"{what} does not start: {said}")
        time.sleep(0.2)


if __name__ == "__main__":
    with one_machine(Path(sys.argv[1]).resolve()) as variables:
        print(f"export SLURM_CONF={variables['SLURM_CONF']}", flush=True)
        signal.pause()
