"""Transactions in a partition that this broker leads: what they hold back, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from tests.disk.power import PowerCutDisk
from tests.replication.cluster_stand_in import NoController, NoFetchers
from tests.replication.world import WAIT_S, World, world
from tests.storage.batches import NOW_MS, bytes_at
from tests.storage.transaction_model import data_batch
from tests.storage.transaction_model import end as end_in_log

from penstock.clock import SystemClock
from penstock.cluster.core.image import Image
from penstock.config.log import LogSettings
from penstock.config.replication import ReplicationSettings
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.replication.offsets import EARLIEST, LATEST, find_offset
from penstock.replication.partition import Partition
from penstock.replication.roles import Roles
from penstock.replication.transaction_markers import append_marker, has_open_transaction
from penstock.storage.core.aborted import AbortedTransaction
from penstock.storage.log import Appended, Log
from penstock.storage.replica_append import append_replicated
from penstock.wire.batch import read_header
from penstock.wire.control import Marker
from penstock.wire.received_batches import received_batches

ACKED, OS = {"flush.policy": "acked"}, {"flush.policy": "os"}


def run(life: Callable[[World], Awaitable[None]]) -> None:
    async def whole_life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            await life(node)

    asyncio.run(whole_life())


def write(partition: Partition, sequence: int, value: bytes = b"x", *, epoch: int = 0, now_ms: int = 0) -> Appended:
    batch = data_batch([(b"k", value)], 1, epoch, sequence, is_transactional=True)
    return partition.append(batch, read_header(batch), now_ms)


def end(node: World, partition: Partition, epoch: int = 0, *, coordinator_epoch: int = 0) -> Appended | Refused:
    return append_marker(
        node.replicas,
        partition,
        1,
        epoch,
        coordinator_epoch,
        commit=True,
        version=1,
        now_ms=node.clock.now_ms(),
    )


def test_a_marker_counts_when_it_is_committed() -> None:
    async def life(node: World) -> None:
        partition = await node.partition("orders", ACKED)
        write(partition, 0)
        assert has_open_transaction(partition, 1, 0)
        assert not has_open_transaction(partition, 1, 1)
        ended = end(node, partition)
        assert isinstance(ended, Appended)
        assert not has_open_transaction(partition, 1, 0)
        committed = partition.when_committed(ended.next_offset)
        assert (committed.done, partition.last_stable_offset) == (False, 0)
        while not committed.done:
            await asyncio.sleep(0)
        assert (committed.result(), partition.last_stable_offset, partition.high_watermark) == (None, 2, 2)

    run(life)


def test_what_is_late_is_refused_and_changes_nothing() -> None:
    async def life(node: World) -> None:
        partition = await node.partition("orders", OS)
        write(partition, 0, epoch=3)
        assert isinstance(end(node, partition, epoch=4, coordinator_epoch=2), Appended)
        before = partition.log.end_offset
        for epoch, coordinator_epoch, problem in (
            (3, 2, Problem.INVALID_PRODUCER_EPOCH),
            (4, 1, Problem.TRANSACTION_COORDINATOR_FENCED),
        ):
            refused = end(node, partition, epoch, coordinator_epoch=coordinator_epoch)
            assert isinstance(refused, Refused) and refused.problem is problem
        partition.hand_over.begin()
        refused = end(node, partition, 4, coordinator_epoch=2)
        assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER, "others lead soon"
        partition.hand_over.end()
        partition.lacks_replicas = True
        refused = end(node, partition, 4, coordinator_epoch=2)
        assert isinstance(refused, Refused) and refused.problem is Problem.NOT_ENOUGH_REPLICAS
        partition.let_go(Refused(Problem.NOT_LEADER, "another leads"))
        refused = end(node, partition, 3)
        assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER
        assert partition.log.end_offset == before

    run(life)


def test_readers_of_committed_records_are_told_when_there_is_something_for_them() -> None:
    async def life(node: World) -> None:
        partition = await node.partition("orders", OS)
        told: dict[str, list[int | None]] = {"all": [], "stable": []}
        partition.watch("all", told["all"].append)
        partition.watch("stable", told["stable"].append, stable=True)
        node.write(partition, b"of no transaction")
        assert (len(told["all"]), len(told["stable"])) == (1, 1)
        first = write(partition, 0, b"large" * 100)
        node.write(partition, b"behind it")
        assert (len(told["all"]), len(told["stable"])) == (3, 1)
        assert partition.last_stable_offset == first.base_offset
        end(node, partition)
        assert told["stable"][1:] == [sum(each or 0 for each in told["all"][1:])]
        partition.let_go(Refused(Problem.NOT_LEADER, "another leads"))
        assert told["stable"][2:] == [None]
        partition.unwatch("stable")

    run(life)


def test_offsets_for_readers_of_committed_records() -> None:
    async def life(node: World) -> None:
        partition = await node.partition("orders", OS)
        began_ms = node.clock.now_ms()
        node.write(partition, b"first")
        write(partition, 0)
        node.write(partition, b"last")

        async def find(timestamp: int, *, reads_committed: bool) -> int:
            found = await find_offset(partition, timestamp, node.pool, reads_committed=reads_committed)
            assert not isinstance(found, Refused)
            return found.offset

        written_ms = node.clock.now_ms()
        for reads_committed, latest in ((False, 3), (True, 1)):
            assert await find(LATEST, reads_committed=reads_committed) == latest
            assert await find(EARLIEST, reads_committed=reads_committed) == 0
            assert await find(began_ms, reads_committed=reads_committed) == 0
        node.clock.advance(1000)
        node.write(partition, b"later")
        assert await find(written_ms + 1, reads_committed=False) == 3
        assert await find(written_ms + 1, reads_committed=True) == -1
        # Retention does not wait for a transaction.
        partition.log.delete_records(2)
        assert partition.last_stable_offset == 2

    run(life)


def test_a_follower_holds_back_as_much_as_its_leader() -> None:
    """Consumers near it read from it."""
    leading = Log.open(PowerCutDisk(), "/leader", LogSettings(), now_ms=NOW_MS)
    batch = data_batch([(b"k", b"x")], 1, 0, 0, is_transactional=True)
    leading.append(batch, read_header(batch), leader_epoch=0, now_ms=NOW_MS)
    end_in_log(leading, 1, 0, Marker(False, 3))
    log = Log.open(PowerCutDisk(), "/follower", LogSettings(flush_policy="os"), now_ms=NOW_MS)
    partition = Partition(1, "orders", UUID(int=1), 0, log)
    roles = Roles(Image("cluster", 1, []), NoController(), NoFetchers(), ReplicationSettings(), SystemClock())
    roles.learn(partition, PartitionState(leader=2, leader_epoch=0, isr=(1, 2), replicas=(1, 2)), version=0)
    assert partition.following is not None
    data = memoryview(bytes_at(leading, 0))
    append_replicated(log, data, received_batches(data), NOW_MS)
    told: list[int | None] = []
    partition.watch("reader", told.append, stable=True)
    for high_watermark, stable_offset in ((1, 0), (2, 2)):
        partition.following.high_watermark = high_watermark
        partition.learn_high_watermark()
        assert (partition.last_stable_offset, len(told)) == (stable_offset, stable_offset // 2)
    assert list(log.aborted.rows) == list(leading.aborted.rows) == [AbortedTransaction(1, 0, 1, 2)]
