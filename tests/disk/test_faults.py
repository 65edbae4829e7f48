"""The double in front of a disk: it fails when told, and passes everything on otherwise."""

from __future__ import annotations

import errno
from random import Random

import pytest
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk

from penstock.disk.interface import read_whole, replace_atomically, write_fully


def test_files_grow_by_the_room_there_is_and_no_further() -> None:
    disk = FaultyDisk(PowerCutDisk())
    file = disk.open("/a", create=True)
    file.write([b"1234"], 0)
    disk.fill(room_bytes=3)
    assert file.write([b"xx", b"56789"], 2) == 5
    with pytest.raises(OSError) as refusal:
        file.write([b"more"], 7)
    assert refusal.value.errno == errno.ENOSPC
    with pytest.raises(OSError):
        disk.open("/b", create=True)
    assert file.write([b"12"], 0) == 2, "overwriting needs no room"
    file.truncate(6)
    assert file.write([b"!!"], 6) == 1, "what is cut off is room again"
    disk.remove("/a")
    assert disk.space("/").free_bytes == 7
    disk.make_room()
    assert write_fully(disk.open("/b", create=True), [b"x" * 100], 0) == 100


def test_operations_fail_where_they_are_told_to_until_it_heals() -> None:
    disk = FaultyDisk(PowerCutDisk())
    replace_atomically(disk, "/a", b"old")
    disk.fail("sync", errno.EIO, path_part="/b")
    with pytest.raises(OSError):
        replace_atomically(disk, "/b", b"new")
    replace_atomically(disk, "/a", b"new")
    disk.heal()
    replace_atomically(disk, "/b", b"new")
    assert disk.count("sync", "/b") == 2
    assert read_whole(disk, "/b") == b"new"


def test_nothing_happens_any_more_after_it_was_pulled() -> None:
    memory = PowerCutDisk()
    disk = FaultyDisk(memory)
    file = disk.open("/a", create=True)
    disk.sync_directory("/")
    disk.pull_after(2, lambda: memory.cut_power(Random(1)))
    file.write([b"kept"], 0)
    file.sync()
    assert not disk.is_pulled
    for attempt in (lambda: file.write([b"lost"], 4), file.sync, lambda: disk.open("/b", create=True)):
        with pytest.raises(OSError):
            attempt()
    assert disk.wait_until_pulled(0)
    assert read_whole(memory, "/a") == b"kept"
    assert not memory.exists("/b")
