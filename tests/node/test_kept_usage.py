"""Events that outlive their life on disk: whole, or as before."""

from __future__ import annotations

import errno
import logging

import pytest
from tests.disk.faults import FaultyDisk
from tests.disk.power import PowerCutDisk

from penstock.disk.interface import replace_atomically
from penstock.node.kept_usage import MAX_BYTES, KeptUsage
from penstock.telemetry.usage_events import Event

EVENTS = [Event(b"[1,2,3]", b'{"usage": []}', 17), Event(b"[1,2,4]", b"{}", 18)]


def test_what_is_kept_is_read_until_it_is_forgotten() -> None:
    disk = PowerCutDisk()
    disk.make_directory("/data")
    kept = KeptUsage(disk, "/data")
    assert kept.read() == []
    assert kept.keep(EVENTS) is None
    assert KeptUsage(disk, "/data").read() == EVENTS
    assert kept.keep(EVENTS[1:]) is None
    assert kept.read() == EVENTS[1:]
    kept.forget()
    assert kept.read() == []


def test_a_disk_that_fails_is_told_and_changes_nothing() -> None:
    disk = FaultyDisk(PowerCutDisk())
    disk.make_directory("/data")
    kept = KeptUsage(disk, "/data")
    assert kept.keep(EVENTS) is None
    disk.fail("write", errno.ENOSPC, path_part="usage-kept")
    assert "No space left" in (kept.keep(EVENTS[:1]) or "")
    disk.heal()
    assert kept.read() == EVENTS
    disk.fail("remove", errno.EIO, path_part="usage-kept")
    kept.forget()
    disk.heal()
    assert kept.read() == EVENTS, "it is delivered again, and its keys tell"
    assert "more than" in (kept.keep([Event(b"", bytes(MAX_BYTES), 0)]) or "")


def test_what_is_no_list_of_events_is_said_and_left(caplog: pytest.LogCaptureFixture) -> None:
    disk = PowerCutDisk()
    disk.make_directory("/data")
    replace_atomically(disk, "/data/usage-kept", b"\xc1 no events")
    with caplog.at_level(logging.ERROR):
        assert KeptUsage(disk, "/data").read() == []
    assert [record.message for record in caplog.records] == ["usage.lost"]
