"""The broker that gets the bad input: a process of its own, so that its memory and its end can be seen.

PENSTOCK_INTEROP_BOOTSTRAP names another broker instead, such as Apache Kafka: what only Penstock promises is skipped.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually

SETTINGS = {"connections.max.idle.ms": "600000", "group.initial.rebalance.delay.ms": "0"}


class Broker:
    def __init__(
        self,
        bootstrap: str,
        http: str = "",
        process: subprocess.Popen[bytes] | None = None,
        log: Path | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self._http = http
        self._process = process
        self._log = log
        self._numbers = itertools.count()
        self._run = os.urandom(3).hex()

    def connect(self, timeout_s: float = 10.0) -> RawConnection:
        return RawConnection(self.bootstrap, timeout_s)

    def name(self, stem: str) -> str:
        return f"{stem}-{self._run}-{next(self._numbers)}"

    def topic(self, configs: dict[str, str] | None = None, partitions: int = 1) -> str:
        name = self.name("bad")
        with self.connect() as connection:
            (row,) = connection.ask(requests.create_topic(name, partitions, configs)).topics
            assert row.error_code == 0, row.error_message
            eventually(lambda: self._is_ready(connection, name), f"{name} can be read")
        return name

    @staticmethod
    def _is_ready(connection: RawConnection, topic: str) -> bool:
        return bool(connection.ask(requests.fetch(topic)).responses[0].partitions[0].error_code == 0)

    @property
    def is_penstock(self) -> bool:
        return self._process is not None

    def is_alive(self) -> bool:
        return self._process is None or self._process.poll() is None

    @contextmanager
    def growing_at_most(self, size: int) -> Iterator[None]:
        """Fails when the process, at its peak, takes more than `size` bytes on top of what it has now."""
        before = self.forget_peak()
        yield
        grown = self.peak_bytes() - before
        assert grown <= size, f"memory grew by {grown:,} bytes, {size:,} are allowed"

    def forget_peak(self) -> int:
        """Sets the kernel's high-water mark back to what is resident now, which it returns."""
        (self._proc() / "clear_refs").write_text("5")
        return _status(self._proc(), "VmRSS")

    def peak_bytes(self) -> int:
        """The most that was resident since `forget_peak`."""
        return _status(self._proc(), "VmHWM")

    def _proc(self) -> Path:
        if self._process is None:
            pytest.skip("the memory of a broker elsewhere cannot be seen")
        return Path(f"/proc/{self._process.pid}")

    def log_text(self) -> str:
        """All that the broker has said since its start."""
        if self._log is None:
            pytest.skip("the log of a broker elsewhere cannot be seen")
        return self._log.read_text()

    def unexpected_errors(self) -> int:
        """Requests that ended in a bug, by the broker's own count."""
        return 0 if self._process is None else int(self.metric("penstock_unexpected_errors_total"))

    def metric(self, name: str) -> float:
        """A metric without labels, as it is now."""
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=10) as answer:
            found = re.search(rf"^{name} (\S+)", answer.read().decode(), re.MULTILINE)
        assert found, f"there is no metric {name}"
        return float(found.group(1))


def _status(process: Path, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", (process / "status").read_text(), re.MULTILINE)
    assert found
    return int(found.group(1)) * 1024


def _free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _answers(bootstrap: str) -> bool:
    try:
        with RawConnection(bootstrap) as connection:
            return bool(connection.ask(requests.metadata()).brokers)
    except OSError:
        return False


@contextmanager
def broker_process(directory: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Broker]:
    given = os.environ.get("PENSTOCK_INTEROP_BOOTSTRAP")
    if given:
        yield Broker(given)
        return
    # Thousands of connections at both ends; the broker takes over what is allowed here.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    bootstrap, http = _free_address(), _free_address()
    command = [sys.executable, "-m", "penstock", "serve", "--listen", bootstrap, "--http", http]
    command += ["--data-dir", str(directory / "data")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    log = directory / "broker.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        eventually(lambda: process.poll() is not None or _answers(bootstrap), "the broker answers")
        assert process.poll() is None, log.read_text()
        yield Broker(bootstrap, http, process, log)
    finally:
        process.terminate()
        process.wait(timeout=20)
