"""What may be sent from its file without being looked at: large batches that this process has written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.disk.cachestat import has_cachestat
from tests.disk.faults import FaultyDisk
from tests.storage.batches import NOW_MS, append, batch_of, bytes_at, contents

from penstock.config.log import LogSettings
from penstock.disk.interface import write_fully
from penstock.disk.local import LocalDisk
from penstock.storage.core.selection import Query, large_batches, select
from penstock.storage.log import Log
from penstock.units import KIB, MIB
from penstock.wire.batch import CONTROL, count_records, crc_of, read_header, stamp
from penstock.wire.records import Record, build_batch
from penstock.wire.stored_batches import StoredBatches

LARGE = bytes(80 * KIB)


class Stored:
    def __init__(self, directory: Path) -> None:
        self.disk = FaultyDisk(LocalDisk())
        self.directory = str(directory)
        self.open()

    def open(self) -> None:
        self.log = Log.open(self.disk, self.directory, LogSettings(segment_bytes=8 * MIB), now_ms=NOW_MS)

    def at(self, offset: int, max_bytes: int = MIB, *, upto: int | None = None) -> StoredBatches | None:
        end_offset = self.log.end_offset if upto is None else upto
        return self.log.read(offset, max_bytes, upto=end_offset, at_least_one=True).in_file()


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path)
    append(stored.log, batch_of(b"a", LARGE))
    if not has_cachestat():
        pytest.skip("this system does not tell what is in its page cache")
    return stored


def test_they_are_what_would_be_read(stored: Stored) -> None:
    for number in range(5):
        append(stored.log, batch_of(b"%d" % number, LARGE, b"x"))
    for offset in range(stored.log.end_offset):
        assert stored.at(offset, KIB) is None, "a first batch that does not fit is a rare case"
        for max_bytes in (90 * KIB, 200 * KIB, MIB):
            found = stored.at(offset, max_bytes)
            assert found is not None
            data = bytes_at(stored.log, offset, max_bytes=max_bytes)
            assert (bytes(found), len(found)) == (data, len(data))
            assert found.records == count_records(data, offset)
            assert found.behind(70) == data[70:]
            assert found.end_offset in (2, *range(5, 18, 3))


def test_nothing_is_sent_beyond_what_may_be_read(stored: Stored) -> None:
    for _ in range(5):
        append(stored.log, batch_of(LARGE, LARGE))
    for upto in range(1, stored.log.end_offset + 1):
        for offset in range(upto):
            found = stored.at(offset, upto=upto)
            assert found is None or offset < found.end_offset <= upto
            assert (found is None) is (offset - offset % 2 + 2 > upto)


def test_what_was_checked_is_known_until_it_leaves_the_page_cache(stored: Stored) -> None:
    for _ in range(5):
        append(stored.log, batch_of(LARGE, LARGE))
    stored.log.close()
    stored.open()
    assert stored.at(0) is None
    data = bytes_at(stored.log, 0)
    found = stored.at(0, len(data) - 8 * KIB)
    assert found is not None and data.startswith(bytes(found))
    stored.disk.is_cold = True
    part = stored.log.read(0, MIB, upto=stored.log.end_offset, at_least_one=True)
    assert (part.in_file(), part.cached()) == (None, None)
    stored.disk.is_cold = False
    assert stored.at(0, len(data) - 8 * KIB) is None
    part.load()
    part.has_loaded()
    assert stored.at(0, len(data) - 8 * KIB) is not None


def test_small_batches_are_looked_at(stored: Stored) -> None:
    for _ in range(20):
        append(stored.log, batch_of(b"small"))
    assert stored.at(2) is None
    assert stored.at(20) is None


def test_what_another_process_wrote_is_looked_at(stored: Stored) -> None:
    stored.log.close()
    stored.open()
    assert stored.at(0) is None
    append(stored.log, batch_of(LARGE))
    assert stored.at(0) is None
    assert stored.at(2) is not None


@pytest.mark.parametrize("asked", ["in a file", "in memory"])
def test_what_has_left_the_page_cache_is_looked_at_from_then_on(stored: Stored, asked: str) -> None:
    stored.disk.is_cold = True
    if asked == "in a file":
        assert stored.at(0) is None
    else:
        assert stored.log.read(0, MIB, upto=2, at_least_one=True).cached() is None
    stored.disk.is_cold = False
    assert stored.at(0) is None
    assert contents(stored.log)
    roll(stored)
    assert stored.at(stored.log.end_offset - 1) is not None


def test_also_in_segments_that_are_full_and_when_the_log_is_idle(stored: Stored) -> None:
    roll(stored)
    ticket = stored.log.begin_sync(checkpoint=True)
    assert ticket is not None
    ticket.run()
    stored.log.finish_sync(ticket)
    found = stored.at(0)
    # In memory it is read to where the index last says that a batch begins.
    assert found is not None and bytes(found).startswith(bytes_at(stored.log, 0))


def roll(stored: Stored) -> None:
    while len([name for name in stored.disk.list_directory(stored.directory) if name.endswith(".log")]) < 2:
        append(stored.log, batch_of(LARGE, LARGE, LARGE))


def test_after_a_failed_sync_all_is_looked_at(stored: Stored) -> None:
    before = contents(stored.log)
    stored.log.fail("the disk has lost something")
    stored.log.durable_offset = stored.log.end_offset
    assert stored.at(0) is None
    assert contents(stored.log) == before


@pytest.mark.parametrize("changed", [0, 7, 11, 12, 15, 16])
def test_headers_that_are_not_as_they_were_written_are_noticed(stored: Stored, changed: int) -> None:
    append(stored.log, batch_of(LARGE))
    first = bytes_at(stored.log, 0, max_bytes=1)
    position = len(first) + changed
    (name,) = [name for name in stored.disk.list_directory(stored.directory) if name.endswith(".log")]
    file = stored.disk.open(f"{stored.directory}/{name}")
    write_fully(file, [bytes([file.read(position, 1)[0] ^ 0x41])], position)
    for _ in range(100):
        append(stored.log, batch_of(LARGE))
    found = stored.at(0)
    assert found is None or bytes(found) == first
    assert stored.at(2) is None


def test_they_are_gone_when_the_log_is_cut(stored: Stored) -> None:
    append(stored.log, batch_of(LARGE))
    kept = stored.at(0)
    assert kept is not None and kept.is_there()
    stored.log.truncate_to(2)
    assert not kept.is_there()


@pytest.mark.parametrize("happens", ["failure", "end", "doubt", "eviction"])
def test_they_are_not_sent_if_anything_has_happened_meanwhile(stored: Stored, happens: str) -> None:
    kept = stored.at(0)
    assert kept is not None and kept.is_there()
    if happens == "failure":
        stored.log.fail("the disk has lost something")
    elif happens == "end":
        stored.log.close()
    elif happens == "doubt":
        kept.doubt()
    else:
        stored.disk.is_cold = True
    assert not kept.is_there()


@given(
    batches=st.lists(
        st.tuples(st.booleans(), st.lists(st.binary(max_size=300), min_size=1, max_size=4)), min_size=1, max_size=4
    ),
    first=st.integers(0, 3),
    max_bytes=st.integers(0, 3000),
    shown=st.integers(1, 4),
)
def test_headers_alone_tell_what_reading_all_does(
    batches: list[tuple[bool, list[bytes]]], first: int, max_bytes: int, shown: int
) -> None:
    data, ends = bytearray(), [10]
    for is_marker, values in batches:
        batch = bytearray(build_batch([Record(place, NOW_MS, None, value) for place, value in enumerate(values)]))
        stamp(batch, ends[-1], 0)
        batch[22] |= CONTROL * is_marker
        batch[17:21] = crc_of(memoryview(batch)).to_bytes(4, "big")
        ends.append(read_header(batch).next_offset)
        data += batch
    offset = 10 + min(first, read_header(data).last_offset_delta)
    query = Query(offset, ends[min(shown, len(batches))], max_bytes, False, 0, 0, False, ends[-1], True)
    found = large_batches(lambda at, length: bytes(data[at : at + length]), 0, len(data), 10, query)
    read = select(data, len(data), 10, query)
    part = data[read.start : read.end]
    if part:
        assert found == (read.start, len(part), read.expected_offset, count_records(part, offset))
    else:
        assert found is None
