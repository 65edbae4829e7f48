"""Brokers and clients as processes that a test can hurt."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bad_input import requests
from tests.bad_input.raw import ConnectionClosed, RawConnection
from tests.cluster.faults.broker_logs import LAUNCHED
from tests.cluster.faults.network import Place

from penstock.coordination.zookeeper_server import ending_with_this_process, free_ports

START_S = 60
STOP_S = 30
_POLL_S = 0.02
_NAMESPACE_PORT = 9092


class Process:
    """Its output goes to a file; it ends when this process ends, however that ends."""

    def __init__(self, place: Place, command: Sequence[str], output: Path) -> None:
        self._command = list(command)
        self._output = output
        self.place = place
        self._process: subprocess.Popen[bytes] | None = None
        self.paused = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        def start() -> subprocess.Popen[bytes]:
            with self._output.open("ab") as output:
                return subprocess.Popen(
                    ending_with_this_process(self._command),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )

        self._process = self.place.run(start)
        self.paused = False

    def kill(self) -> None:
        """As the kernel does it: no chance to tidy up."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.paused = False

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self.paused = False

    def terminate(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()

    def wait(self, timeout_s: float = STOP_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def stop(self) -> None:
        """However it is; kills it when it does not end by itself."""
        if not self.is_running:
            return
        self.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()

    def output_text(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""


class BrokerProcess(Process):
    def __init__(self, place: Place, node_id: int, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.node_id = node_id
        self.data_dir = directory / "data"
        port = _NAMESPACE_PORT if place.host != "127.0.0.1" else free_ports(1)[0]
        self.bootstrap = f"{place.host}:{port}"
        command = [sys.executable, "-m", "penstock", "serve", "--listen", self.bootstrap, "--http", "127.0.0.1:0"]
        command += ["--data-dir", str(self.data_dir), "--node-id", str(node_id)]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        super().__init__(place, command, directory / "broker.log")

    def launch(self) -> None:
        # Says to readers of the log where a new life begins.
        with self._output.open("a") as output:
            output.write(json.dumps({"event": LAUNCHED}) + "\n")
        super().launch()

    def wait_until_it_answers(self, asker: Place, timeout_s: float = START_S) -> float:
        """Seconds it took. AssertionError with its last words if it ends or stays silent."""
        began = time.monotonic()
        while not asker.run(self._answers):
            if not self.is_running:
                raise AssertionError(f"broker {self.node_id} ended:\n{self.output_text()[-3000:]}")
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"broker {self.node_id} is silent:\n{self.output_text()[-3000:]}")
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def wipe(self) -> None:
        """A new, empty disk. It must not be running."""
        assert not self.is_running
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with RawConnection(self.bootstrap, timeout_s=2) as connection:
                return bool(connection.ask(requests.metadata()).brokers)
        except (OSError, ConnectionClosed):
            return False


def python_module(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]
