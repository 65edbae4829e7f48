"""Processes that belong together, however they were started and whoever is left of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

EXECUTOR = "CoarseGrainedExecutorBackend"
# Those that run tasks; others of the name help the driver to plan and to commit.
WORKER = "pyspark.daemon\0pyspark.worker"


def marked(mark: str, words: str = "") -> list[int]:
    """Those that have `mark` in their environment, as what they start has too, and `words` in their command."""
    found = []
    for pid in _all():
        with suppress(OSError):
            if mark in _text(pid, "environ") and words in _text(pid, "cmdline"):
                found.append(pid)
    return found


def descendants(pid: int, words: str = "") -> list[int]:
    """Of a process that is there, as long as those between are."""
    children: dict[int, list[int]] = {}
    for each in _all():
        with suppress(OSError):
            children.setdefault(int(_text(each, "stat").rpartition(")")[2].split()[1]), []).append(each)
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return [each for each in found if _has(each, words)]


def send(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _has(pid: int, words: str) -> bool:
    with suppress(OSError):
        return words in _text(pid, "cmdline")
    return False


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _text(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
