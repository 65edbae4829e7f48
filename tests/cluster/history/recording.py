"""Histories as files: each process appends to its own, one reader merges them all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from tests.cluster.history.events import AnyEvent, Event, from_line, to_line

SUFFIX = ".history.jsonl"


def now_ns() -> int:
    return time.monotonic_ns()


class Recorder:
    """Whatever was recorded is in the file when `record` returns, so a killed process loses nothing but its last line.

    Threads may share one.
    """

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = (directory / f"{name}{SUFFIX}").open("ab", buffering=0)
        self._lock = threading.Lock()

    def record(self, *events: Event) -> None:
        text = b"".join(to_line(event) + b"\n" for event in events)
        with self._lock:
            self._file.write(text)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_events(directory: Path) -> list[AnyEvent]:
    """Of all processes, by time. ValueError names the line that is none; a torn last line of a file is left out."""
    events: list[AnyEvent] = []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        lines = path.read_bytes().split(b"\n")
        # What follows the last line feed is empty, or was being written when the process was killed.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                events.append(from_line(line))
            except msgspec.DecodeError as error:
                raise ValueError(f"{path.name}:{number}: {error}: {line[:200]!r}") from error
    return in_order(events)


def in_order(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Sorting is stable: what one process recorded in one nanosecond stays in its order."""
    return sorted(events, key=lambda event: event.at_ns)
