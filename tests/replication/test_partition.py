"""What of a partition is committed, and who waits for it."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.cluster_stand_in import NoController, NoFetchers
from tests.storage.batches import NOW_MS, batch_of, headers_in, sync

from penstock.clock import SystemClock
from penstock.cluster.core.image import BrokerImage, Image
from penstock.config.log import LogSettings
from penstock.config.replication import ReplicationSettings
from penstock.coordination.paths import PartitionState
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.partition import Partition
from penstock.replication.roles import Roles
from penstock.storage.log import Log
from penstock.wire.batch import read_header

ACKED, OS = LogSettings(flush_policy="acked"), LogSettings(flush_policy="os")


def partition_of(settings: LogSettings, disk: PowerCutDisk | None = None) -> Partition:
    """Alone, as its leader."""
    log = Log.open(disk or PowerCutDisk(), "/log", settings, now_ms=NOW_MS)
    partition = Partition(1, "orders", UUID(int=1), 0, log)
    image = Image("cluster", 1, [BrokerImage(1, "", 0, None)])
    roles = Roles(image, NoController(), NoFetchers(), ReplicationSettings(), SystemClock())
    roles.learn(partition, PartitionState(leader=1, leader_epoch=0, isr=(1,), replicas=(1,)), version=0)
    return partition


def append(partition: Partition, *values: bytes) -> int:
    """The offset behind it."""
    batch = batch_of(*values)
    return partition.append(batch, read_header(batch), NOW_MS).next_offset


def sync_all(partition: Partition) -> None:
    sync(partition.log)
    partition.on_durable(NOW_MS)


def shown(partition: Partition) -> int:
    """How many records a reader gets."""
    data = bytes(partition.read(0, 2**20, at_least_one=True).load())
    return sum(header.record_count for header in headers_in(data))


def test_with_acked_what_is_synced_is_committed() -> None:
    partition = partition_of(ACKED)
    end = append(partition, b"a", b"b")
    committed = partition.when_committed(end)
    assert (partition.high_watermark, committed.done, shown(partition)) == (0, False, 0)
    sync_all(partition)
    assert (partition.high_watermark, committed.result(), shown(partition)) == (2, None, 2)


def test_with_os_what_is_written_is_committed() -> None:
    partition = partition_of(OS)
    end = append(partition, b"a", b"b")
    assert (partition.high_watermark, partition.when_committed(end).result(), shown(partition)) == (2, None, 2)


def test_each_waiter_waits_for_its_own_offset_and_they_come_in_order() -> None:
    partition = partition_of(ACKED)
    order: list[int] = []
    first, second = append(partition, b"a"), append(partition, b"b")
    ticket = partition.log.begin_sync()
    third = append(partition, b"c")
    for offset in (first, second, third):
        partition.when_committed(offset).when_done(lambda _, offset=offset: order.append(offset))  # type: ignore[misc]
    assert ticket is not None
    ticket.run()
    partition.log.finish_sync(ticket)
    partition.on_durable(NOW_MS)
    assert order == [first, second]
    sync_all(partition)
    assert order == [first, second, third]
    assert partition.when_committed(first).done


def test_a_waiter_is_told_when_its_time_is_over_and_the_others_wait_on() -> None:
    partition = partition_of(ACKED)
    end = append(partition, b"a")
    early, late = partition.when_committed(end, NOW_MS + 10), partition.when_committed(end, NOW_MS + 20)
    partition.expire(NOW_MS + 9)
    assert not early.done
    partition.expire(NOW_MS + 10)
    refused = early.result()
    assert isinstance(refused, Refused) and refused.problem is Problem.REQUEST_TIMED_OUT
    assert not late.done
    sync_all(partition)
    assert late.result() is None


def test_nobody_waits_for_a_partition_that_stopped() -> None:
    partition = partition_of(ACKED)
    end = append(partition, b"a")
    waiting = partition.when_committed(end)
    woken: list[int | None] = []
    partition.watch("reader", woken.append)
    partition.stop(Problem.NOT_LEADER, "moved away")
    for answer in (waiting.result(), partition.when_committed(end).result()):
        assert answer == Refused(Problem.NOT_LEADER, "moved away")
    assert woken == [None]
    with pytest.raises(PenstockError, match="moved away"):
        append(partition, b"b")
    assert partition.log.end_offset == 1


def test_a_watcher_hears_of_what_became_readable_until_it_goes() -> None:
    partition = partition_of(ACKED)
    heard: list[int | None] = []
    partition.watch("reader", heard.append)
    append(partition, b"a" * 100)
    assert heard == []
    sync_all(partition)
    assert len(heard) == 1 and (heard[0] or 0) > 100
    partition.unwatch("reader")
    append(partition, b"b")
    sync_all(partition)
    assert len(heard) == 1


def test_what_comes_during_a_sync_is_readable_with_the_next_one_and_counted_there() -> None:
    partition = partition_of(ACKED)
    heard: list[int | None] = []
    partition.watch("reader", heard.append)
    append(partition, b"a" * 100)
    ticket = partition.log.begin_sync()
    assert ticket is not None
    append(partition, b"b" * 5000)
    ticket.run()
    partition.log.finish_sync(ticket)
    partition.on_durable(NOW_MS)
    sync_all(partition)
    first, second = heard
    assert 100 < (first or 0) < 1000
    assert (second or 0) > 5000


def test_a_change_to_os_commits_what_is_written_and_back_again_takes_nothing_back() -> None:
    partition = partition_of(ACKED)
    waiting = partition.when_committed(append(partition, b"a"))
    partition.log.settings = OS
    partition.on_settings_changed(NOW_MS)
    assert (partition.high_watermark, waiting.result()) == (1, None)
    append(partition, b"b")
    partition.log.settings = ACKED
    partition.on_settings_changed(NOW_MS)
    assert partition.high_watermark == 2
    append(partition, b"c")
    assert partition.high_watermark == 2


def test_what_a_restart_finds_is_committed() -> None:
    disk = PowerCutDisk()
    partition = partition_of(ACKED, disk)
    append(partition, b"a", b"b", b"c")
    partition.log.close()
    assert partition_of(ACKED, disk).high_watermark == 3
