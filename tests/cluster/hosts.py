"""Two hosts that are network namespaces of this machine, joined by a cable that can be cut.

Needs root and `ip` of iproute2. They share the disk, as the machines of a cluster do.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

ADDRESSES = ("10.213.77.1", "10.213.77.2")


class CannotStart(Exception):
    """Network namespaces are not to be had on this machine."""


@dataclass(frozen=True)
class Host:
    """One of the two."""

    namespace: str
    interface: str
    address: str

    def command(self, *words: str) -> list[str]:
        """A command, to be run on this host."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def cut_off(self) -> None:
        """Pull the cable: nothing arrives any more, and nobody is told."""
        ip("-n", self.namespace, "link", "set", self.interface, "down")


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """The hosts, removed with the block."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        raise CannotStart("needs root and iproute2's ip")
    names = [f"headscope-{os.getpid()}-{number}" for number in range(2)]
    ends = [f"hs{os.getpid() % 10**8}{letter}" for letter in "ab"]  # at most 15 letters
    hosts = [Host(*parts) for parts in zip(names, ends, ADDRESSES, strict=True)]
    try:
        for host in hosts:
            ip("netns", "add", host.namespace)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1])
        for host in hosts:
            ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", host.interface)
            for interface in ("lo", host.interface):
                ip("-n", host.namespace, "link", "set", interface, "up")
        yield hosts[0], hosts[1]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def ip(*words: str) -> None:
    """A command of iproute2's."""
    call = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if call.returncode:
        raise CannotStart(f"ip {' '.join(words)}: {call.stderr.strip()}")
