"""One parent for the broker processes of a host: starts them, starts again what ends, stops them one after another.

A process that ends before it was ready for the first time ends all: what it was given is wrong, and whoever started
the parent should see that at once. From then on each is a broker of its own, so one that ends takes none of the others
with it: it is started again, by and by less often.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from types import FrameType

from penstock.cli.broker_processes import STOP_S, BrokerProcess, started, why_not_ready
from penstock.cli.core.restarts import Restarts
from penstock.cli.failure import EXIT_REFUSED

logger = logging.getLogger(__name__)

_LOOK_S = 0.2


class _Child:
    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.was_ready = False
        self._restarts = Restarts()
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_s: float | None = None
        self._next_s = 0.0

    def start(self) -> None:
        self._process = started(self.broker)
        self._ready_s = None
        logger.info("process.started", extra={"child": self.broker.name, "pid": self._process.pid})

    def look(self) -> int | None:
        """Its exit code if it has just ended; begins it again when its time has come."""
        now_s = time.monotonic()
        if self._process is None:
            if now_s >= self._next_s:
                self.start()
            return None
        code = self._process.poll()
        if code is None:
            if self._ready_s is None and why_not_ready(self.broker.http) is None:
                self._ready_s, self.was_ready = now_s, True
                logger.info("process.ready", extra={"child": self.broker.name})
            return None
        self._process = None
        pause_s = self._restarts.pause_s(0.0 if self._ready_s is None else now_s - self._ready_s)
        self._next_s = now_s + pause_s
        if self.was_ready:
            extra = {"child": self.broker.name, "code": code, "again_in_s": pause_s}
            logger.error("process.ended", extra=extra)
        return code

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None


class Supervisor:
    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self._children = [_Child(broker) for broker in brokers]
        self._stop = threading.Event()
        self._stop_at_once = threading.Event()

    def run(self) -> int:
        """Until SIGTERM or SIGINT, which is 0; or the exit code of the process that could not start."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._signalled)
        try:
            for child in self._children:
                child.start()
            while not self._stop.wait(_LOOK_S):
                for child in self._children:
                    code = child.look()
                    if code is not None and not child.was_ready and not self._stop.is_set():
                        logger.error("process.not.started", extra={"child": child.broker.name, "code": code})
                        return code if code > 0 else EXIT_REFUSED
            return 0
        finally:
            self._stop_all()

    def _signalled(self, number: int, _: FrameType | None) -> None:
        if self._stop.is_set():
            self._stop_at_once.set()
            return
        name = signal.Signals(number).name
        logger.info("processes.stopping", extra={"signal": name, "do": "send it again to stop at once"})
        self._stop.set()

    def _stop_all(self) -> None:
        """One after the other: each hands over what it leads while the others serve. Whoever takes too long is killed,

        and recovers at its next start.
        """
        for child in self._children:
            deadline_s = time.monotonic() + STOP_S
            child.ask_to_stop()
            while child.is_running and time.monotonic() < deadline_s and not self._stop_at_once.wait(_LOOK_S / 4):
                continue
            child.kill()
        logger.info("processes.stopped")
