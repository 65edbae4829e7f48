"""What comes from the disk unasked is not taken for what was there before."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.disk.page_cache import PAGE_BYTES, PageCacheDisk
from tests.storage.batches import NOW_MS, append, batch_of, contents

from penstock.config.log import LogSettings
from penstock.storage.core.known_bytes import KnownBytes
from penstock.storage.log import Log
from penstock.storage.slice import Slice
from penstock.storage.unasked import UnaskedFile
from penstock.units import KIB, MIB

SMALL = bytes(KIB)
LARGE = bytes(240 * KIB)


class Shelf:
    def __init__(self, directory: Path) -> None:
        self.disk = PageCacheDisk(read_ahead_bytes=4 * MIB)
        self.log = Log.open(self.disk, str(directory), LogSettings(), now_ms=NOW_MS)
        self.path = f"{directory}/{0:020}.log"

    def part(self, offset: int, max_bytes: int = MIB) -> Slice:
        return self.log.read(offset, max_bytes, upto=self.log.end_offset, at_least_one=True)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Two mebibytes of small batches, which are read into memory, and eight of large ones behind."""
    shelf = Shelf(tmp_path)
    for _ in range(2000):
        append(shelf.log, batch_of(SMALL))
    for _ in range(32):
        append(shelf.log, batch_of(LARGE))
    assert shelf.part(2000).in_file() is not None
    return shelf


@pytest.mark.parametrize("first_is_missing", [False, True])
def test_what_a_read_brings_along_is_looked_at(shelf: Shelf, first_is_missing: bool) -> None:
    shelf.disk.put_out(shelf.path, 3 * MIB, MIB)
    if first_is_missing:
        shelf.disk.put_out(shelf.path, 0, PAGE_BYTES)
    assert (shelf.part(0).cached() is None) is first_is_missing
    assert not any(shelf.disk.missing.values())
    looked_at = [offset for offset in range(2000, 2028) if shelf.part(offset, 300 * KIB).in_file() is None]
    assert len(looked_at) > 3 and looked_at[-1] <= 2012, "the mebibyte that was missing, and no more than is beside it"


def test_what_is_only_on_its_way_is_not_waited_for(shelf: Shelf) -> None:
    def must_not_be_read(path: str) -> None:
        raise AssertionError(f"{path} is read by the event loop")

    shelf.disk.is_on_its_way = True
    shelf.disk.when_read = must_not_be_read
    part = shelf.part(2000)
    assert (part.in_file(), part.cached()) == (None, None)


def test_a_cold_read_takes_no_more_than_a_thread_may_look_at_in_a_turn(shelf: Shelf) -> None:
    shelf.disk.put_out(shelf.path, 0, 10 * MIB)
    data = shelf.part(0, 8 * MIB).load()
    assert MIB < len(data) <= 2 * MIB
    assert len(contents(shelf.log)) == 2032


def test_a_batch_that_is_larger_than_that_is_read_all_the_same(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    batch = batch_of(bytes(3 * MIB))
    append(shelf.log, batch)
    for at_least_one in (False, True):
        shelf.disk.put_out(shelf.path, 0, 4 * MIB)
        part = shelf.log.read(0, 8 * MIB, upto=shelf.log.end_offset, at_least_one=at_least_one)
        assert len(part.load()) == len(batch)


class Opened:
    """During a read of it somebody else finds the bytes right, and they may go and come again."""

    def __init__(self, known: KnownBytes) -> None:
        self._known = known

    def read(self, position: int, length: int) -> bytes:
        assert not self._known.holds(0, 1)
        self._known.checked(0, 100)
        assert self._known.holds(0, 100)
        return bytes(length)


def test_whoever_reads_unasked_leaves_nothing_known(shelf: Shelf) -> None:
    known = KnownBytes()
    known.write_from(0)
    assert len(UnaskedFile(Opened(known), known).read(0, 10)) == 10
    assert not known.holds(0, 1)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_page_that_is_missing_goes_as_a_whole(shelf: Shelf, is_there: bool) -> None:
    """Also what is on it of the batch before, which a read then brings along; what is there stays known."""
    before = shelf.part(2004, 300 * KIB).in_file()
    assert before is not None
    begins = start_of(shelf, 2005)
    shelf.disk.put_out(shelf.path, begins + (PAGE_BYTES if is_there else 0), PAGE_BYTES)
    assert shelf.part(2005, 300 * KIB).in_file() is None
    assert before.is_there() is is_there


def test_what_an_append_brings_back_is_looked_at(shelf: Shelf) -> None:
    """The kernel reads a page that is not whole before it writes to it."""
    end = shelf.log.size_bytes
    assert end % PAGE_BYTES
    shelf.disk.put_out(shelf.path, end - 1, 1)
    append(shelf.log, batch_of(LARGE), now_ms=NOW_MS + 60_000)
    assert not shelf.disk.missing[shelf.path]
    assert shelf.part(2031, 300 * KIB).in_file() is None
    assert shelf.part(2030, 300 * KIB).in_file() is not None
    assert shelf.part(2032, 300 * KIB).in_file() is not None


def start_of(shelf: Shelf, offset: int) -> int:
    return sum(len(batch_of(SMALL if each < 2000 else LARGE)) for each in range(offset))
