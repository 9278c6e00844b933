"""What a job does when SLURM warns it, with a program in the place of scontrol."""

import os
import signal

from headscope.runs.slurm import queue_again, requeued_when_warned


def test_a_warning_queues_the_job_of_the_first_process_alone(tmp_path, monkeypatch, capsys):
    """SLURM is asked for the task of an array by both numbers."""
    refuses = '[ "$2" != 9 ] || { echo no >&2; exit 1; }'
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{refuses}\n')
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for key, value in {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}.items():
        monkeypatch.setenv(key, value)
    with requeued_when_warned():
        os.kill(os.getpid(), signal.SIGUSR1)
    assert "SLURM queues the job again, which then goes on from the last checkpoint." in capsys.readouterr().err
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID")
    monkeypatch.setenv("SLURM_JOB_ID", "9")
    queue_again(signal.SIGUSR1)
    assert "SLURM does not queue the job again (no); resume=true" in capsys.readouterr().err
    monkeypatch.setenv("SLURM_PROCID", "1")
    queue_again(signal.SIGUSR1)
    assert (tmp_path / "asked").read_text().splitlines() == ["requeue 7_3", "requeue 9"]
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
