"""One measurement as the load generator sees it: a job comes in as JSON, an outcome goes out as JSON."""

from __future__ import annotations

import time
from types import TracebackType

import msgspec

from benchmarks import usage

# No step of a job takes longer than this, or the broker under it is broken.
PATIENCE_S = 60.0


class LoadFailed(Exception):
    """The broker did not do what the job asked; the numbers would mean nothing."""


class Outcome(msgspec.Struct, frozen=True):
    """What one measurement saw. `messages` are those acknowledged, or delivered where the job reads."""

    messages: int
    message_bytes: int
    elapsed_s: float
    broker_cpu_s: float
    generator_cpu_s: float
    # Everything else on the machine: kernel threads that write back, and whoever disturbs the measurement.
    elsewhere_cpu_s: float
    latency_ms: dict[str, float] = {}
    coordinator_cpu_s: float = 0.0
    # Where the job writes in transactions: how many ended.
    transactions: int = 0


class Job(msgspec.Struct, kw_only=True, frozen=True):
    """The runner fills in where; the kinds of job say what."""

    address: str = ""
    broker_pids: tuple[int, ...] = ()
    # What the brokers have beside them; its CPU time is told apart from theirs.
    coordinator_pids: tuple[int, ...] = ()
    topic: str = ""
    message_bytes: int = 1000

    def run(self) -> Outcome:
        raise TypeError(f"{type(self).__name__} is no kind of load")

    def written_bytes(self) -> int:
        """What it leaves in the log: the runner sees to room for that, on the disk and in memory."""
        return 0


class Meter:
    """Time and CPU between entry and exit, of the brokers and of this process; entered again, it adds to them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._elapsed_s = self._broker_cpu_s = self._generator_cpu_s = self._machine_cpu_s = 0.0
        self._coordinator_cpu_s = 0.0

    def __enter__(self) -> Meter:
        self._machine_cpu_s -= usage.machine_cpu_s()
        self._broker_cpu_s -= usage.cpu_s(*self._job.broker_pids)
        self._coordinator_cpu_s -= usage.cpu_s(*self._job.coordinator_pids)
        self._generator_cpu_s -= time.process_time()
        self._elapsed_s -= time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._elapsed_s += time.monotonic()
        self._generator_cpu_s += time.process_time()
        self._broker_cpu_s += usage.cpu_s(*self._job.broker_pids)
        self._coordinator_cpu_s += usage.cpu_s(*self._job.coordinator_pids)
        self._machine_cpu_s += usage.machine_cpu_s()

    def outcome(self, messages: int, latency_ms: dict[str, float] | None = None, transactions: int = 0) -> Outcome:
        return Outcome(
            messages=messages,
            message_bytes=self._job.message_bytes,
            elapsed_s=self._elapsed_s,
            broker_cpu_s=self._broker_cpu_s,
            generator_cpu_s=self._generator_cpu_s,
            elsewhere_cpu_s=max(
                0.0, self._machine_cpu_s - self._broker_cpu_s - self._coordinator_cpu_s - self._generator_cpu_s
            ),
            latency_ms=latency_ms or {},
            coordinator_cpu_s=self._coordinator_cpu_s,
            transactions=transactions,
        )
