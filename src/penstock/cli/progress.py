"""How far a long command is: a live line on a terminal, a summary at the end, both on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.cli.failure import say
from penstock.cli.output import Output, show_json

# Drawing costs more than a record: draw a few times a second, not per record.
_DRAW_EVERY_S = 0.2


class Meter:
    """Counts records and bytes; use it as a context manager around the work."""

    def __init__(self, verb: str, *, total_records: int | None = None, total_bytes: int | None = None) -> None:
        """A total, where one is known, draws a bar."""
        self.records = 0
        self.bytes = 0
        self._by_bytes = total_bytes is not None
        total = total_bytes if total_bytes is not None else total_records
        self._verb = verb
        self._start = time.monotonic()
        self._drawn = 0.0
        columns = [TextColumn("{task.description}"), TimeElapsedColumn()]
        bar = [BarColumn()] if total else []
        self._progress = Progress(*bar, *columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
        self._task = self._progress.add_task(verb, total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def add(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size
        now = time.monotonic()
        if now - self._drawn >= _DRAW_EVERY_S:
            self._drawn = now
            completed = self.bytes if self._by_bytes else self.records
            self._progress.update(self._task, completed=completed, description=self.text())

    def summary(self) -> dict[str, Any]:
        seconds = time.monotonic() - self._start
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1) if seconds else None,
        }

    def text(self) -> str:
        return summary_text(self._verb, self.records, self.bytes, time.monotonic() - self._start)

    def finish(self, output: Output | None) -> None:
        """The last word: JSON on stdout where that is the answer, a line on stderr otherwise."""
        if output is Output.JSON:
            show_json(self.summary())
        else:
            say(self.text())


def summary_text(verb: str, records: int, size: int, seconds: float) -> str:
    rate = f", {records / seconds:,.0f} records/s, {size / seconds / 1e6:,.1f} MB/s" if seconds > 0 else ""
    return f"{verb} {records:,} record{'' if records == 1 else 's'}, {size / 1e6:,.1f} MB in {seconds:,.1f} s{rate}"
