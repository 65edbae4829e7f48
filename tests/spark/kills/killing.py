"""Kills of drivers, of their workers and of the broker, while a streaming query writes; then everything is counted."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.cluster.faults.network import Loopback
from tests.cluster.faults.processes import BrokerProcess, Process, python_module
from tests.spark.consumed import values
from tests.spark.written import new_topic, produce, producer

PARTITIONS = 4
_ROWS_A_ROUND = 400
_PROGRESS_S = 90.0
_END_S = 300.0
_POLL_S = 0.05
# How often a driver may fail at the end, when what it meets is left from the last kill.
_LAST_TRIES = 3


class Killing:
    def __init__(self, directory: Path, seed: int) -> None:
        self._random = Random(seed)
        self._directory = directory
        self._place = Loopback().place("here")
        self.broker = BrokerProcess(self._place, 1, directory / "broker", {})
        self._driver: Process | None = None
        self._written = 0
        self.kills: Counter[str] = Counter()
        self.runs = 0

    def run(self, kills: int) -> None:
        self.broker.launch()
        self.broker.wait_until_it_answers(self._place)
        try:
            self._source = new_topic(self.broker.bootstrap, PARTITIONS)
            self._target = new_topic(self.broker.bootstrap, PARTITIONS)
            for _ in range(kills):
                self._append()
                self._kill_in_the_middle()
            self._append()
            self._finish()
        finally:
            if self._driver is not None:
                self._end_driver(self._driver)

    def miscounted(self) -> dict[bytes, int]:
        """Rows that are there, for readers of committed records, more or less often than once."""
        found = Counter(values(self.broker.bootstrap, self._target, PARTITIONS))
        expected = {b"%08d" % number for number in range(self._written)}
        return {row: found[row] for row in expected | set(found) if found[row] != (row in expected)}

    @property
    def rows(self) -> int:
        return self._written

    def _append(self) -> None:
        rows = [b"%08d" % number for number in range(self._written, self._written + _ROWS_A_ROUND)]
        client = producer(self.broker.bootstrap)
        for partition in range(PARTITIONS):
            produce(client, self._source, rows[partition::PARTITIONS], partition=partition)
        self._written += len(rows)

    def _kill_in_the_middle(self) -> None:
        driver = self._running_driver()
        self._until_progress(driver)
        time.sleep(self._random.uniform(0, 1.0))
        kind = self._random.choice(("driver", "driver", "worker", "broker"))
        self.kills[kind] += 1
        if kind == "broker":
            self.broker.kill()
            self.broker.launch()
            self.broker.wait_until_it_answers(self._place)
        elif kind == "worker":
            workers = [pid for pid in _descendants(driver.pid) if "pyspark.daemon" in _command_of(pid)]
            if workers:
                os.kill(self._random.choice(workers), signal.SIGKILL)
        else:
            self._end_driver(driver)

    def _running_driver(self) -> Process:
        if self._driver is None or not self._driver.is_running:
            tasks = self._random.randint(1, 5)
            arguments = (self.broker.bootstrap, self._source, self._target, str(self._directory / "checkpoint"))
            command = python_module("tests.spark.kills.driver", *arguments, str(tasks))
            self._driver = Process(self._place, command, self._directory / "driver.log")
            self._driver.launch()
            self.runs += 1
        return self._driver

    def _until_progress(self, driver: Process) -> None:
        """It writes, or has come to its end."""
        before, deadline = self._end(), time.monotonic() + _PROGRESS_S
        while driver.is_running and self._end() <= before:
            assert time.monotonic() < deadline, f"it does nothing:\n{driver.output_text()[-3000:]}"
            time.sleep(_POLL_S)

    def _end(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": uuid4().hex, "log_level": 0})
        try:
            places = [TopicPartition(self._target, partition) for partition in range(PARTITIONS)]
            return sum(consumer.get_watermark_offsets(place, timeout=5)[1] for place in places)
        except KafkaException:
            return -1
        finally:
            consumer.close()

    def _finish(self) -> None:
        for _ in range(_LAST_TRIES):
            driver = self._running_driver()
            if driver.wait(_END_S) == 0:
                # It may have been at its end before the last rows came.
                driver = self._running_driver()
                if driver.wait(_END_S) == 0:
                    return
        raise AssertionError(f"it does not come to its end:\n{driver.output_text()[-3000:]}")

    def _end_driver(self, driver: Process) -> None:
        """With its JVM and all that it has started."""
        for pid in (*_descendants(driver.pid), driver.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        driver.kill()


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def _parent_of(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1])


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
