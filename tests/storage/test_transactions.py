"""Transactions in a log, case by case; see test_transactions_under_fire for all of it at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.disk.power import PowerCutDisk
from tests.storage.batches import NOW_MS, contents, sync
from tests.storage.committed_reader import committed_records, marker_in, split
from tests.storage.journaled_node import JournaledNode
from tests.storage.transaction_model import data_batch, end

from penstock.config.log import LogSettings
from penstock.errors import PenstockError, Problem
from penstock.storage.compaction import Compaction
from penstock.storage.core.aborted import AbortedTransaction, AbortedTransactions
from penstock.storage.core.producer_state import MOST_OPEN_TRANSACTIONS, MOST_PRODUCERS, ProducerStates
from penstock.storage.log import Log
from penstock.storage.replica_append import append_replicated
from penstock.units import DAY_MS
from penstock.wire.batch import TRANSACTIONAL, BatchHeader, read_header
from penstock.wire.control import Marker
from penstock.wire.received_batches import received_batches
from penstock.wire.records import has_delete_horizon

DIRECTORY = "/data/topics/t/partition-0"
COMMIT, ABORT = Marker(True, 0), Marker(False, 0)
COMPACTED = LogSettings(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, delete_retention_ms=DAY_MS, file_delete_delay_ms=0
)


def opened(disk: PowerCutDisk | None = None, settings: LogSettings | None = None) -> Log:
    return Log.open(disk or PowerCutDisk(), DIRECTORY, settings or LogSettings(), now_ms=NOW_MS)


def write(
    log: Log, sequence: int, *values: bytes, producer_id: int = 1, epoch: int = 0, is_transactional: bool = True
) -> int:
    """With the key before the first space; its base offset."""
    pairs = [(value.split(b" ")[0], value) for value in values]
    batch = data_batch(pairs, producer_id, epoch, sequence, is_transactional=is_transactional)
    return log.append(batch, read_header(batch), leader_epoch=0, now_ms=NOW_MS).base_offset


def refused(log: Log, sequence: int, *, epoch: int = 0, is_transactional: bool = True) -> Problem:
    with pytest.raises(PenstockError) as refusal:
        write(log, sequence, b"late", epoch=epoch, is_transactional=is_transactional)
    return refusal.value.problem


def stable_offset(log: Log, high_watermark: int | None = None) -> int:
    upto = log.end_offset if high_watermark is None else high_watermark
    return log.producer_states.transactions.last_stable_offset(upto)


def values_in(log: Log) -> list[bytes | None]:
    found = committed_records(log, stable_offset(log), start=log.start_offset, max_bytes=2**20)
    return [record.value for record in found]


def test_a_marker_of_version_two_ends_its_epoch() -> None:
    log = opened()
    write(log, 0, b"a")
    end(log, 1, 1, COMMIT, version=2)
    assert refused(log, 1) is Problem.INVALID_PRODUCER_EPOCH
    # What begins an epoch has the sequence 0, as in Kafka.
    assert refused(log, 1, epoch=1) is Problem.OUT_OF_ORDER_SEQUENCE
    assert write(log, 0, b"b", epoch=1) == 2


def test_with_version_one_sequences_go_on() -> None:
    log = opened()
    write(log, 0, b"a")
    end(log, 1, 0, ABORT)
    assert write(log, 1, b"b") == 2
    assert values_in(log) == []
    end(log, 1, 0, COMMIT)
    assert values_in(log) == [b"b"]


def test_a_repetition_is_recognised_also_when_its_transaction_is_over() -> None:
    log = opened()
    write(log, 0, b"a")
    end(log, 1, 0, COMMIT)
    batch = data_batch([(b"a", b"a")], 1, 0, 0, is_transactional=True)
    again = log.append(batch, read_header(batch), leader_epoch=0, now_ms=NOW_MS)
    assert (again.duplicate, again.base_offset, stable_offset(log)) == (True, 0, 2)


def test_outside_and_inside_of_transactions() -> None:
    log = opened()
    write(log, 0, b"before", is_transactional=False)
    write(log, 1, b"in it")
    assert refused(log, 2, is_transactional=False) is Problem.INVALID_TXN_STATE
    assert refused(log, 0, epoch=1, is_transactional=False) is Problem.INVALID_TXN_STATE
    end(log, 1, 0, COMMIT)
    write(log, 2, b"after", is_transactional=False)
    assert values_in(log) == [b"before", b"in it", b"after"]


def test_a_transaction_has_ended_when_its_marker_is_below_the_high_watermark() -> None:
    log = opened()
    write(log, 0, b"a")
    write(log, 0, b"b", producer_id=2)
    end(log, 1, 0, COMMIT)
    end(log, 2, 0, COMMIT)
    assert [stable_offset(log, high_watermark) for high_watermark in range(5)] == [0, 0, 0, 1, 4]


def test_a_marker_of_the_transaction_before_does_not_end_the_next() -> None:
    log = opened()
    write(log, 0, b"a")
    end(log, 1, 1, ABORT, version=2)
    write(log, 0, b"b", epoch=1)
    with pytest.raises(PenstockError) as refusal:
        end(log, 1, 1, ABORT, version=2)
    assert refusal.value.problem is Problem.INVALID_PRODUCER_EPOCH
    assert stable_offset(log) == 2
    end(log, 1, 2, COMMIT, version=2)
    end(log, 1, 2, COMMIT, version=2)
    assert values_in(log) == [b"b"]


def test_a_search_for_aborted_transactions_ends_where_none_can_follow() -> None:
    rows = [AbortedTransaction(1, 0, 10, 5), AbortedTransaction(2, 5, 20, 21), AbortedTransaction(1, 30, 40, 41)]
    aborted = AbortedTransactions(rows)
    assert aborted.overlapping(0, 5) == rows[:1]
    assert aborted.overlapping(0, 6) == rows[:2]
    assert aborted.overlapping(11, 31) == rows[1:]
    assert aborted.overlapping(41, 50) == []
    then = aborted.as_of_now()
    aborted.drop({10})
    aborted.cut_end(40)
    assert (list(aborted), list(then)) == (rows[1:2], rows)


def _header(producer_id: int, *, is_transactional: bool) -> BatchHeader:
    return BatchHeader(0, 100, 0, 2, 0, TRANSACTIONAL if is_transactional else 0, 0, 0, 0, producer_id, 0, 0, 1)


def test_who_has_a_transaction_open_is_not_forgotten_and_their_number_is_bounded() -> None:
    states = ProducerStates()
    for number in range(MOST_OPEN_TRANSACTIONS):
        states.record(_header(number, is_transactional=True), number, 0, 0)
    for number in range(MOST_OPEN_TRANSACTIONS, MOST_PRODUCERS + 1):
        states.record(_header(number, is_transactional=False), number, 0, 1)
    states.expire(now_ms=DAY_MS, older_than_ms=1)
    assert [entry.producer_id for entry in states.entries()] == list(range(MOST_OPEN_TRANSACTIONS))
    with pytest.raises(PenstockError) as refusal:
        states.check(_header(MOST_PRODUCERS, is_transactional=True))
    assert refusal.value.problem is Problem.BUSY
    assert states.check(_header(MOST_PRODUCERS, is_transactional=False)) is None


def test_a_marker_that_could_not_be_written_does_not_stop_its_producer() -> None:
    disk = PowerCutDisk()
    log = opened(disk)
    disk.fail_next("write", 28, path_part=".log")
    with pytest.raises(PenstockError):
        end(log, 1, 0, ABORT)
    assert log.aborted.count_in(log.segments[0]) == 0
    assert write(log, 0, b"first") == 0


def test_a_transaction_whose_end_was_deleted_does_not_come_back_with_an_old_checkpoint() -> None:
    """A power cut may bring back the checkpoint before; the start of a log never goes back."""
    disk = PowerCutDisk()
    log = opened(disk, replace(LogSettings(), segment_bytes=300, retention_ms=-1, file_delete_delay_ms=0))
    write(log, 0, b"a")
    log.checkpoint()
    checkpoint = disk.open(f"{DIRECTORY}/checkpoint")
    old = checkpoint.read(0, checkpoint.size())
    end(log, 1, 0, COMMIT)
    for number in range(10):
        write(log, number, b"x" * 100, producer_id=2, is_transactional=False)
    sync(log)
    log.delete_records(8)
    deletion = log.apply_retention(NOW_MS)
    assert deletion is not None
    deletion.run()
    for keeps_snapshots in (True, False):
        disk.replace(f"{DIRECTORY}/checkpoint", old)
        for name in disk.list_directory(DIRECTORY):
            if name.endswith(".snapshot") and not keeps_snapshots:
                disk.remove(f"{DIRECTORY}/{name}")
        again = opened(disk)
        assert again.start_offset == 8
        assert stable_offset(again) == again.end_offset == 12


def test_a_marker_that_only_the_journal_has_ends_its_transaction() -> None:
    node = JournaledNode("orders")
    log = node.logs["orders"]
    write(log, 0, b"a")
    write(log, 0, b"b", producer_id=2)
    end(log, 1, 0, ABORT)
    node.commit()
    node.cut_power()
    log = node.logs["orders"]
    assert log.recovery.put_back_bytes
    assert list(log.aborted.rows) == [AbortedTransaction(1, 1, 3, 2)]
    assert stable_offset(log) == 2


def passes(log: Log, now_ms: int, *, keeps_all_markers: bool = False) -> bool:
    compaction = Compaction.begin(
        log, bound_offset=stable_offset(log), now_ms=now_ms, keeps_all_markers=keeps_all_markers
    )
    if compaction is None:
        return False
    while not compaction.is_done:
        compaction.work()
        compaction.settle(now_ms)
    log.checkpoint()
    return True


def markers_in(log: Log) -> list[tuple[int, bool]]:
    """Offsets, and whether each has a time to go."""
    batches = [batch for data in contents(log).values() for batch in split(data)]
    return [(b.header.base_offset, has_delete_horizon(b.header)) for b in batches if marker_in(b) is not None]


def next_segment(log: Log, number: int) -> None:
    """There is something new to compact."""
    log.roll(NOW_MS)
    write(log, number, b"fill %d" % number, producer_id=9, is_transactional=False)
    log.roll(NOW_MS)
    write(log, number + 1, b"fill %d" % number, producer_id=9, is_transactional=False)
    log.checkpoint()


def test_compaction_keeps_a_marker_as_long_as_its_transaction_and_a_while_longer() -> None:
    disk = PowerCutDisk()
    log = opened(disk, COMPACTED)
    write(log, 0, b"first", producer_id=9, is_transactional=False)
    write(log, 0, b"k aborted")
    end(log, 1, 0, ABORT)
    write(log, 0, b"k old", producer_id=2)
    end(log, 2, 0, COMMIT)
    write(log, 1, b"k new", producer_id=9, is_transactional=False)
    next_segment(log, 2)
    assert passes(log, NOW_MS)
    # Their batches stay, empty, because they tell the sequences of producers that are still known.
    assert markers_in(log) == [(2, False), (4, False)]
    assert b"k aborted" not in values_in(log)
    log.expire_producers(NOW_MS + DAY_MS, 1)
    for number, expected in enumerate(
        [[(2, False), (4, False)], [(2, True), (4, True)], [(2, True), (4, True)], []], start=2
    ):
        next_segment(log, 2 * number)
        now_ms = NOW_MS + DAY_MS * (2 if not expected else 0)
        assert passes(log, now_ms)
        assert markers_in(log) == expected
        assert [row.last_offset for row in log.aborted.rows] == [offset for offset, _ in expected if offset == 2]
        log.expire_producers(NOW_MS + DAY_MS, 1)
    assert log.close() is None
    again = opened(disk, COMPACTED)
    assert not again.recovery.noteworthy
    assert values_in(again)[:2] == [b"first", b"k new"]


def test_a_replica_that_was_away_learns_how_its_transaction_ended_although_nothing_else_is_left_of_it() -> None:
    leader, follower = opened(settings=COMPACTED), opened(settings=COMPACTED)
    write(leader, 0, b"first", producer_id=9, is_transactional=False)
    write(leader, 0, b"k aborted")
    replicate(leader, follower)
    end(leader, 1, 1, ABORT, version=2)
    for number in range(1, 6):
        next_segment(leader, 2 * number - 1)
        leader.expire_producers(NOW_MS + DAY_MS, 1)
        passes(leader, NOW_MS + 2 * number * DAY_MS, keeps_all_markers=True)
    assert markers_in(leader) == [(2, False)]
    replicate(leader, follower)
    assert stable_offset(follower) == follower.end_offset == leader.end_offset
    assert b"k aborted" not in values_in(follower)


def replicate(leader: Log, follower: Log) -> None:
    while follower.end_offset < leader.end_offset:
        piece = leader.read(follower.end_offset, 2**20, upto=leader.end_offset, at_least_one=True)
        data = memoryview(bytearray(piece.load()))
        append_replicated(follower, data, received_batches(data), NOW_MS)


def test_a_transaction_whose_marker_was_compacted_is_not_open_after_truncation() -> None:
    """The snapshot of a segment that began before the marker says that it is."""
    disk = PowerCutDisk()
    # So large that neighbours are not merged.
    log = opened(disk, replace(COMPACTED, segment_bytes=1000))
    write(log, 0, b"first " + b"x" * 600, producer_id=9, is_transactional=False)
    write(log, 0, b"k aborted")
    # The first and the last batch of a segment stay.
    write(log, 1, b"edge", producer_id=9, is_transactional=False)
    log.roll(NOW_MS)
    write(log, 2, b"between " + b"x" * 600, producer_id=9, is_transactional=False)
    end(log, 1, 0, ABORT)
    write(log, 3, b"edge2", producer_id=9, is_transactional=False)
    for number in range(2, 6):
        next_segment(log, 2 * number)
        log.expire_producers(NOW_MS + DAY_MS, 1)
        passes(log, NOW_MS + 2 * number * DAY_MS)
    assert markers_in(log) == []
    for segment in log.segments[2:]:
        disk.remove(segment.path + ".snapshot")
    log.truncate_to(log.end_offset - 1)
    assert stable_offset(log) == log.end_offset


def test_an_open_transaction_is_not_compacted() -> None:
    log = opened(settings=COMPACTED)
    write(log, 0, b"k committed", producer_id=9, is_transactional=False)
    write(log, 0, b"k open")
    next_segment(log, 1)
    assert not passes(log, NOW_MS)
    end(log, 1, 0, ABORT)
    next_segment(log, 3)
    assert passes(log, NOW_MS)
    assert values_in(log)[0] == b"k committed"


def test_the_epoch_of_a_producer_that_only_a_marker_tells_survives_compaction() -> None:
    log = opened(settings=COMPACTED)
    write(log, 0, b"first", producer_id=9, is_transactional=False)
    write(log, 0, b"k")
    end(log, 1, 1, ABORT, version=2)
    for number in range(1, 9, 2):
        next_segment(log, number)
        passes(log, NOW_MS + 2 * number * DAY_MS)
    assert [offset for offset, _ in markers_in(log)] == [2]
