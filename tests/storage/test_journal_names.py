"""What only the journal has is on disk once the journal's own names are: also when an earlier life made the file."""

from __future__ import annotations

import errno

from tests.storage.batches import sync
from tests.storage.journaled_node import JournaledNode


def test_a_file_that_was_made_right_before_a_kill_gets_its_name_synced() -> None:
    node = JournaledNode("t")
    node.write("t", b"x")
    node.disk.fail("sync_directory", path_part="/journal")
    ticket = node.begin_commit()
    assert ticket is not None
    try:
        ticket.run()
    except OSError:
        # The kill comes here: nothing in memory is left, the page cache lives on.
        node.open()
    node.write("t", b"own")
    sync(node.logs["t"])
    node.write("t", b"acknowledged")
    node.commit()
    durable_offset = node.logs["t"].durable_offset
    assert durable_offset == node.logs["t"].end_offset
    node.cut_power()
    assert node.logs["t"].end_offset == durable_offset


def test_a_directory_that_could_not_be_synced_is_synced_at_the_next_attempt() -> None:
    node = JournaledNode("t")
    node.write("t", b"x")
    node.disk.fail("sync_directory", errno.ENOSPC, path_part="/journal")
    ticket = node.begin_commit()
    assert ticket is not None
    try:
        ticket.run()
    except OSError as error:
        node.journal.fail(ticket, error, node.now_ms)
        sync(node.logs["t"])
    node.disk.heal()
    node.now_ms += 6000
    node.write("t", b"acknowledged")
    node.commit()
    durable_offset = node.logs["t"].durable_offset
    node.cut_power()
    assert node.logs["t"].end_offset == durable_offset
