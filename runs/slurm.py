"""SLURM's warning that a job is about to lose its machine: it is queued again, and goes on from its last checkpoint.

The warning is SIGUSR1, as `#SBATCH --signal=USR1@90` asks for. Where the job has ended by SIGTERM and SLURM queues it again
by itself, as after preemption, nothing is to be done here.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from headscope.processes import is_first_process

JOB = "SLURM_JOB_ID"
PATIENCE = 60  # seconds


@contextmanager
def requeued_when_warned() -> Iterator[None]:
    """In a job of SLURM's, SIGUSR1 queues it again in this block, unless it has a handler of somebody else."""
    main = threading.current_thread() is threading.main_thread()
    if JOB not in os.environ or not main or signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGUSR1, queue_again)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


def queue_again(_number: int, _frame: FrameType | None = None) -> None:
    """Ask SLURM to queue the job again, by the first process; SLURM then ends all of them by SIGTERM.

    No checkpoint is written, as Lightning would: from the middle of an epoch a run does not come to the same numbers, since
    the data loader begins again. The one after the last epoch is there.
    """
    if not is_first_process():
        return
    try:
        call = subprocess.run(
            ["scontrol", "requeue", job_id()], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        trouble = call.stderr.strip() if call.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        trouble = str(error)
    told = f"does not queue the job again ({trouble}); resume=true with the same run_dir goes on" if trouble else ""
    print(f"SIGUSR1: SLURM {told or 'queues the job again, which then goes on'} from the last checkpoint.", file=sys.stderr)


def job_id() -> str:
    """As SLURM's commands take it: that of an array has the number of its task."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ[JOB]
