"""`archive` as a command of its own, killed with all that belongs to it: every record is in the table once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests import scale
from tests.crash.broker import CrashingBroker, crashing_broker
from tests.interop.waiting import eventually
from tests.spark.archived import places

from penstock.pipelines.core.ledger import ends
from penstock.pipelines.core.refusal import PipelineRefused
from penstock.pipelines.core.target import Target
from penstock.pipelines.tables.opening import open_table

TOPIC, PARTITIONS = "orders", 3
# A driver needs some to start on a busy machine.
PATIENCE_S = 120.0


class Archive:
    """The command, in a session of its own, so that whatever it starts can be found."""

    def __init__(self, bootstrap: str, target: str, log: Path) -> None:
        self._log = log
        self._command = [sys.executable, "-m", "penstock", "pipeline", "run", "archive", TOPIC, "--to", target]
        self._command += ["--bootstrap", bootstrap, "--master", "local[2]", "--output", "json"]
        self._command += ["--option", "maxOffsetsPerTrigger=200"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self._log.open("ab") as log:
            command = [*self._command, *more]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Or until it ends: a killed worker takes it along at times."""
        eventually(lambda: not self.is_running or condition(), "more is in the table", PATIENCE_S)

    def kill(self) -> None:
        """Driver, Java and workers, none of which gets to say anything."""
        if self._process is not None:
            for pid in self._belonging(""):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()

    def kill_worker(self, chance: random.Random) -> bool:
        workers = self._belonging("pyspark")
        with suppress(ProcessLookupError, IndexError):
            os.kill(chance.choice(workers), signal.SIGKILL)
            return True
        return False

    def finish(self) -> int:
        self.start()
        assert self._process is not None
        return self._process.wait(timeout=PATIENCE_S)

    def _belonging(self, words: str) -> list[int]:
        assert self._process is not None
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            with suppress(OSError):
                if os.getsid(pid) == self._process.pid and words in Path(f"/proc/{pid}/cmdline").read_text():
                    # The command itself names no module of Spark.
                    found.append(pid)
        return found


@pytest.mark.torture("archive-kills")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_every_record_once(kind: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    chance = random.Random(scale.seed())
    target = f"{kind}:{tmp_path}/table"
    kills = {"driver": 0, "worker": 0, "broker": 0}
    with crashing_broker(tmp_path / "broker") as broker:
        broker.create_topic(TOPIC, PARTITIONS)
        archive = Archive(broker.bootstrap, target, tmp_path / "archive.log")
        sent = 0
        try:
            while sum(kills.values()) < 15:
                sent = send(broker, sent, chance.randrange(50, 400))
                if not archive.is_running:
                    # Other tasks than before: a batch that comes again has other rows in each.
                    archive.start(
                        "--continuous", "--every", "0.3", "--option", f"minPartitions={chance.randrange(1, 9)}"
                    )
                wanted = min(reached(target) + chance.randrange(1, 300), PARTITIONS * sent)
                archive.wait_until(lambda wanted=wanted: reached(target) >= wanted)  # type: ignore[misc]
                kill(chance, archive, broker, kills)
            archive.kill()
            assert archive.finish() == 0, (tmp_path / "archive.log").read_text()[-3000:]
        finally:
            archive.kill()
    assert places(target) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(sent)]
    for name, number in kills.items():
        record_property(f"{name}_kills", number)
    record_property("rows", PARTITIONS * sent)


def kill(chance: random.Random, archive: Archive, broker: CrashingBroker, kills: dict[str, int]) -> None:
    victim = chance.choice(list(kills))
    if victim == "driver":
        archive.kill()
    elif victim == "broker":
        broker.kill()
        broker.start()
    elif not archive.kill_worker(chance):
        return
    kills[victim] += 1


def send(broker: CrashingBroker, sent: int, number: int) -> int:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for value in range(sent, sent + number):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"%d" % value, partition=partition)
    assert producer.flush(60) == 0
    return sent + number


def reached(target: str) -> int:
    try:
        ledgers = open_table(Target.parse(target)).ledgers()
    except PipelineRefused:
        return 0
    return sum(ends(ledgers.values()).values())
