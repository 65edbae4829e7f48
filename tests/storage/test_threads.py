"""The event loop's thread changes a log while pool threads read from it, sync it and delete its files."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.storage.batches import NOW_MS, append, batch_of, headers_in

from penstock.config.log import LogSettings
from penstock.disk.local import LocalDisk
from penstock.errors import PenstockError, Problem
from penstock.storage.log import Log, Slice, SyncTicket


def load(piece: Slice, offset: int) -> str:
    """Cold, as a pool thread does it: what comes back is sound and begins where it was asked for."""
    headers = headers_in(bytes(piece.load()))
    assert headers[0].base_offset <= offset < headers[0].next_offset
    for before, after in pairwise(headers):
        assert after.base_offset == before.next_offset
    return "read"


def search(log: Log, timestamp_ms: int) -> str:
    found = log.offset_for_timestamp(timestamp_ms)
    if found is None:
        return "nothing"
    assert found.timestamp_ms >= timestamp_ms
    return "found"


def test_readers_never_see_anything_but_whole_batches(tmp_path: Path) -> None:
    settings = LogSettings(segment_bytes=4096, index_interval_bytes=300, retention_bytes=20_000, file_delete_delay_ms=0)
    log = Log.open(LocalDisk(), f"{tmp_path}/p", settings, now_ms=NOW_MS)
    choose = Random(7)
    reads: list[Future[str]] = []
    ticket: tuple[SyncTicket, Future[None]] | None = None
    deletion: Future[None] | None = None
    with ThreadPoolExecutor(4) as pool:
        for number in range(3000):
            append(log, batch_of(*[b"%d" % number * 10] * choose.randint(1, 3), timestamp_ms=NOW_MS + number))
            offset = choose.randint(log.start_offset, log.end_offset - 1)
            piece = log.read(offset, choose.randint(1, 3000), upto=log.end_offset, at_least_one=True)
            reads.append(pool.submit(load, piece, offset))
            # Often in the segments that retention is about to take away.
            reads.append(pool.submit(search, log, NOW_MS + choose.randint(max(0, number - 300), number)))
            if ticket is None and (begun := log.begin_sync(checkpoint=number % 7 == 0)) is not None:
                ticket = (begun, pool.submit(begun.run))
            elif ticket is not None and ticket[1].done():
                ticket[1].result()
                log.finish_sync(ticket[0])
                ticket = None
            if (due := log.apply_retention(NOW_MS)) is not None:
                deletion = pool.submit(due.run)
            if number % 50 == 0:
                while reads:
                    assert reads.pop().result() in ("read", "found", "nothing")
    assert {read.result() for read in reads} <= {"read", "found", "nothing"}
    assert deletion is not None
    deletion.result()
    log.close()
    again = Log.open(LocalDisk(), f"{tmp_path}/p", settings, now_ms=NOW_MS)
    assert (again.start_offset, again.end_offset) == (log.start_offset, log.end_offset)
    assert again.recovery.scanned_bytes == 0


@pytest.mark.parametrize("are_indexes_on_disk", [False, True])
def test_a_read_that_lost_its_segment_to_retention_says_so(tmp_path: Path, are_indexes_on_disk: bool) -> None:
    """A slice that was taken before keeps its file, and needs nothing else; a new one is refused."""
    settings = LogSettings(segment_bytes=1024, retention_bytes=0, file_delete_delay_ms=0)
    log = Log.open(LocalDisk(), f"{tmp_path}/p", settings, now_ms=NOW_MS)
    for _ in range(30):
        append(log, batch_of(b"x" * 100))
    if are_indexes_on_disk:
        ticket = log.begin_sync(checkpoint=True)
        assert ticket is not None
        ticket.run()
        log.finish_sync(ticket)
    piece = log.read(0, 300, upto=30, at_least_one=True)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    assert load(piece, 0) == "read"
    try:
        log.read(0, 300, upto=30, at_least_one=True)
    except PenstockError as error:
        assert error.problem is Problem.OFFSET_OUT_OF_RANGE
    else:
        raise AssertionError("an offset below the start was read")
