"""A log on a disk that a test then spoils."""

from __future__ import annotations

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, headers_in, sync

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log

DIRECTORY = "/data/p"
SEGMENT = f"{DIRECTORY}/{0:020d}"


def opened(disk: PowerCutDisk, **settings: object) -> Log:
    return Log.open(disk, DIRECTORY, LogSettings(**settings), now_ms=NOW_MS)  # type: ignore[arg-type]


def filled(disk: PowerCutDisk, count: int, **settings: object) -> tuple[Log, list[int]]:
    """A synced log of single-record batches, and where each of them begins."""
    log = opened(disk, **settings)
    positions = []
    for number in range(count):
        positions.append(log.size_bytes)
        append(log, batch_of(b"%d" % number * 40))
    sync(log)
    return log, positions


def problem_at(log: Log, offset: int) -> Problem:
    with pytest.raises(PenstockError) as refusal:
        bytes_at(log, offset)
    return refusal.value.problem


def everything_but(log: Log, damaged: set[int]) -> None:
    """All batches but these are served, and these never."""
    for offset in range(log.start_offset, log.end_offset):
        if offset in damaged:
            assert problem_at(log, offset) is Problem.CORRUPT_RECORDS
        else:
            assert headers_in(bytes_at(log, offset))[0].base_offset == offset
