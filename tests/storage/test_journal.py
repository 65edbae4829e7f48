"""The commit journal: what it makes durable, when it may not, and what recovery takes from it."""

from __future__ import annotations

import errno

import pytest
from tests.storage.batches import NOW_MS, contents, sync
from tests.storage.journaled_node import DATA, JournaledNode
from tests.storage.test_replica_append import batches, take

from penstock.config.log import LogSettings
from penstock.storage.compaction import Compaction
from penstock.storage.core.journal_entry import PAGE_BYTES, decode_lap
from penstock.storage.journal import FILE_NAMES
from penstock.storage.log import Log
from penstock.storage.stage import STAGED_BATCH_BYTES, STAGED_BYTES, staged_bytes
from penstock.units import DAY_MS


def test_one_sync_makes_all_logs_durable() -> None:
    topics = [f"t{number}" for number in range(16)]
    node = JournaledNode(*topics)
    before = node.disk.count("sync")
    for topic in topics:
        node.write(topic, b"a")
        node.write(topic, b"b", b"c")
    node.commit()
    assert node.disk.count("sync") - before == 1
    assert all(log.durable_offset == 4 and log.synced_offset == 1 for log in node.logs.values())
    node.cut_power()
    assert [node.batches(topic) for topic in topics] == [3] * 16
    assert all(log.end_offset == log.synced_offset == 4 for log in node.logs.values())
    assert "put back" in str(node.logs["t0"].recovery)


def test_what_no_entry_holds_is_lost_and_what_one_holds_is_not() -> None:
    node = JournaledNode("orders")
    node.write("orders", b"kept")
    node.commit()
    node.write("orders", b"lost")
    ticket = node.begin_commit()
    assert ticket is not None
    assert node.logs["orders"].durable_offset == 2, "nothing counts before it is on disk"
    node.cut_power()
    assert node.batches("orders") == 2


def test_a_hole_in_a_segment_is_filled() -> None:
    node = JournaledNode("orders")
    for number in range(9):
        node.write("orders", b"%d" % number * 100)
        node.commit()
    active = node.logs["orders"].active
    assert active is not None
    # The kernel wrote the end of the file before the power went, and not the middle.
    active.file().sync()
    node.memory.damage(f"{active.path}.log", 300, bytes(500))
    node.open()
    assert node.batches("orders") == 10
    assert not node.logs["orders"].recovery.damage


def test_the_first_batch_of_a_new_segment_waits_for_its_name() -> None:
    node = JournaledNode("orders", settings=LogSettings(segment_bytes=1024))
    log = node.logs["orders"]
    while len(log.segments) == 1:
        node.write("orders", b"x" * 100)
        if len(log.segments) == 1:
            node.commit()
    assert (staged_bytes(log), log.stage) == (0, None)
    durable = log.durable_offset
    assert durable == log.end_offset - 1 > log.synced_offset
    node.cut_power()
    log = node.logs["orders"]
    assert log.end_offset == durable, "the closed segment's end was in the journal alone"
    node.write("orders", b"y" * 700)
    assert staged_bytes(log) == 0
    sync(log)
    node.write("orders", b"z")
    assert staged_bytes(log)


def test_the_name_of_a_segment_is_not_taken_for_synced_while_its_sync_runs() -> None:
    node = JournaledNode("orders", settings=LogSettings(segment_ms=1000))
    log = node.logs["orders"]
    node.write("orders", b"a")
    ticket = node.begin_commit()
    assert ticket is not None
    log.roll_if_due(NOW_MS + 5000)
    own = log.begin_sync()
    assert own is not None
    ticket.run()
    node.journal.finish(ticket)
    assert log.durable_offset == log.end_offset
    node.write("orders", b"b")
    assert staged_bytes(log) == 0, "the new segment may not be there after a power cut"
    own.run()
    log.finish_sync(own)
    assert staged_bytes(log)


