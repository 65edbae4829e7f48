"""Several brokers on this machine, each a process of its own, that start and stop together."""

from __future__ import annotations

import ctypes
import http.client
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from penstock.config.address import Address

# Longer than a clean stop takes that hands over leadership and syncs everything.
STOP_S = 30.0
_POLL_S = 0.05
_PR_SET_PDEATHSIG = 1


class BrokerProcess(NamedTuple):
    """`arguments` go to `penstock serve`; what it says goes to the file at `log_path`, or where ours goes."""

    name: str
    arguments: Sequence[str]
    http: Address
    log_path: str | None = None

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "penstock", "serve", *self.arguments]


class BrokerProcesses:
    """As a context manager, so that none is left behind. A broker that ends by itself is told of once."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self._brokers = brokers
        self._running: list[tuple[BrokerProcess, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> BrokerProcesses:
        try:
            for broker in self._brokers:
                self._running.append((broker, started(broker)))
        except OSError:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __len__(self) -> int:
        """How many have not ended, as far as was told."""
        return len(self._running)

    def wait_until_ready(self, deadline_s: float) -> list[str]:
        """Until all brokers answer that they are. Otherwise what keeps each of the others, in words."""
        waiting = {broker.name: "it has not answered yet" for broker in self._brokers}
        while waiting and time.monotonic() < deadline_s:
            ended = self.take_ended()
            if ended:
                return ended
            for broker, _ in self._running:
                if broker.name in waiting and (why_not := why_not_ready(broker.http)) is None:
                    del waiting[broker.name]
                elif broker.name in waiting:
                    waiting[broker.name] = str(why_not)
            if waiting:
                time.sleep(_POLL_S)
        return [f"{name} is not ready: {why}" for name, why in waiting.items()]

    def take_ended(self) -> list[str]:
        """Those that have ended since this was last called, with what to do."""
        ended = [(broker, process.returncode) for broker, process in self._running if process.poll() is not None]
        self._running = [(broker, process) for broker, process in self._running if process.returncode is None]
        return [_ending(broker, code) for broker, code in ended]

    def stop(self) -> None:
        """All at once and cleanly; whoever does not end in time is killed, and recovers at its next start."""
        for _, process in self._running:
            process.terminate()
        deadline_s = time.monotonic() + STOP_S
        for _, process in self._running:
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = []


def started(broker: BrokerProcess) -> subprocess.Popen[bytes]:
    # Of its own session: a Ctrl-C is for the parent, which stops all of them in order.
    if broker.log_path is None:
        return subprocess.Popen(broker.command, stdin=subprocess.DEVNULL, start_new_session=True)
    with open(broker.log_path, "ab") as log:
        return subprocess.Popen(
            broker.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def why_not_ready(address: Address) -> str | None:
    """In words; None: it says that it is."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=2)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        return f"it does not answer at {address}: {error}"
    finally:
        connection.close()
    return None if answer.status == http.client.OK else body.decode(errors="replace")


def _ending(broker: BrokerProcess, code: int) -> str:
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    said = f"; what it said is in {broker.log_path}" if broker.log_path is not None else ""
    again = f"Start it again with: {shlex.join(broker.command)}"
    return f"{broker.name} {how}{said}.{os.linesep}       {again}"


def end_with_parent(parent: int, number: signal.Signals) -> bool:
    """Has the system send this signal to this process when its parent is gone, however that ended. False: it is."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent
