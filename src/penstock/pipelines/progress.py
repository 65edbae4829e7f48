"""What a pipeline tells of each batch, to whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.pipelines.tables.table import Outcome


class BatchReport(NamedTuple):
    batch_id: int
    outcome: Outcome
    rows: int
    unreadable: int
    size_bytes: int
    files: int


Told = Callable[[BatchReport], None]


class Totals:
    """Of one run; what an earlier run had committed is not in it."""

    def __init__(self) -> None:
        self.batches = 0
        self.rows = 0
        self.unreadable = 0
        self.files = 0

    def add(self, report: BatchReport) -> None:
        if report.outcome is Outcome.COMMITTED:
            self.batches += 1
            self.rows += report.rows
            self.unreadable += report.unreadable
            self.files += report.files
