"""A journal that cannot be written, read or found: nobody is refused, and nothing that it made durable is lost."""

from __future__ import annotations

import errno

import pytest
from tests.storage.batches import NOW_MS, sync
from tests.storage.journaled_node import DATA, JournaledNode, NothingKept

from penstock.errors import PenstockError, Problem
from penstock.storage.core.journal_entry import PAGE_BYTES
from penstock.storage.journal import RETRY_MS, Journal
from penstock.storage.stage import staged_bytes


def test_a_log_that_failed_keeps_what_the_journal_has_of_it() -> None:
    node = JournaledNode("bad", "good", file_bytes=3 * PAGE_BYTES)
    node.write("bad", b"promised")
    node.commit()
    node.disk.fail("sync", path_part="/bad/")
    ticket = node.logs["bad"].begin_sync()
    assert ticket is not None
    with pytest.raises(OSError, match="Input/output"):
        ticket.run()
    node.logs["bad"].fail("a sync failed")
    node.disk.heal()
    while not node.journal.is_blocked:
        node.write("good", b"x")
        if (entry := node.begin_commit()) is not None:
            entry.run()
            node.journal.finish(entry)
        sync(node.logs["good"])
    assert node.batches("bad") == 2, "it is durable, so it can still be read"
    for log in node.logs.values():
        log.close()
    node.journal.close()
    node.cut_power()
    assert node.batches("bad") == 2
    assert node.logs["good"].end_offset == node.batches("good")


def test_a_failing_sync_of_the_journal_ends_its_use_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    node = JournaledNode("orders")
    log = node.logs["orders"]
    node.write("orders", b"kept")
    node.commit()
    node.write("orders", b"waits")
    ticket = node.begin_commit()
    assert ticket is not None
    node.disk.fail("sync", path_part="/journal/")
    with pytest.raises(OSError, match="Input/output") as failure:
        ticket.run()
    node.journal.fail(ticket, failure.value, NOW_MS)
    node.disk.heal()
    assert log.durable_offset == 2
    assert node.journal.unsynced() == [log]
    assert "restart this node" in vars(caplog.records[-1])["do"]
    sync(log)
    assert log.durable_offset == log.end_offset
    node.write("orders", b"more")
    assert staged_bytes(log) and node.begin_commit() is None, "never again in this life"
    node.cut_power()
    assert node.batches("orders") == 3
    node.write("orders", b"again")
    sync(node.logs["orders"])
    node.write("orders", b"again")
    node.commit()


def test_an_entry_for_which_there_is_no_room_is_tried_again_later() -> None:
    node = JournaledNode("orders")
    log = node.logs["orders"]
    for number in (errno.ENOSPC, errno.EDQUOT):
        node.write("orders", b"a")
        ticket = node.begin_commit()
        assert ticket is not None
        node.disk.fail("write", number, path_part="/journal/")
        with pytest.raises(OSError) as failure:
            ticket.run()
        node.journal.fail(ticket, failure.value, node.now_ms)
        node.disk.heal()
        assert (node.journal.failure, staged_bytes(log)) == (None, 0)
        sync(log)
        node.write("orders", b"b")
        assert node.begin_commit() is None
        node.now_ms += RETRY_MS
        node.commit()
    durable = log.durable_offset
    node.cut_power()
    assert node.batches("orders") == durable == 5


def test_sequences_go_on_where_checkpoints_say() -> None:
    """Else what the journal gets next would count as void: it may be lost while the logs are not."""
    node = JournaledNode("orders")
    for _ in range(20):
        node.write("orders", b"a")
        node.commit()
    node.logs["orders"].checkpoint()
    node.disk.sync_directory(node.logs["orders"].directory)
    node.cut_power(keep_journal=False)
    node.write("orders", b"b")
    sync(node.logs["orders"])
    node.write("orders", b"c")
    node.commit()
    durable = node.logs["orders"].durable_offset
    node.cut_power()
    assert node.logs["orders"].end_offset == durable == 23


def test_an_unreadable_journal_keeps_the_node_from_starting() -> None:
    node = JournaledNode("orders")
    node.write("orders", b"a")
    node.commit()
    node.disk.fail("read", path_part="/journal/")
    with pytest.raises(PenstockError, match="move that directory away") as refusal:
        Journal.open(node.disk, DATA)
    assert refusal.value.problem is Problem.STORAGE_FAILED


def test_a_start_that_came_to_nothing_leaves_the_journal_as_it_was() -> None:
    node = JournaledNode("orders")
    node.write("orders", b"a")
    node.commit()
    node.memory.cut_power(NothingKept())
    Journal.open(node.memory, DATA).close()
    node.open()
    assert node.batches("orders") == 2


def test_a_damaged_entry_costs_what_is_in_it_and_no_other_log() -> None:
    node = JournaledNode("orders", "other")
    node.write("orders", b"a")
    node.commit("orders")
    node.write("other", b"b")
    node.commit("other")
    node.memory.damage(f"{DATA}/journal/a", PAGE_BYTES + 60, b"rotten")
    node.cut_power()
    assert (node.batches("orders"), node.batches("other")) == (1, 2)


def test_a_journal_that_cannot_be_written_at_start_is_not_used() -> None:
    node = JournaledNode("orders")
    node.write("orders", b"a")
    node.commit()
    node.memory.cut_power(NothingKept())
    node.memory.fail_next("write", errno.EIO, path_part="/journal/")
    node.open()
    assert node.journal.failure is not None
    node.write("orders", b"b")
    sync(node.logs["orders"])
    node.cut_power()
    assert node.batches("orders") == 3


def said(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, object]]:
    return [vars(record) for record in caplog.records if record.getMessage() == event]


@pytest.mark.parametrize("unclean", [False, True])
def test_a_rotten_first_page_is_said_where_it_may_matter(caplog: pytest.LogCaptureFixture, unclean: bool) -> None:
    node = JournaledNode("orders")
    node.write("orders", b"x")
    node.commit()
    node.memory.damage(f"{DATA}/journal/a", 10, b"rot")
    Journal.open(node.memory, DATA, is_needed=unclean)
    found = said(caplog, "journal.unreadable")
    assert len(found) == unclean
    for line in found:
        assert line["file"] == f"{DATA}/journal/a"
        assert "may be missing" in str(line["why"]) and "check the disk" in str(line["do"])


@pytest.mark.parametrize("unclean", [False, True])
def test_a_journal_that_is_gone_is_said_where_it_may_matter(caplog: pytest.LogCaptureFixture, unclean: bool) -> None:
    node = JournaledNode("orders")
    node.disk.remove_directory(f"{DATA}/journal")
    Journal.open(node.memory, DATA, is_needed=unclean)
    found = said(caplog, "journal.missing")
    assert len(found) == unclean
    for line in found:
        assert line["directory"] == f"{DATA}/journal"
        assert "may be missing" in str(line["why"]) and "bring it back" in str(line["do"])


def test_a_journal_that_is_new_wiped_or_in_use_is_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    node = JournaledNode("orders")
    Journal.open(node.memory, DATA, is_needed=True)
    node.write("orders", b"x")
    node.commit()
    Journal.open(node.memory, DATA, is_needed=True)
    sync(node.logs["orders"])
    node.journal.close()
    Journal.open(node.memory, DATA, is_needed=True)
    assert not caplog.records