def test_a_large_batch_and_many_small_ones_take_a_sync_of_their_own() -> None:
    node = JournaledNode("large", "many")
    node.write("large", b"x" * STAGED_BATCH_BYTES)
    for _ in range(STAGED_BYTES // 8000 + 1):
        node.write("many", b"x" * 8000)
    for topic in ("large", "many"):
        log = node.logs[topic]
        assert staged_bytes(log) == 0
        sync(log)
        assert log.durable_offset == log.synced_offset == log.end_offset
        node.write(topic, b"small")
        assert staged_bytes(log), "the next small one is the journal's again"


def test_a_stage_behind_a_sync_that_runs_waits_for_it() -> None:
    node = JournaledNode("orders")
    log = node.logs["orders"]
    node.write("orders", b"x" * STAGED_BATCH_BYTES)
    own = log.begin_sync()
    assert own is not None
    node.write("orders", b"behind it")
    assert staged_bytes(log) == 0
    own.run()
    log.finish_sync(own)
    assert staged_bytes(log)


def test_a_sync_for_which_nobody_waits_does_not_hold_up_the_journal() -> None:
    node = JournaledNode("orders")
    log = node.logs["orders"]
    node.write("orders", b"a")
    node.commit()
    own = log.begin_sync()
    assert own is not None
    node.write("orders", b"b")
    node.commit()
    assert (log.durable_offset, log.synced_offset) == (3, 1)
    own.run()
    log.finish_sync(own)
    assert (log.durable_offset, log.synced_offset) == (3, 2)


@pytest.mark.parametrize("in_flight", [False, True])
def test_what_was_truncated_does_not_come_back(in_flight: bool) -> None:
    node = JournaledNode("orders")
    for number in range(5):
        node.write("orders", b"%d" % number)
        node.commit()
    node.write("orders", b"more")
    ticket = node.begin_commit()
    assert ticket is not None
    if not in_flight:
        ticket.run()
        node.journal.finish(ticket)
    node.logs["orders"].truncate_to(3)
    if in_flight:
        ticket.run()
        node.journal.finish(ticket)
    assert node.logs["orders"].durable_offset == 3
    node.cut_power()
    assert node.logs["orders"].end_offset == node.batches("orders") == 3


def test_what_took_the_place_of_truncated_records_is_what_comes_back() -> None:
    node = JournaledNode("orders")
    node.write("orders", b"old")
    node.commit()
    node.logs["orders"].truncate_to(1)
    node.write("orders", b"new")
    sync(node.logs["orders"])
    node.write("orders", b"and newer")
    node.commit()
    node.cut_power()
    assert node.batches("orders") == 3
    assert node.logs["orders"].read(1, 2**20, upto=2, at_least_one=True).load().tobytes().endswith(b"new\x00")  # type: ignore[union-attr]


def test_a_topic_that_is_made_anew_has_nothing_of_the_old_one() -> None:
    node = JournaledNode("orders", "other")
    for topic in ("orders", "other"):
        node.write(topic, b"old")
    node.commit()
    node.make_anew("orders")
    node.cut_power()
    assert (node.batches("orders"), node.batches("other")) == (0, 2)


@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("entry_failed", [False, True])
@pytest.mark.parametrize("rows", [(), ((1, 6, 1),)])
def test_a_replica_that_was_moved_away_and_is_back_has_nothing_of_its_earlier_log(
    power_fails: bool, entry_failed: bool, rows: tuple[tuple[int, int, int], ...]
) -> None:
    node = JournaledNode("orders")
    (first,) = contents(node.logs["orders"]).values()
    take(node.logs["orders"], batches((1, 5, 1), (2, 5, 1), (3, 5, 1)))
    ticket = node.begin_commit()
    assert ticket is not None
    ticket.run()
    if entry_failed:
        node.journal.fail(ticket, OSError(errno.EIO, "nobody knows what is on disk"), NOW_MS)
    else:
        node.journal.finish(ticket)
    node.move_away_and_back("orders")
    take(node.logs["orders"], bytearray(first))
    sync(node.logs["orders"])
    take(node.logs["orders"], batches(*rows))
    if entry_failed:
        sync(node.logs["orders"])
    elif rows:
        node.commit()
    if power_fails:
        node.cut_power()
    else:
        node.open()
    log = node.logs["orders"]
    assert b"".join(contents(log).values()) == first + batches(*rows)


def test_a_new_log_of_which_the_journal_has_nothing_costs_no_sync() -> None:
    node = JournaledNode("orders")
    before = node.disk.count("sync")
    share = node.journal.share_for(node.ids["orders"], 1)
    Log.open(node.disk, f"{DATA}/topics/orders/partition-1", node.settings, now_ms=NOW_MS, share=share)
    assert node.disk.count("sync") == before


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_what_a_follower_has_behind_gaps_comes_back(policy: str) -> None:
    node = JournaledNode("offsets", settings=LogSettings(cleanup_policy=policy))
    take(node.logs["offsets"], batches((5, 1, 1), (6, 1, 2)))
    assert not staged_bytes(node.logs["offsets"]), "the log's own word that it has gaps is not on disk yet"
    sync(node.logs["offsets"])
    take(node.logs["offsets"], batches((20, 2, 1), (30, 3, 1)))
    node.commit()
    assert node.logs["offsets"].durable_offset == 31
    node.cut_power()
    log = node.logs["offsets"]
    assert list(contents(log)) == [0, 5, 6, 20, 30]
    assert (log.end_offset, log.epochs.starts()) == (31, [(0, 0), (1, 5), (2, 20), (3, 30)])
    assert log.segments[-1].gaps


def test_deleted_records_stay_deleted() -> None:
    node = JournaledNode("orders")
    for _ in range(4):
        node.write("orders", b"a")
        node.commit()
    node.logs["orders"].delete_records(3)
    node.cut_power()
    assert (node.logs["orders"].start_offset, node.logs["orders"].end_offset) == (3, 5)


def test_with_os_nothing_is_journaled_and_what_was_before_is_kept() -> None:
    node = JournaledNode("orders")
    log = node.logs["orders"]
    node.write("orders", b"acked")
    node.commit()
    node.use_policy("orders", "os")
    node.write("orders", b"not promised")
    assert staged_bytes(log) == 0
    node.settings = log.settings
    node.cut_power()
    log = node.logs["orders"]
    assert node.batches("orders") == log.synced_offset == 2, "in its files, because the journal is used anew"
    node.cut_power()
    assert node.batches("orders") == 2


def test_a_file_is_used_again_only_when_all_its_logs_have_synced() -> None:
    node = JournaledNode("busy", "quiet", file_bytes=3 * PAGE_BYTES)
    node.write("quiet", b"kept by the journal alone")
    node.commit()
    for _ in range(3):
        node.write("busy", b"x")
        node.commit("busy")
    node.write("busy", b"y")
    assert node.begin_commit() is None
    assert node.journal.is_blocked
    assert node.journal.lagging() == [node.logs["quiet"], node.logs["busy"]]
    sync(node.logs["busy"])
    node.write("busy", b"z")
    assert node.begin_commit() is None, "one of them is enough"
    sync(node.logs["quiet"])
    node.commit()
    assert not node.journal.is_blocked
    busy = node.logs["busy"].durable_offset
    node.cut_power()
    assert (node.batches("quiet"), node.batches("busy")) == (2, busy)


def test_a_file_that_ends_where_its_checkpoint_says_gets_what_the_journal_has() -> None:
    node = JournaledNode("orders")
    node.logs["orders"].checkpoint()
    node.disk.sync_directory(node.logs["orders"].directory)
    node.write("orders", b"a")
    node.commit()
    node.cut_power()
    assert node.logs["orders"].recovery.scanned_bytes == 0
    assert node.batches("orders") == 2


@pytest.mark.parametrize("lost_batches", [1, 2])
def test_what_a_closed_segment_has_lost_and_the_journal_has_is_no_damage(lost_batches: int) -> None:
    """The rest stays one. `lost_batches`: of those that the checkpoint vouches for."""
    node = JournaledNode("orders", settings=LogSettings(segment_ms=1000))
    log = node.logs["orders"]
    ends = [log.size_bytes]
    node.write("orders", b"a")
    ticket = log.begin_sync(checkpoint=True)
    assert ticket is not None
    ends.append(log.size_bytes)
    node.write("orders", b"b")
    ticket.run()
    log.finish_sync(ticket)
    node.commit()
    log.roll_if_due(NOW_MS + 5000)
    node.write("orders", b"c")
    sync(log)
    first = f"{log.directory}/{0:020}.log"
    content = node.disk.open(first).read(0, ends[1])
    node.memory.replace(first, content[: ends[0]] if lost_batches == 1 else b"")
    node.open()
    log = node.logs["orders"]
    expected = [(0, 3)] if lost_batches == 2 else []
    assert [(each.first_offset, each.next_offset) for each in log.recovery.damage] == expected
    if lost_batches == 1:
        assert node.batches("orders") == 4


def test_no_lap_has_the_name_of_another() -> None:
    """Else bytes that a client sent, or an earlier lap left, could pass for an entry."""
    node = JournaledNode("orders", file_bytes=2 * PAGE_BYTES)
    names = set()
    for number in range(6):
        node.write("orders", b"a")
        node.commit()
        sync(node.logs["orders"])
        lap = decode_lap(node.disk.open(f"{DATA}/journal/{FILE_NAMES[number % 2]}").read(0, PAGE_BYTES))
        assert lap is not None
        names.add(lap.name)
    assert len(names) == 6


def test_compaction_leaves_what_only_the_journal_has() -> None:
    settings = LogSettings(cleanup_policy="compact", segment_ms=1000, min_cleanable_dirty_ratio=0.0)
    node = JournaledNode("orders", settings=settings)
    log: Log = node.logs["orders"]
    node.write("orders", b"a")
    node.commit()
    log.roll_if_due(NOW_MS + 5000)
    now_ms = NOW_MS + DAY_MS
    assert log.durable_offset == 2
    assert Compaction.begin(log, bound_offset=2, now_ms=now_ms) is None
    sync(log)
    assert Compaction.begin(log, bound_offset=2, now_ms=now_ms) is not None
