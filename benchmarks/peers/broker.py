"""A broker under measurement: one started process, its address and its log."""

from __future__ import annotations

import enum
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

_STOP_S = 30
_READY_S = 60
# Short beside the start of a broker, which is measured by it.
_ASK_AGAIN_S = 0.005
_CACHE_VARIABLE = "PENSTOCK_BENCH_CACHE"


class Durability(enum.Enum):
    """What an acknowledgement means. A comparison is fair within one of them; users meet DEFAULT."""

    OS = "os"
    FSYNC = "fsync"
    DEFAULT = "default"
    # By three brokers, two of which are enough to go on: all in-sync replicas have it.
    RF3_OS = "rf3-os"
    RF3_FSYNC = "rf3-fsync"

    @property
    def replicas(self) -> int:
        return 3 if self in (Durability.RF3_OS, Durability.RF3_FSYNC) else 1

    @property
    def is_synced(self) -> bool:
        return self in (Durability.FSYNC, Durability.RF3_FSYNC)


class PeerUnavailable(Exception):
    """This peer cannot run here; the text says why and what would help."""


class Peer(Protocol):
    name: str

    def prepare(self) -> None:
        """Fetch what the peer needs, once. Raises PeerUnavailable."""

    def launch(self, directory: Path, durability: Durability) -> Cluster:
        """Start as many brokers as replicas on an empty directory; returns as soon as the processes exist."""

    def settings_of(self, durability: Durability) -> str:
        """How this durability is asked for, in the peer's own words."""

    def version(self) -> str:
        """What runs, and on what."""


class Cluster(Protocol):
    """What runs for a peer: one broker, or several with what they need. Leaving the `with` block ends it."""

    peer_name: str
    # Of all its brokers, with commas between them.
    address: str
    launched_s: float

    @property
    def broker_pids(self) -> list[int]: ...

    @property
    def coordinator_pids(self) -> list[int]:
        """What it runs beside its brokers; accounted for on its own."""

    def await_listening(self) -> None: ...

    def check_alive(self) -> None: ...

    def log_tail(self) -> str: ...

    def stop(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Broker:
    """Owns the process, and is a cluster of one."""

    def __init__(self, peer_name: str, arguments: Sequence[str], port: int, log_path: Path) -> None:
        self.peer_name = peer_name
        self.address = f"127.0.0.1:{port}"
        self._port = port
        self._log_path = log_path
        with log_path.open("wb") as log:
            self.launched_s = time.monotonic()
            self._process = subprocess.Popen(arguments, stdout=log, stderr=subprocess.STDOUT)

    @property
    def broker_pids(self) -> list[int]:
        return [self._process.pid]

    @property
    def coordinator_pids(self) -> list[int]:
        return []

    def await_listening(self) -> None:
        deadline_s = time.monotonic() + _READY_S
        while time.monotonic() < deadline_s:
            self.check_alive()
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                time.sleep(_ASK_AGAIN_S)
        raise PeerUnavailable(f"{self.peer_name} did not listen within {_READY_S} s:\n{self.log_tail()}")

    def check_alive(self) -> None:
        code = self._process.poll()
        if code is not None:
            raise PeerUnavailable(f"{self.peer_name} ended with code {code}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        lines = self._log_path.read_text(errors="replace").splitlines()
        return "\n".join(lines[-12:])

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def cache_directory() -> Path:
    """Where what was fetched and installed stays for the next run."""
    return Path(os.environ.get(_CACHE_VARIABLE) or Path.home() / ".cache" / "penstock-bench")


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
