"""A broker in a process of its own that can be killed and started again on the same data."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from tests.bad_input import requests
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.interop.waiting import eventually

QUIET = {"log_level": 0}
# Far more than a start may take on a busy machine; what it may take at all is another test's business.
START_S = 60


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class CrashingBroker:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.bootstrap = free_address()
        self.data_dir = directory / "data"
        self._log = directory / "broker.log"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Returns the seconds until it answered."""
        command = [sys.executable, "-m", "penstock", "serve", "--listen", self.bootstrap, "--http", "127.0.0.1:0"]
        command += ["--data-dir", str(self.data_dir)]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        started = time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._answers, "the broker answers", timeout_s=START_S)
        return time.monotonic() - started

    def kill(self) -> None:
        """As the kernel does it: no chance to tidy up."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        admin.create_topics([NewTopic(name, partitions, config=dict(config or {}))])[name].result(20)

    def log_text(self) -> str:
        return self._log.read_text()

    def _answers(self) -> bool:
        """Asked without a client library: those wait between attempts, and that is not the broker's time."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the broker did not start:\n{self.log_text()[-3000:]}")
        try:
            with RawConnection(self.bootstrap, timeout_s=START_S) as connection:
                return bool(connection.ask(requests.metadata()).brokers)
        except (ConnectionError, ConnectionClosed):
            return False


@contextmanager
def crashing_broker(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[CrashingBroker]:
    os.makedirs(directory, exist_ok=True)
    broker = CrashingBroker(directory, settings or {})
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
