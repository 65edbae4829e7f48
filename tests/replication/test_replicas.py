"""What all partitions share: files of topics that come and go, and the time of the event loop."""

from __future__ import annotations

import asyncio
from functools import cache, partial
from uuid import UUID

import msgspec
import pytest
from tests.disk.power import PowerCutDisk
from tests.replication.world import DATA, WAIT_S, deleted, topic_id, values_in, world
from tests.storage.batches import NOW_MS

from penstock.config.log import LogSettings
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.housekeeping import RETENTION_MS, SWEEP_MS, Housekeeping
from penstock.replication.key_checks import MAX_COMPACTED_ELEMENTS
from penstock.replication.overtaking import MOST_PRODUCERS, NEW_FOR_MS, PATIENCE_MS
from penstock.replication.partition import Committed, Partition
from penstock.replication.replicas import Replicas
from penstock.storage.directories import PartitionDirectories
from penstock.storage.log import Appended
from penstock.units import HOUR_MS
from penstock.wire.records import Record, build_batch

COMPACTED = {"cleanup.policy": "compact"}
HEAVY = MAX_COMPACTED_ELEMENTS // 2 + 1
ZSTD = 4
CONFIG = {"retention.ms": str(HOUR_MS), "file.delete.delay.ms": "0"}
ANEW = UUID(int=7)


def test_a_deletion_that_was_begun_for_a_topic_does_not_meet_the_files_of_the_next_one_of_its_name() -> None:
    memory = PowerCutDisk()

    async def life() -> None:
        async with (
            asyncio.timeout(WAIT_S),
            world(memory) as node,
            Housekeeping(node.replicas, node.flusher, node.upkeep, node.clock).running(),
        ):
            partition = await node.partition(config=CONFIG)
            node.write(partition, b"old")
            await node.flusher.drained([partition])
            node.disk.removals_may_run.clear()
            node.clock.advance(HOUR_MS + RETENTION_MS + SWEEP_MS)
            while not any(path.endswith(".log") for path in node.disk.being_removed):
                await asyncio.sleep(0.001)

            async def make_anew() -> None:
                await node.replicas.drop_topic("orders")
                again = await node.partition(config=CONFIG, as_id=ANEW)
                node.write(again, b"new")
                await node.flusher.drained([again])

            making = asyncio.create_task(make_anew())
            # More than enough, if nothing made it wait for the deletion.
            await asyncio.wait({making}, timeout=0.2)
            node.disk.removals_may_run.set()
            await making

    async def look() -> None:
        async with world(memory) as node:
            assert values_in(await node.partition(config=CONFIG, as_id=ANEW)) == [b"new"]

    asyncio.run(life())
    asyncio.run(look())


def test_topics_come_and_go_while_files_of_deleted_ones_take_long() -> None:
    async def life() -> None:
        async with (
            world(PowerCutDisk()) as node,
            Housekeeping(node.replicas, node.flusher, node.upkeep, node.clock).running(),
        ):
            doomed = [f"doomed-{number}" for number in range(6)]
            for name in doomed:
                await node.partition(name)
            node.disk.directories_may_go.clear()
            async with asyncio.timeout(3):
                for name in doomed:
                    await node.replicas.drop_topic(name)
                    node.clock.advance(RETENTION_MS + SWEEP_MS)
                await node.partition("new")
            node.disk.directories_may_go.set()
            async with asyncio.timeout(WAIT_S):
                while node.disk.list_directory(f"{DATA}/deleted"):
                    await asyncio.sleep(0.001)

    asyncio.run(life())


def test_a_bug_that_one_deadline_meets_is_not_for_those_behind_it() -> None:
    def meet_a_bug(_: Later[Committed]) -> None:
        raise ZeroDivisionError("a bug")

    async def life() -> None:
        async with (
            asyncio.timeout(WAIT_S),
            world(PowerCutDisk()) as node,
            Housekeeping(node.replicas, node.flusher, node.upkeep, node.clock).running(),
        ):
            partitions = [await node.partition(topic) for topic in ("one", "two")]
            deadline_ms = node.clock.now_ms() + SWEEP_MS
            first, *others = [partition.when_committed(1, deadline_ms) for partition in partitions for _ in range(2)]
            first.when_done(meet_a_bug)
            with pytest.raises(ZeroDivisionError):
                node.clock.advance(2 * SWEEP_MS)
            for answer in others:
                refused = await answer.wait()
                assert refused is not None and refused.problem is Problem.REQUEST_TIMED_OUT

    asyncio.run(life())


