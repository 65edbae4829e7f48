"""What is measured, how large, and what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.spark.works import CatchUp, MicroBatches, Read, ReadyMade, Work, Write
from benchmarks.targets import OURS, THEIRS, Comparison, Target

_NARROW = "value BINARY"
_BOTH = (OURS, THEIRS)


@dataclass(frozen=True)
class Filling:
    """A topic that is written once and then read."""

    topic: str
    partitions: int
    rows: int
    row_bytes: int


@dataclass(frozen=True)
class Case:
    name: str
    work: Work
    # What it reads.
    filling: Filling | None = None
    sides: tuple[str, ...] = _BOTH


@dataclass(frozen=True)
class Scale:
    small_rows: int
    kilobyte_rows: int
    written_rows: int
    batches: int
    # Both sides get faster for so long: the JVM compiles.
    warm_rounds: int
    rounds: int


FULL = Scale(small_rows=5_000_000, kilobyte_rows=1_000_000, written_rows=1_000_000, batches=20, warm_rounds=2, rounds=5)
QUICK = Scale(small_rows=200_000, kilobyte_rows=50_000, written_rows=50_000, batches=5, warm_rounds=1, rounds=1)
# As a topic of some size has them; six tasks for each core.
PARTITIONS = 12
_BATCH_ROWS = 100


def all_cases(scale: Scale) -> list[Case]:
    cases = []
    for label, rows, row_bytes in (("100b", scale.small_rows, 100), ("1k", scale.kilobyte_rows, 1000)):
        filling = Filling(f"bench-{label}", PARTITIONS, rows, row_bytes)
        for suffix, schema in (("", None), ("-narrow", _NARROW)):
            cases.append(Case(f"read-{label}{suffix}", Read(rows, row_bytes, schema), filling))
            cases.append(Case(f"catch-up-{label}{suffix}", CatchUp(rows, row_bytes, schema), filling))
            cases.append(Case(f"ready-made-{label}{suffix}", ReadyMade(rows, row_bytes, schema), sides=(OURS,)))
        cases.append(Case(f"write-{label}", Write(scale.written_rows, row_bytes)))
        once = Write(scale.written_rows, row_bytes, exactly_once=True)
        cases.append(Case(f"write-{label}-exactly-once", once, sides=(OURS,)))
    # Two partitions, so that it is the batch that costs, not its tasks.
    filling = Filling("bench-small", 2, scale.batches * _BATCH_ROWS, 100)
    cases.append(Case("micro-batch", MicroBatches(scale.batches, _BATCH_ROWS), filling))
    cases.append(Case("micro-batch-sink", MicroBatches(scale.batches, _BATCH_ROWS, into_sink=True), filling))
    exactly_once = MicroBatches(scale.batches, _BATCH_ROWS, into_sink=True, exactly_once=True)
    return [*cases, Case("micro-batch-sink-exactly-once", exactly_once, filling, sides=(OURS,))]


def selected(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """Cases whose name begins with the dashed parts of one of the words; all without any word."""
    return [case for case in cases if not only or any(f"{case.name}-".startswith(f"{word}-") for word in only)]


COMPARISON = Comparison(
    "Penstock's data source beside Spark's Kafka connector",
    "Spark's connector",
    (
        *(Target("os", f"{how}-100b", "rows/s", 1.2, at_least=True) for how in ("read", "catch-up")),
        *(Target("os", f"{how}-100b-narrow", "rows/s", 1.8, at_least=True) for how in ("read", "catch-up")),
        *(Target("os", f"{how}-1k", "rows/s", 1.0, at_least=True) for how in ("read", "catch-up")),
        *(Target("os", f"{how}-1k-narrow", "rows/s", 1.5, at_least=True) for how in ("read", "catch-up")),
        Target("os", "write-100b", "rows/s", 0.7, at_least=True),
        Target("os", "write-1k", "rows/s", 0.7, at_least=True),
    ),
)
