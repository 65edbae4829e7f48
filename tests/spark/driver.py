"""Work in a driver of its own: a process with its own JVM, and so with a master and jars that no other test has."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from pyspark.sql import SparkSession
from tests.spark.sessions import new_session

P = ParamSpec("P")
T = TypeVar("T")

_ROOT = Path(__file__).parents[2]
_LINES_TOLD = 40


@dataclass(frozen=True)
class Driver:
    """`directory` is its own: what it was asked, what it answered, its log and Spark's temporary files."""

    master: str
    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 1800.0

    def run(self, work: Callable[Concatenate[SparkSession, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the work returned. AssertionError with the end of the log if it failed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {"spark.local.dir": str(self.directory / "local"), **self.settings}
        self._asked.write_bytes(pickle.dumps((self.master, settings, work, args, kwargs)))
        self._answered.unlink(missing_ok=True)
        log = self.directory / "driver.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", str(self._asked), str(self._answered)],
                cwd=_ROOT,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(self.timeout_s)
            finally:
                # With its JVM, also if it was this test that did not wait longer.
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        lines = log.read_text(errors="replace").splitlines()[-_LINES_TOLD:]
        assert process.returncode == 0, "\n".join(["the driver failed:", *lines])
        answer: T = pickle.loads(self._answered.read_bytes())
        return answer

    @property
    def _asked(self) -> Path:
        return self.directory / "asked"

    @property
    def _answered(self) -> Path:
        return self.directory / "answered"


def main(asked: str, answered: str) -> None:
    master, settings, work, args, kwargs = pickle.loads(Path(asked).read_bytes())
    session = new_session(master, settings)
    try:
        Path(answered).write_bytes(pickle.dumps(work(session, *args, **kwargs)))
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
