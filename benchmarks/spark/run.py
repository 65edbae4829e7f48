"""One run: a session, every case warm, then rounds in which both sides take turns."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyspark
from benchmarks.load.job import LoadFailed
from benchmarks.peers.broker import Durability
from benchmarks.peers.penstock import Penstock
from benchmarks.results import Measurement, Results
from benchmarks.run import Watcher, in_turn
from benchmarks.spark.cases import Case, Scale
from benchmarks.spark.session import MASTER, SparkSide
from benchmarks.targets import OURS, THEIRS

from benchmarks import ceilings, machine
from penstock.spark.record_columns import HAS_KERNEL

_DURABILITY = Durability.OS


@dataclass(frozen=True)
class Plan:
    command: str
    cases: Sequence[Case]
    scale: Scale
    rounds: int
    sides: tuple[str, ...]
    broker: Penstock
    jars: Sequence[Path]
    fill_memory: bool
    directory: Path

    def measurements(self) -> int:
        return self.rounds * sum(len(self.sides_of(case)) for case in self.cases)

    def sides_of(self, case: Case) -> list[str]:
        return [side for side in case.sides if side in self.sides]


class Run:
    """`results` grows as the run goes."""

    def __init__(self, plan: Plan, watcher: Watcher) -> None:
        self._plan = plan
        self._watcher = watcher
        broker = f"a broker of Penstock with {plan.broker.settings_of(_DURABILITY)}"
        jars = ", ".join(jar.stem for jar in plan.jars) or "not there"
        self.results = Results(
            command=plan.command,
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            machine={
                **machine.describe(),
                "Spark": f"{pyspark.__version__}, {MASTER}, pyarrow {pyarrow.__version__}",
                "Python of the workers": platform.python_version(),
                "Python of the broker": plan.broker.version(),
            },
            settings={
                _DURABILITY.value: {
                    OURS: f"format penstock, {'with' if HAS_KERNEL else 'without'} its kernels, {broker}",
                    THEIRS: f"format kafka ({jars}), the same broker",
                }
            },
        )

    def execute(self) -> None:
        plan = self._plan
        if plan.fill_memory:
            self._watcher.step("filling memory with recyclable pages")
            machine.fill_memory(plan.directory / "ballast")
        self._measure_ceilings("before")
        with SparkSide(plan.broker, plan.directory, plan.jars) as spark:
            self._watcher.step("filling topics")
            spark.fill(plan.cases)
            for number in range(-plan.scale.warm_rounds, plan.rounds):
                for place, case in enumerate(plan.cases):
                    for side in in_turn(plan.sides_of(case), number + place):
                        self._measure(spark, case, side, number)
        self._measure_ceilings("after")

    def _measure(self, spark: SparkSide, case: Case, side: str, number: int) -> None:
        """Rounds below zero are for warmth."""
        self._watcher.step(f"{'warming' if number < 0 else f'round {number + 1}'}: {case.name} on {side}")
        try:
            metrics = spark.measure(case, side)
        except LoadFailed as problem:
            self.results.failures.append(f"{case.name} on {side}: {problem}")
            if number >= 0:
                self._watcher.failed(self.results.failures[-1])
            return
        if number >= 0:
            measurement = Measurement(_DURABILITY.value, case.name, side, number, metrics)
            self.results.measurements.append(measurement)
            self._watcher.measured(measurement)

    def _measure_ceilings(self, when: str) -> None:
        self._watcher.step("measuring ceilings")
        self.results.ceilings[when] = ceilings.measure(self._plan.directory)