def light(key: bytes | None = b"k") -> memoryview:
    return memoryview(build_batch([Record(0, NOW_MS, key, b"x")]))


def heavy(sequence: int = -1) -> memoryview:
    """Two of them are too much for one turn of the loop."""
    return memoryview(bytearray(_heavy(sequence)))


@cache
def _heavy(sequence: int) -> bytes:
    records = [Record(place, NOW_MS, b"k", None) for place in range(HEAVY)]
    producer_id, epoch = (7, 0) if sequence >= 0 else (-1, -1)
    return bytes(
        build_batch(records, compression=ZSTD, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def test_a_sender_gets_so_much_looked_at_in_one_turn_and_the_rest_in_the_next_ones() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition, plain = await node.partition(config=COMPACTED), await node.partition("plain")

            def send(batch: memoryview, sender: object = "first") -> Problem | None:
                result = node.replicas.append(partition, batch, sender)
                return result.problem if isinstance(result, Refused) else None

            assert [send(heavy()) for _ in range(3)] == [None, Problem.BUSY, Problem.BUSY]
            assert send(heavy(), "second") is None
            assert not isinstance(node.replicas.append(plain, heavy(), "first"), Refused), "nobody looks into it"
            await asyncio.sleep(0)
            assert [send(heavy()) for _ in range(2)] == [None, Problem.BUSY]
            await asyncio.sleep(0)
            assert [send(light()) for _ in range(100)] == [None] * 100
            await asyncio.sleep(0)
            assert [send(light(key)) for key in (None, b"k")] == [Problem.INVALID_RECORD, Problem.BUSY]
            await asyncio.sleep(0)
            assert send(light()) is None

    asyncio.run(life())


def test_what_had_to_wait_for_the_next_turn_is_not_overtaken() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition, other = await node.partition(config=COMPACTED), await node.partition("other", COMPACTED)

            def send(batch: memoryview) -> Problem | None:
                result = node.replicas.append(partition, batch, "sender")
                return result.problem if isinstance(result, Refused) else None

            assert not isinstance(node.replicas.append(other, heavy(), "sender"), Refused)
            assert [send(heavy(0)), send(heavy(HEAVY))] == [Problem.BUSY, Problem.BUSY]
            for sequence in (2 * HEAVY, HEAVY):
                await asyncio.sleep(0)
                assert send(heavy(sequence)) is Problem.EARLIER_BATCH_MISSING
            for sequence in (0, HEAVY):
                await asyncio.sleep(0)
                assert send(heavy(sequence)) is None

    asyncio.run(life())


def test_a_first_batch_that_too_few_replicas_refused_is_not_overtaken() -> None:
    def numbered(sequence: int) -> memoryview:
        record = Record(0, 0, None, b"x")
        return memoryview(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence))

    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition(config={"message.timestamp.type": "LogAppendTime"})
            state, version = partition.state, partition.version
            short = msgspec.structs.replace(state, replicas=(1, 2), min_insync_replicas=2)
            node.replicas.roles.learn(partition, short, version + 1)
            first = node.replicas.append(partition, numbered(0), for_all=True)
            assert isinstance(first, Refused) and first.problem is Problem.NOT_ENOUGH_REPLICAS
            node.replicas.roles.learn(partition, state, version + 2)
            overtaking = node.replicas.append(partition, numbered(1), for_all=True)
            assert isinstance(overtaking, Refused) and overtaking.problem is Problem.EARLIER_BATCH_MISSING
            for sequence in (0, 1):
                assert isinstance(node.replicas.append(partition, numbered(sequence), for_all=True), Appended)

    asyncio.run(life())


def sent(replicas: Replicas, partition: Partition, sequence: int, producer_id: int = 7) -> Problem | None:
    """What became of a batch of an idempotent producer."""
    record = Record(0, 0, None, b"x")
    batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    result = replicas.append(partition, memoryview(batch))
    return result.problem if isinstance(result, Refused) else None


def test_a_batch_that_overtakes_is_to_be_sent_again_before_its_producer_is_told_of_a_gap() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition(config={"message.timestamp.type": "LogAppendTime"})

            send = partial(sent, node.replicas, partition)
            assert send(0) is None
            for expected in (1, 2):
                assert send(expected + 1) is Problem.EARLIER_BATCH_MISSING
                node.clock.advance(PATIENCE_MS // 2)
                assert send(expected + 1) is Problem.EARLIER_BATCH_MISSING
                assert send(expected) is None
            assert send(4) is Problem.EARLIER_BATCH_MISSING
            for producer_id in range(100, 100 + MOST_PRODUCERS - 1):
                assert send(0, producer_id) is None
                assert send(2, producer_id) is Problem.EARLIER_BATCH_MISSING
            node.clock.advance(PATIENCE_MS)
            assert send(4) is Problem.OUT_OF_ORDER_SEQUENCE
            assert send(3) is None

    asyncio.run(life())


def test_a_first_batch_that_came_before_the_broker_led_is_not_overtaken() -> None:
    async def life() -> None:
        async with world(PowerCutDisk()) as node:
            partition = await node.partition(config={"message.timestamp.type": "LogAppendTime"})

            send = partial(sent, node.replicas, partition)
            node.clock.advance(NEW_FOR_MS)
            assert send(17, producer_id=1) is None, "it has expired, say"
            node.replicas.roles.close(partition)
            assert send(0) is Problem.NOT_LEADER
            state, version = partition.state, partition.version
            node.replicas.roles.learn(partition, msgspec.structs.replace(state, leader_epoch=1), version + 1)
            assert send(1) is Problem.EARLIER_BATCH_MISSING
            assert [send(0), send(1), send(18, producer_id=1)] == [None, None, None]
            assert [send(6, producer_id=2), send(5, producer_id=2)] == [Problem.EARLIER_BATCH_MISSING] * 2
            node.clock.advance(NEW_FOR_MS)
            assert send(6, producer_id=2) is Problem.EARLIER_BATCH_MISSING
            assert [send(5, producer_id=2), send(6, producer_id=2)] == [None, None]

    asyncio.run(life())


def test_the_start_of_a_log_does_not_move_when_another_has_begun_to_lead_it_meanwhile() -> None:
    """It may be truncated by then, to before that start."""

    async def scenario() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            partition = await node.partition()
            for _ in range(4):
                node.write(partition, b"a")
            await node.flusher.drained([partition])
            node.disk.syncs_may_run.clear()
            deleting = asyncio.create_task(deleted(node.replicas, "orders", 3))
            while not node.disk.being_synced:
                await asyncio.sleep(0)
            node.replicas.roles.close(partition)
            node.disk.syncs_may_run.set()
            refused = await deleting
            assert isinstance(refused, Refused) and refused.problem is Problem.NOT_LEADER
            assert partition.log.start_offset == 0

    asyncio.run(scenario())


def test_a_topic_that_acknowledges_unsynced_is_known_before_it_does() -> None:
    """Whatever its policy is by the time that somebody asks."""

    async def life() -> None:
        memory = PowerCutDisk()
        async with asyncio.timeout(WAIT_S), world(memory, LogSettings(flush_policy="acked")) as node:
            await node.partition("first", {"flush.policy": "os"})
            await node.partition("first", {"flush.policy": "acked"})
            await node.partition("later", {"flush.policy": "acked"})
            await node.partition("never")
            directories = PartitionDirectories(memory, DATA)
            assert directories.unsynced_topics() == [topic_id("first")]
            await node.partition("later", {"flush.policy": "os"})
            assert directories.unsynced_topics() == [topic_id("first"), topic_id("later")]

    asyncio.run(life())
