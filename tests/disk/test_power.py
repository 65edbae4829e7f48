"""The double itself: it must lose what a real disk can lose, and nothing else."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest
from tests.disk.crash import CrashingDisk, PowerOff
from tests.disk.power import PAGE_BYTES, PowerCutDisk

from penstock.disk.interface import read_whole, replace_atomically


def outcomes(prepare: object, path: str, tries: int = 60) -> set[bytes | None]:
    """What a file can be after a cut."""
    found: set[bytes | None] = set()
    for seed in range(tries):
        disk = CrashingDisk()
        assert callable(prepare)
        prepare(disk)
        disk.cut_power(Random(seed))
        found.add(read_whole(disk, path) if disk.exists(path) else None)
    return found


def test_what_is_synced_stays() -> None:
    def prepare(disk: PowerCutDisk) -> None:
        file = disk.open("/a", create=True)
        file.write([b"kept"], 0)
        file.sync()
        disk.sync_directory("/")

    assert outcomes(prepare, "/a") == {b"kept"}


def test_a_name_that_is_not_synced_may_go_and_bytes_too() -> None:
    def prepare(disk: PowerCutDisk) -> None:
        disk.open("/a", create=True).write([b"new"], 0)

    assert outcomes(prepare, "/a") == {None, b"", b"new"}


def test_a_write_is_torn_at_pages() -> None:
    def prepare(disk: PowerCutDisk) -> None:
        disk.open("/a", create=True).write([b"1" * PAGE_BYTES + b"2" * PAGE_BYTES], 0)
        disk.sync_directory("/")

    zeros = b"\0" * PAGE_BYTES
    assert outcomes(prepare, "/a") == {
        b"",
        b"1" * PAGE_BYTES,
        zeros + b"2" * PAGE_BYTES,
        b"1" * PAGE_BYTES + b"2" * PAGE_BYTES,
    }


def test_a_truncation_may_be_lost() -> None:
    def prepare(disk: PowerCutDisk) -> None:
        replace_atomically(disk, "/a", b"long")
        disk.open("/a").truncate(1)

    assert outcomes(prepare, "/a") == {b"long", b"l"}


def test_an_atomic_replacement_is_one() -> None:
    for operations in range(7):

        def prepare(disk: CrashingDisk, operations: int = operations) -> None:
            replace_atomically(disk, "/a", b"old")
            disk.operations_left = operations
            with suppress(PowerOff):
                replace_atomically(disk, "/a", b"new")
            disk.operations_left = None

        assert outcomes(prepare, "/a") <= {b"old", b"new"}


def test_a_removal_may_be_lost() -> None:
    def prepare(disk: PowerCutDisk) -> None:
        replace_atomically(disk, "/a", b"old")
        disk.remove("/a")

    assert outcomes(prepare, "/a") == {None, b"old"}


def test_after_a_failed_sync_a_good_one_proves_nothing() -> None:
    def prepare(disk: PowerCutDisk) -> None:
        replace_atomically(disk, "/a", b"old")
        file = disk.open("/a")
        file.write([b"new"], 0)
        disk.fail_next("sync", errno.EIO)
        with pytest.raises(OSError):
            file.sync()
        file.sync()
        assert file.read(0, 3) == b"new"

    assert outcomes(prepare, "/a") == {b"old"}


def test_a_full_disk_takes_a_part_and_then_nothing() -> None:
    disk = PowerCutDisk(capacity_bytes=10)
    file = disk.open("/a", create=True)
    assert file.write([b"x" * 20], 0) == 10
    with pytest.raises(OSError) as refusal:
        file.write([b"y"], 10)
    assert refusal.value.errno == errno.ENOSPC
    assert file.write([b"y"], 0) == 1, "overwriting needs no room"
    assert disk.space("/").free_bytes == 0
