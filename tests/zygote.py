"""The process from which tests/commands.py starts programs: it has imported what they need, and forks for each of them.

It answers one question after another: `start` forks and gives the number of the new process, `poll` tells its status.
The new process leaves the loop, runs its program at the end of this file and ends as every interpreter does.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import tomllib
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from tests.yaml_once import parse_once

PROJECT = Path(__file__).parents[1]
# What the project imports only when it is needed, and what libraries do.
LATE = (
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "pytorch_lightning.loggers",
    "spacy",
    "torch.distributed",
    "torch.nn.parallel",
    "transformers.models.auto.modeling_auto",
    "transformers.models.bert.modeling_bert",
    "transformers.models.bert.tokenization_bert",
)
HEADER = 8  # bytes that say how many follow


def preload() -> None:
    """Import all modules of the project with what they import, but compute nothing: threads do not outlive a fork."""
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    names = list(LATE)
    for package in packages:
        folders = importlib.import_module(package).__path__
        names += [name for _, name, _ in pkgutil.iter_modules(folders, f"{package}.") if not name.endswith("__main__")]
    for name in names:
        with suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(name)


def compose() -> None:
    """Compose a configuration as every program will: the grammar and the files of all groups are then known."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    from headscope.runs.cli import register

    parse_once()
    register()
    with initialize_config_module("headscope.conf", version_base="1.3"):
        compose("train", ["module.lr=1e-3", "data.limit=2", "trainer.max_epochs=-1", "~figures"])
    for file in (PROJECT / "conf").rglob("*.yaml"):
        OmegaConf.load(file)


def receive(connection: socket.socket) -> tuple[dict, list[int]]:
    """The next question and the file descriptors that came with it; an empty one where nobody is left to ask."""
    header, descriptors, *_ = socket.recv_fds(connection, HEADER, 3)
    if not header:
        return {}, []
    size, content = int(header), b""
    while len(content) < size:
        content += connection.recv(size - len(content))
    return json.loads(content), descriptors


def serve(owner: socket.socket, listener: socket.socket | None) -> dict:
    """Answer whoever asks until the owner is gone; in the process of a program, returns what it was asked to run."""
    gc.freeze()  # what was imported need not be looked through again in every process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the tests, and with them this process
    sockets = [owner, *([listener] if listener else [])]
    while True:
        for asking in select.select(sockets, [], [])[0]:
            if asking is listener:
                sockets.append(listener.accept()[0])
                continue
            question, descriptors = receive(asking)
            if not question:
                if asking is owner:
                    os._exit(0)
                sockets.remove(asking)
                asking.close()
            elif "poll" in question:
                number, status = os.waitpid(question["poll"], os.WNOHANG)
                reply(asking, os.waitstatus_to_exitcode(status) if number else None)
            elif number := os.fork():
                for descriptor in descriptors:
                    os.close(descriptor)
                reply(asking, number)
            else:
                for each in sockets:
                    each.close()
                become(question, descriptors)
                return question


def reply(asking: socket.socket, answer: int | None) -> None:
    """One line; who asked may be gone."""
    with suppress(OSError):
        asking.sendall(f"{json.dumps(answer)}\n".encode())


def become(question: dict, descriptors: list[int]) -> None:
    """Look like an interpreter that was just started: streams, group, folder, environment, signals."""
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    if question["own_group"]:
        os.setpgid(0, 0)
    os.chdir(question["cwd"])
    os.environ.clear()
    os.environ.update(question["environment"])
    ignores = question.get("ignores", [])
    signal.signal(signal.SIGINT, signal.SIG_IGN if signal.SIGINT in ignores else signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if signal.SIGTERM in ignores else signal.SIG_DFL)
    # What was read from the environment, or drawn, when modules were imported.
    for name in ("headscope.runs.cli", "headscope.runs.ddp"):
        sys.modules[name].SHOW_TRACEBACK = os.environ.get("HYDRA_FULL_ERROR") == "1"
    sys.modules["numpy"].random.seed()


class Second:
    """What the program takes for a subprocess.Popen: the process that was forked for it, told what to be."""

    def __init__(self, number: int, writing: int, command: list[str], env: dict[str, str], cwd: str | None) -> None:
        self.pid, self.returncode, self._lock = number, None, threading.Lock()
        question = {"words": command[1:], "cwd": cwd or str(Path.cwd()), "environment": dict(env), "own_group": False}
        stops = (signal.SIGINT, signal.SIGTERM)
        question["ignores"] = [number for number in stops if signal.getsignal(number) == signal.SIG_IGN]
        with os.fdopen(writing, "w") as stream:
            json.dump(question, stream)

    def poll(self) -> int | None:
        """The exit status once it has one."""
        with self._lock:
            if self.returncode is None:
                number, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if number else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def with_a_second(question: dict) -> dict:
    """Fork once more for the other process of a run in two; each returns with what it is to run.

    The other waits until Lightning starts it: forked at that moment, it would not be new.
    """
    reading, writing = os.pipe()
    if number := os.fork():
        os.close(reading)
        launcher = sys.modules["pytorch_lightning.strategies.launchers.subprocess_script"]
        launcher.subprocess = SimpleNamespace(Popen=partial(Second, number, writing))
        return question
    os.close(writing)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(reading) as stream:
        text = stream.read()
    if not text:  # the first has ended without it
        os._exit(0)
    question = json.loads(text)
    become(question, [])
    return question


def run(words: list[str]) -> None:
    """What `python` does with these words: a script, -m with a module, or -c with a text."""
    first = words[0]
    if first == "-m":
        sys.argv, sys.path[0] = words[1:], str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv, sys.path[0] = ["-c", *words[2:]], ""
        exec(words[1], {"__name__": "__main__"})
    else:
        sys.argv, sys.path[0] = words, str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")


def status_of(words: list[str]) -> int:
    """Run them; the status that Python ends with. An error ends this process as it ends every other."""
    try:
        run(words)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    return 0


def leave(status: int) -> None:
    """End as Python does, but leave the memory to the system: taking apart all that was imported takes half a second."""
    threading._shutdown()  # waits for the threads that are no daemons
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    preload()
    compose()
    asked = serve(*(socket.socket(fileno=int(number)) if int(number) else None for number in sys.argv[1:]))
    if asked["two_processes"]:
        asked = with_a_second(asked)
    leave(status_of(asked["words"]))
