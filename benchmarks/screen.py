"""A run as it goes, on a terminal."""

from __future__ import annotations

from benchmarks.results import Measurement
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks import report

# Tables need this much where there is no terminal to ask.
FILE_WIDTH = 160


class Screen:
    """A line per measurement and a bar; without a terminal, the lines alone."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.progress = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console)
        self._task = self.progress.add_task("starting", total=total)

    def step(self, what: str) -> None:
        self.progress.update(self._task, description=what)

    def measured(self, measurement: Measurement) -> None:
        named = [name for name in report.HEADLINES if name in measurement.metrics]
        words = ", ".join(f"{report.number_words(measurement.metrics[name])} {name}" for name in named)
        where = f"{measurement.durability}/{measurement.case}"
        self._console.print(f"{where:36} {measurement.peer:9} round {measurement.round + 1}: {words}", highlight=False)
        self.progress.advance(self._task)

    def failed(self, why: str) -> None:
        self._console.print(why, style="yellow", markup=False)
        self.progress.advance(self._task)
