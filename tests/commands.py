"""Programs as a user starts them, without the seconds that their imports take: forked from tests/zygote.py.

What they do, print and leave with is that of a new interpreter. Real ones are kept for tests of just that.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Thread
from typing import IO

from tests.zygote import HEADER, PROJECT

ENVIRONMENT = dict(os.environ)  # before any test changes it
LOOK_EVERY = 0.01  # seconds
SHARED = "HEADSCOPE_TEST_ZYGOTE"  # where the workers of one pytest find the process that they share


class Command:
    """A running program, used like subprocess.Popen: given as after `python`, a script, -m module or -c text."""

    def __init__(
        self,
        *words: str,
        cwd: Path | str = PROJECT,
        env: Mapping[str, str] | None = None,
        stdin: int | None = None,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.PIPE,
        own_group: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        self.stderr: IO[str] | None = None
        environment = dict(os.environ if env is None else env)
        question = {"words": words, "cwd": str(cwd), "environment": environment, "own_group": own_group}
        question["two_processes"] = "trainer=ddp" in words or "tests.runs.two_processes" in words
        nothing = os.open(os.devnull, os.O_RDWR)
        theirs = [nothing, nothing, nothing]
        if stdin == subprocess.PIPE:
            theirs[0], ours = os.pipe()
            self.stdin = os.fdopen(ours, "w")
        for place, name, wanted in ((1, "stdout", stdout), (2, "stderr", stderr)):
            if wanted == subprocess.PIPE:
                ours, theirs[place] = os.pipe()
                setattr(self, name, os.fdopen(ours))
            elif wanted == subprocess.STDOUT:
                theirs[place] = theirs[1]
            elif wanted not in (None, subprocess.DEVNULL):
                theirs[place] = os.dup(wanted)
        self.pid = ask(question, theirs)
        for descriptor in {nothing, *theirs}:
            os.close(descriptor)

    def poll(self) -> int | None:
        """The exit status once it has one; that of a signal is negative."""
        if self.returncode is None:
            self.returncode = ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float = 300) -> int:
        """The exit status, as soon as there is one."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(LOOK_EVERY)
        return self.returncode

    def communicate(self, text: str = "", timeout: float = 600) -> tuple[str, str]:
        """All that it writes until no process is left to write, and then its status is known."""
        if self.stdin:
            with self.stdin:
                self.stdin.write(text)
        said = {"stdout": "", "stderr": ""}

        def read(name: str) -> None:
            said[name] = getattr(self, name).read()

        readers = [Thread(target=read, args=(name,), daemon=True) for name in said if getattr(self, name)]
        end = time.monotonic() + timeout
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(max(0, end - time.monotonic()))
        if any(reader.is_alive() for reader in readers):
            self.kill()
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        self.wait(max(1, end - time.monotonic()))
        self._close()
        return said["stdout"], said["stderr"]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()


def run(*words: str, cwd: Path | str = PROJECT, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess:
    """A program from start to end, with what it wrote."""
    command = Command(*words, cwd=cwd, env=env)
    out, err = command.communicate()
    return subprocess.CompletedProcess(words, command.returncode, out, err)


def new_process(*words: str, cwd: Path | str = PROJECT, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess:
    """The same in an interpreter that is really started."""
    return subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)


def train(*arguments: str, cwd: Path | str | None = None, **environment: str) -> tuple[int, str, str]:
    """Run train.py as a user does; returns status, standard output and standard error."""
    call = run(str(PROJECT / "train.py"), *arguments, cwd=cwd or PROJECT, env={**os.environ, **environment})
    return call.returncode, call.stdout, call.stderr


def start(*arguments: str, own_group: bool = False) -> Command:
    """train.py, to be watched and interrupted; what it prints is only read from standard error."""
    return Command(str(PROJECT / "train.py"), *arguments, stdout=subprocess.DEVNULL, own_group=own_group)


def ask(question: dict, descriptors: list[int] = ()) -> int | None:
    """The answer of the process that starts programs."""
    connection, answers = zygote()
    content = json.dumps(question).encode()
    socket.send_fds(connection, [f"{len(content):{HEADER}d}".encode()], list(descriptors))
    connection.sendall(content)
    answer = answers.readline()
    if not answer:
        raise RuntimeError("tests/zygote.py has ended; its error is above.")
    return json.loads(answer)


@cache
def zygote() -> tuple[socket.socket, IO[str]]:
    """The way to that process: the one that all workers share, or one of our own, started when it is first needed."""
    if path := os.environ.get(SHARED):
        ours = socket.socket(socket.AF_UNIX)
        ours.connect(path)
    else:
        ours = start_zygote()
    return ours, ours.makefile()


def start_zygote(listener: socket.socket | None = None, **environment: str) -> socket.socket:
    """Starts that process, with who may connect to it as well; it ends with this one."""
    ours, theirs = socket.socketpair()
    numbers = [each.fileno() if each else 0 for each in (theirs, listener)]
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", *map(str, numbers)],
            cwd=PROJECT,
            env=ENVIRONMENT | environment,
            pass_fds=[number for number in numbers if number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    atexit.register(lambda: (ours.shutdown(socket.SHUT_RDWR), process.wait()))
    return ours


def share_zygote(folder: Path) -> None:
    """One for all workers that are started from here: it is being made ready while they collect their tests."""
    os.environ[SHARED] = str(folder / "zygote")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[SHARED])
        listener.listen()
        start_zygote(listener, OMP_NUM_THREADS="1")
