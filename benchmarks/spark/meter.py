"""Time and CPU of one work: of Spark's JVM, of the Python processes around it, and of the broker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

import msgspec

from benchmarks import usage

_MILLION = 1e6


class Usage(msgspec.Struct, frozen=True):
    elapsed_s: float
    # Driver and executors: with a master of local[n] they are one.
    jvm_cpu_s: float
    # The driver's Python, the workers, and what the data source runs beside them.
    python_cpu_s: float
    broker_cpu_s: float
    elsewhere_cpu_s: float


class Meter:
    """`usage` is there when the block has been left."""

    def __init__(self, jvm_pid: int, broker_pids: Sequence[int]) -> None:
        self._jvm_pid = jvm_pid
        self._broker_pids = tuple(broker_pids)
        self._before: Usage | None = None
        self.usage = Usage(0, 0, 0, 0, 0)

    def __enter__(self) -> Meter:
        self._before = self._now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._before is not None
        before, after = msgspec.structs.astuple(self._before), msgspec.structs.astuple(self._now())
        self.usage = Usage(*(later - earlier for earlier, later in zip(before, after, strict=True)))

    def _now(self) -> Usage:
        machine_s = usage.machine_cpu_s()
        broker_s = usage.cpu_s(*self._broker_pids)
        family = usage.family(self._jvm_pid)
        jvm_s = family[self._jvm_pid].cpu_s
        python_s = sum(stat.cpu_s for stat in family.values()) - jvm_s + time.process_time()
        return Usage(time.monotonic(), jvm_s, python_s, broker_s, machine_s - broker_s - jvm_s - python_s)


def rates(rows: int, row_bytes: int, used: Usage) -> dict[str, float]:
    """Of a work that goes as fast as it can. Per core: of the cores that Spark and its Python keep busy."""
    millions = rows / _MILLION
    return {
        "rows/s": rows / used.elapsed_s,
        "MB/s": millions * row_bytes / used.elapsed_s,
        "rows/s per core": rows / (used.jvm_cpu_s + used.python_cpu_s),
        "JVM CPU-s/million": used.jvm_cpu_s / millions,
        "Python CPU-s/million": used.python_cpu_s / millions,
        "broker CPU-s/million": used.broker_cpu_s / millions,
        "elsewhere CPU %": 100 * used.elsewhere_cpu_s / used.elapsed_s,
    }


def costs(batches: int, used: Usage) -> dict[str, float]:
    """Of a work in small steps, which are as quick as Spark is."""
    return {
        "JVM CPU-ms/micro-batch": 1000 * used.jvm_cpu_s / batches,
        "Python CPU-ms/micro-batch": 1000 * used.python_cpu_s / batches,
        "broker CPU-ms/micro-batch": 1000 * used.broker_cpu_s / batches,
        "elsewhere CPU %": 100 * used.elsewhere_cpu_s / used.elapsed_s,
    }
