"""Where processes of a test cluster run, and how they are cut off from each other.

With namespaces each place has a network of its own and one router, the test's own process, between them all: what the
router drops is lost without a word, as in a real partition. Without them all places are one, and nothing can be cut.
It needs iproute2 (`ip`, `ss`) and nothing else: rules of the router drop, `ss -K` resets.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
# Before the table of local addresses, which is first otherwise.
_CUT_PRIORITY, _LOCAL_PRIORITY = "10", "20"
_LINK_ATTEMPTS, _NO_PORT = 200, 9
IN_NAMESPACES = "TEST_CLUSTER_IN_NAMESPACES"


class Place(Protocol):
    name: str
    host: str

    def run(self, work: Callable[[], T]) -> T:
        """What it starts or dials, it starts and dials there. Processes end with this process."""


class Network(Protocol):
    can_cut: bool

    def place(self, name: str) -> Place: ...

    def cut(self, source: Place, target: Place) -> None:
        """One way; twice for both."""

    def heal(self) -> None: ...

    def reset(self, place: Place) -> None:
        """Ends all its connections at once, for both ends."""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Loopback:
    """One machine, one network: for where namespaces are not to be had."""

    can_cut = False

    def place(self, name: str) -> Place:
        return LoopbackPlace(name)

    def cut(self, source: Place, target: Place) -> None:
        raise AssertionError("nothing can be cut on loopback")

    def heal(self) -> None:
        pass

    def reset(self, place: Place) -> None:
        raise AssertionError("nothing can be cut on loopback")


class LoopbackPlace:
    host = "127.0.0.1"

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, work: Callable[[], T]) -> T:
        return work()


class Namespaces:
    """This process must be in a network namespace of its own already: `command_in_namespaces` sees to it."""

    can_cut = True

    def __init__(self) -> None:
        self._places: list[NamespacePlace] = []
        self._cuts = 0
        ip("link", "set", "lo", "up")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as setting:
            setting.write("1")
        ip("rule", "add", "priority", _LOCAL_PRIORITY, "lookup", "local")
        ip("rule", "del", "priority", "0", "lookup", "local")

    def place(self, name: str) -> Place:
        place = NamespacePlace(name, len(self._places) + 1)
        self._places.append(place)
        return place

    def cut(self, source: Place, target: Place) -> None:
        ip("rule", "add", "from", source.host, "to", target.host, "priority", _CUT_PRIORITY, "blackhole")
        self._cuts += 1

    def heal(self) -> None:
        for _ in range(self._cuts):
            ip("rule", "del", "priority", _CUT_PRIORITY)
        self._cuts = 0

    def reset(self, place: Place) -> None:
        """It tells of sockets that cannot be ended, listening ones say, and those do not matter here."""
        place.run(lambda: subprocess.run(["ss", "-t", "-K", "src", place.host], check=False, capture_output=True))


class NamespacePlace:
    """A thread that lives in a network namespace of its own and does there what it is given."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.host = f"10.77.{number}.2"
        # One thread, for good: what it starts ends with it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        thread_id = self.run(_enter_new_namespace)
        router = f"10.77.{number}.1"
        ip("link", "add", f"to{number}", "type", "veth", "peer", "name", "link0", "netns", str(thread_id))
        ip("addr", "add", f"{router}/24", "dev", f"to{number}")
        ip("link", "set", f"to{number}", "up")
        self.run(lambda: ip("link", "set", "lo", "up"))
        self.run(lambda: ip("addr", "add", f"{self.host}/24", "dev", "link0"))
        self.run(lambda: ip("link", "set", "dev", "link0", "up"))
        self.run(lambda: ip("route", "add", "default", "via", router))
        self._wait_until_reached()

    def run(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def _wait_until_reached(self) -> None:
        """A new link loses what is sent at once. Nobody listens there yet, so a refusal is the sign of life."""
        for _ in range(_LINK_ATTEMPTS):
            try:
                socket.create_connection((self.host, _NO_PORT), timeout=0.05).close()
            except ConnectionRefusedError:
                return
            except OSError:
                continue
        raise OSError(f"the link to {self.name} at {self.host} does not come up")


def _enter_new_namespace() -> int:
    """Of this thread alone; returns its id, by which others find the namespace."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace")
    return threading.get_native_id()


def why_no_namespaces() -> str:
    """Empty if they are to be had."""
    for tool in ("ip", "ss", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no `{tool}`: apt-get install iproute2 util-linux"
    probe = (
        "ip link add probe0 type veth peer name probe1 && ip rule add from 10.77.1.2 to 10.77.2.2 priority 10 blackhole"
    )
    tried = subprocess.run([*_unshare(), "sh", "-c", probe], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"the kernel refuses: {tried.stderr.strip()}"


def _unshare() -> list[str]:
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-Urn"]


def command_in_namespaces(command: list[str]) -> list[str]:
    return [*_unshare(), "env", f"{IN_NAMESPACES}=1", *command]


def open_network() -> Network:
    return Namespaces() if os.environ.get(IN_NAMESPACES) else Loopback()
