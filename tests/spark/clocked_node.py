"""A node in a process of its own, with a clock that the test advances, that can be killed in the middle of a day."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

import msgspec
from tests.crash.broker import free_address

from penstock.testing import node
from penstock.units import SECOND_MS

ROOT = Path(__file__).resolve().parents[2]


class _Start(msgspec.Struct):
    """What the process is told."""

    data_dir: str
    settings: dict[str, str]
    ahead_ms: int


class ClockedNode:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.bootstrap = free_address()
        self._directory = directory
        self._settings = {**settings, "listen": self.bootstrap}
        self._ahead_ms = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        start = _Start(str(self._directory / "data"), self._settings, self._ahead_ms)
        command = [sys.executable, "-m", "tests.spark.clocked_node", msgspec.json.encode(start).decode()]
        with (self._directory / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self.advance(0)

    def advance(self, by_ms: int) -> int:
        """What its clock then shows; all that falls due has begun by then."""
        self._ahead_ms += by_ms
        written, read = self._pipes()
        written.write(b"%d\n" % by_ms)
        written.flush()
        answer = read.readline()
        assert answer, f"the node has ended:\n{(self._directory / 'node.log').read_text()[-3000:]}"
        return int(answer)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        if self._process is not None:
            self._end(None)

    def _end(self, killed_by: signal.Signals | None) -> None:
        assert self._process is not None
        process, self._process = self._process, None
        if killed_by is not None:
            process.send_signal(killed_by)
        # An end of its input is what stops it otherwise.
        process.communicate(timeout=60)
        assert process.returncode == (0 if killed_by is None else -killed_by)

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


@contextmanager
def clocked_node(directory: Path, settings: Mapping[str, str]) -> Iterator[ClockedNode]:
    directory.mkdir()
    running = ClockedNode(directory, settings)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def main() -> None:
    """Each line says by how many milliseconds time goes on, and is answered with what the clock then shows."""
    start = msgspec.json.decode(sys.argv[1], type=_Start)
    ahead = timedelta(milliseconds=start.ahead_ms)
    with node(start.settings, data_dir=start.data_dir, ahead=ahead) as running:
        for line in sys.stdin:
            running.advance(seconds=int(line) / SECOND_MS)
            print(running.now_ms(), flush=True)


if __name__ == "__main__":
    main()
