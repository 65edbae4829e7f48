"""Kills of drivers, executors, their workers and the broker, at moments within a batch that a seed decides."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from random import Random

from confluent_kafka.admin import AdminClient, NewPartitions
from msgspec.structs import replace
from tests.crash.broker import CrashingBroker
from tests.interop.waiting import eventually
from tests.spark.kills.batches import Batches
from tests.spark.kills.driving import Driver
from tests.spark.kills.feeding import Feeding
from tests.spark.kills.job import Job
from tests.spark.kills.victims import EXECUTOR, WORKER
from tests.spark.sessions import spark_home

# In this proportion; in which order is the seed's. A driver dies alone, and executors go on for a moment, or with all.
_KILLS = ("executor", "broker", "driver", "executor", "broker", "worker", "driver and all")
_RIVAL, _PAUSED_RIVAL = "rival", "rival of a paused one"
_MOST_PARTITIONS = 6
_MOST_TASKS = 5
# A driver needs some to start on a busy machine.
_PATIENCE_S = 400.0
_FINISH_S = 600.0
# Spark waits ten seconds for a process in Python to begin, and then ends the query.
_TOO_BUSY = "Python worker failed to connect back"
_MOST_ENDS = 10


class Killing:
    def __init__(self, broker: CrashingBroker, job: Job, directory: Path, seed: int) -> None:
        self.partitions = {job.source: 2, job.target: 2}
        for topic, partitions in self.partitions.items():
            broker.create_topic(topic, partitions)
        self.struck: Counter[str] = Counter()
        self.drivers = 0
        # Batches that were begun and not ended when their driver was killed, by query: they came again.
        self.interrupted: Counter[str] = Counter()
        # What drivers said that ended although nobody had killed them, nor begun another beside them.
        self.last_words: list[str] = []
        self.too_busy = 0
        self._broker = broker
        self._job = job
        self._directory = directory
        self._chance = Random(seed)
        self._home = spark_home(directory / "spark")
        self._driver: Driver | None = None
        self._launched: list[Driver] = []
        self._batches = {query: Batches(job.checkpoint(query)) for query in job.queries}

    def run(self, kills: int, rivals: int) -> None:
        """Rows come all the time; at the end the job takes what is left, and ends."""
        faults = [*islice(cycle(_KILLS), kills), *islice(cycle((_PAUSED_RIVAL, _RIVAL)), rivals)]
        self._chance.shuffle(faults)
        feeding = Feeding(self._broker.bootstrap, self._job.source, self.partitions[self._job.source])
        try:
            for fault in faults:
                self._strike(fault)
                self.struck[fault] += 1
                print(f"{fault}: {self.struck.total()} of {len(faults)}, {self._state()}", flush=True)
                feeding.partitions = self.partitions[self._job.source]
            feeding.stop()
            self._finish()
        finally:
            for driver in self._launched:
                driver.kill_everything()

    @property
    def batches(self) -> dict[str, int]:
        return {query: batches.ended + 1 for query, batches in self._batches.items()}

    def _strike(self, fault: str) -> None:
        driver = self._amid_a_batch()
        if fault == "broker":
            self._broker.kill()
            self._broker.start()
        elif fault in ("executor", "worker"):
            while not driver.kill_one(EXECUTOR if fault == "executor" else WORKER, self._chance):
                driver = self._amid_a_batch()
        elif fault in (_RIVAL, _PAUSED_RIVAL):
            self._rival(driver, is_paused=fault == _PAUSED_RIVAL)
        else:
            driver.kill_alone() if fault == "driver" else driver.kill_everything()
            self._driver = None
            self.interrupted.update(query for query, batches in self._batches.items() if batches.is_amid)
            if self._chance.random() < 0.5:
                self._grow()

    def _amid_a_batch(self) -> Driver:
        """Some batch has begun, and a part of the time that such a one takes has gone, or a bit more than that."""
        while True:
            driver, batches = self._running(), self._batches[self._chance.choice(self._job.queries)]
            begun = batches.begun
            self._until(lambda: batches.begun > begun or not driver.is_running, driver)  # noqa: B023
            if driver.is_running:
                time.sleep(self._chance.uniform(0, 1.2) * batches.last_took_s(default_s=1.0))
                return driver

    def _rival(self, driver: Driver, *, is_paused: bool) -> None:
        """Another driver does the same job beside this one, and takes it over."""
        if is_paused:
            driver.pause_everything()
        ended = self._batches_ended()
        other = self._launch()
        if is_paused:
            self._until(lambda: all(now > ended[query] for query, now in self._batches_ended().items()), other)
            driver.resume_everything()
            self._until(lambda: not driver.is_running, driver)
            assert other.is_running, f"it had the job for itself:\n{other.output_text()[-3000:]}"
        else:
            self._until(lambda: not (driver.is_running and other.is_running), other)
        # Of two at once either may get ahead, and Spark lets both end if each has for a moment.
        left = [one for one in (other, driver) if one.is_running]
        self._driver = left[0] if left else None

    def _running(self) -> Driver:
        driver = self._driver
        if driver is not None and not driver.is_running:
            self._ended(driver)
            driver = None
        if driver is None:
            driver = self._driver = self._launch()
        return driver

    def _ended(self, driver: Driver) -> None:
        text = driver.output_text()
        if _TOO_BUSY in text:
            self.too_busy += 1
        else:
            self.last_words.append(text[-3000:])
        assert self.too_busy + len(self.last_words) < _MOST_ENDS, f"drivers do not stay: {text[-3000:]}"

    def _launch(self, *, ends: bool = False) -> Driver:
        readers, writers = (self._chance.randint(1, _MOST_TASKS) for _ in range(2))
        job = replace(self._job, readers=readers, writers=writers, ends=ends)
        self.drivers += 1
        driver = Driver(job, self._home, self._directory / f"driver-{self.drivers}.log")
        driver.launch()
        self._launched.append(driver)
        return driver

    def _grow(self) -> None:
        """What was read from so many partitions, and goes to so many, comes again when there are more."""
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})
        for topic, partitions in self.partitions.items():
            if partitions < _MOST_PARTITIONS:
                self.partitions[topic] = partitions + 1
                admin.create_partitions([NewPartitions(topic, partitions + 1)])[topic].result(20)

    def _finish(self) -> None:
        if self._driver is not None:
            self._driver.kill_everything()
        driver = self._launch(ends=True)
        assert driver.wait(_FINISH_S) == 0, f"it does not come to its end:\n{driver.output_text()[-3000:]}"

    def _batches_ended(self) -> dict[str, int]:
        return {query: batches.ended for query, batches in self._batches.items()}

    def _until(self, condition: Callable[[], bool], driver: Driver) -> None:
        eventually(condition, "drivers go on", _PATIENCE_S, lambda: f"{self._state()}: {driver.output_text()[-3000:]}")

    def _state(self) -> str:
        return f"batches {self.batches}, {self.drivers} drivers, {self.partitions[self._job.source]} partitions"
