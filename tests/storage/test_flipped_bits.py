"""What the CRC of a batch does not cover, base offset and leader epoch: one bit of it, and nothing wrong is served."""

from __future__ import annotations

import itertools

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, headers_in, sync
from tests.storage.damaged_log import everything_but, opened

from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.log import Log
from penstock.storage.scrub import Scrub
from penstock.wire.records import Record, build_batch

COUNT = 12
COMPACTED = {"segment_bytes": 350, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
# Where in a batch, and which. An epoch that is as likely as the right one cannot be told from it.
OFFSET_BITS = [*((7, 1 << bit) for bit in range(7)), (3, 1)]
EPOCH_BITS = [(15, 64), (12, 16)]


def flip(disk: PowerCutDisk, path: str, position: int, bit: int) -> None:
    (byte,) = disk.open(path).read(position, 1)
    disk.damage(path, position, bytes([byte ^ bit]))


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("segment_bytes", [100, 350, 10_000])
@pytest.mark.parametrize("stop", ["kill", "close", "checkpoint and kill"])
def test_the_batch_is_refused_and_no_other(stop: str, segment_bytes: int, policy: str) -> None:
    """Also in the last batch of a segment, and in a segment of one batch, with nothing behind it in its file."""
    for number, (at, bit) in itertools.product(range(COUNT), OFFSET_BITS + EPOCH_BITS):
        disk = PowerCutDisk()
        log = opened(disk, segment_bytes=segment_bytes, cleanup_policy=policy)
        places = []
        for each in range(COUNT):
            append(log, batch_of(b"x" * 40), leader_epoch=1 + each // 5)
            places.append((log.segments[-1].path + ".log", log.segments[-1].size - len(batch_of(b"x" * 40))))
        sync(log)
        if stop == "close":
            log.close()
        elif stop != "kill":
            log.checkpoint()
            append(log, batch_of(b"x" * 40), leader_epoch=4)
            sync(log)
        path, position = places[number]
        flip(disk, path, position + at, bit)
        disk.is_cold = True
        for _ in range(2):
            log = opened(disk, segment_bytes=segment_bytes, cleanup_policy=policy)
            assert log.end_offset == COUNT + (stop == "checkpoint and kill")
            if at < 8 or stop == "kill":
                everything_but(log, {number})
            else:
                # A closed log was not read; of the epochs that it knows, a wrong one is refused, too.
                served = {offset for offset in range(log.end_offset) if is_served(log, offset)}
                assert served >= set(range(log.end_offset)) - {number}
        append(log, batch_of(b"goes on"), leader_epoch=5)


def is_served(log: Log, offset: int) -> bool:
    try:
        return headers_in(bytes_at(log, offset))[0].base_offset == offset
    except PenstockError as error:
        assert error.problem is Problem.CORRUPT_RECORDS
        return False


def compacted(disk: PowerCutDisk) -> Log:
    log = opened(disk, **COMPACTED)
    for number in range(24):
        batch = build_batch([Record(0, NOW_MS, b"k%d" % (number % 7), b"v" * 30)])
        append(log, memoryview(bytearray(batch)))
    sync(log)
    compact(log)
    log.close()
    return opened(disk, **COMPACTED)


def compact(log: Log) -> None:
    compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=NOW_MS)
    assert compaction is not None
    try:
        while not compaction.is_done:
            compaction.work()
            compaction.settle(NOW_MS)
    except PenstockError:
        compaction.abandon()
        raise
    log.checkpoint()


def walk(log: Log) -> list[int]:
    """All base offsets as a consumer gets them, which goes on behind what is refused."""
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        try:
            data = bytes_at(log, offset)
        except PenstockError as error:
            assert error.problem is Problem.CORRUPT_RECORDS
            offset += 1
            continue
        assert data, f"nothing at {offset}, and no error"
        for header in headers_in(data):
            found.append(header.base_offset)
            offset = header.next_offset
    return found


@pytest.mark.parametrize("bit", [1 << bit for bit in range(7)])
def test_behind_the_last_batch_of_a_compacted_segment_nothing_is_passed_over(bit: int) -> None:
    """None in its file is behind it to tell a gap from a wrong offset."""
    disk = PowerCutDisk()
    log = compacted(disk)
    right = walk(log)
    for segment in log.segments[:-1]:
        path = segment.path + ".log"
        headers = headers_in(disk.open(path).read(0, segment.size))
        if headers[-1].base_offset ^ bit < headers[-1].base_offset:
            continue
        flip(disk, path, segment.size - headers[-1].size + 7, bit)
        disk.is_cold = True
        assert walk(opened(disk, **COMPACTED)) == [base for base in right if base != headers[-1].base_offset]
        flip(disk, path, segment.size - headers[-1].size + 7, bit)


def test_compaction_refuses_a_batch_that_would_hide_what_is_behind_it() -> None:
    disk = PowerCutDisk()
    log = opened(disk, **COMPACTED)
    for key in (b"a", b"b", b"k", b"a", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j", b"l"):
        append(log, memoryview(bytearray(build_batch([Record(0, NOW_MS, key, b"value" * 8)]))))
    sync(log)
    log.checkpoint()
    first = log.segments[0]
    last = headers_in(disk.open(first.path + ".log").read(0, first.size))[-1]
    flip(disk, first.path + ".log", first.size - last.size + 7, 8)
    with pytest.raises(PenstockError) as refusal:
        compact(log)
    assert refusal.value.problem is Problem.CORRUPT_RECORDS
    assert walk(log) == [offset for offset in range(log.end_offset) if offset != last.base_offset]


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_the_scrub_finds_it(policy: str) -> None:
    disk = PowerCutDisk()
    log = opened(disk, segment_bytes=350, cleanup_policy=policy)
    for _ in range(COUNT):
        append(log, batch_of(b"x" * 40))
    sync(log)
    first = log.segments[0]
    last = headers_in(disk.open(first.path + ".log").read(0, first.size))[-1]
    flip(disk, first.path + ".log", first.size - last.size + 7, 8)
    scrub, found = Scrub(log.segments[:-1]), []
    while not scrub.is_done:
        found += scrub.step().found
    assert [(each.damage.first_offset, each.damage.next_offset) for each in found] == [
        (last.base_offset, last.next_offset)
    ]
