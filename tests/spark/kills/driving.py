"""Drivers as a scenario sees them: processes to be started, killed in parts or as a whole, and paused."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random
from uuid import uuid4

import msgspec
from tests.cluster.faults.network import Loopback
from tests.cluster.faults.processes import Process, python_module
from tests.interop.waiting import eventually
from tests.spark.kills.job import Job
from tests.spark.kills.victims import marked, send
from tests.spark.sessions import SHORT_LIVED_JAVA

_JAVA_OF_DRIVER = "org.apache.spark.deploy.SparkSubmit"
_END_S = 180.0


class Driver(Process):
    def __init__(self, job: Job, home: Path, output: Path) -> None:
        self.job = job
        self._mark = f"KILLS_DRIVER={uuid4().hex}"
        java = f"JAVA_TOOL_OPTIONS={SHORT_LIVED_JAVA}"
        environment = [self._mark, f"SPARK_HOME={home}", "SPARK_LOCAL_IP=127.0.0.1", java]
        command = python_module("tests.spark.kills.driver", msgspec.json.encode(job).decode())
        super().__init__(Loopback().place("driver"), ["env", *environment, *command], output)

    def kill_everything(self) -> None:
        send(self._all())
        self.kill()
        self.wait_for_the_rest()

    def kill_alone(self) -> None:
        """Executors and their workers go on until they notice."""
        send([self.pid, *marked(self._mark, _JAVA_OF_DRIVER)])
        self.kill()

    def kill_one(self, words: str, chance: Random) -> bool:
        found = marked(self._mark, words)
        if found:
            send([chance.choice(sorted(found))])
        return bool(found)

    def pause_everything(self) -> None:
        send(self._all(), signal.SIGSTOP)

    def resume_everything(self) -> None:
        send(self._all(), signal.SIGCONT)

    def wait_for_the_rest(self) -> None:
        eventually(lambda: not self._all(), "executors end with their driver", _END_S)

    def _all(self) -> list[int]:
        return marked(self._mark)
