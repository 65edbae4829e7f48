"""What Fetch, ListOffsets and DescribeProducers say of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64
from tests.bad_input.requests import timeout
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world
from tests.storage.transaction_model import data_batch

from penstock.broker.api import Caller, Part
from penstock.broker.apis.describe_producers import DescribeProducers
from penstock.broker.apis.fetch import ENOUGH_BYTES, Fetch
from penstock.broker.apis.list_offsets import ListOffsets
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.fetch_usage import FetchUsage
from penstock.broker.reply_memory import ReplyMemory
from penstock.clock import SteppedClock
from penstock.cluster.core.image import Image
from penstock.config.replication import ReplicationSettings
from penstock.config.topic_replication import TopicReplicationSettings
from penstock.later import Later
from penstock.replication.move_throttles import MoveThrottles, Side
from penstock.replication.partition import Partition
from penstock.replication.transaction_markers import append_marker
from penstock.storage.compaction import Compaction
from penstock.storage.log import Appended
from penstock.telemetry.usage import Usage
from penstock.units import DAY_MS, MIB, SECOND_MS
from penstock.wire.batch import read_header
from penstock.wire.fetch import CONSUMER, READ_COMMITTED, FetchRequest, PartitionFetch, TopicFetch
from penstock.wire.fetched import AbortedTransaction, FetchResponse, PartitionFetched

READ_UNCOMMITTED = 0
OS = {"flush.policy": "os"}
COMPACTED = {
    **OS,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}
CALLER = Caller("client", "here", 9092)


def run(life: Callable[[World, Partition], Awaitable[None]], config: dict[str, str] = OS) -> None:
    async def whole_life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node:
            await life(node, await node.partition("orders", config))

    asyncio.run(whole_life())


def write(partition: Partition, producer_id: int, sequence: int, size_bytes: int = 1) -> Appended:
    batch = data_batch([(b"k", bytes(size_bytes))], producer_id, 0, sequence, is_transactional=True)
    return partition.append(batch, read_header(batch), SteppedClock().now_ms())


def end(node: World, partition: Partition, producer_id: int, *, commit: bool) -> None:
    now_ms = node.clock.now_ms()
    ended = append_marker(node.replicas, partition, producer_id, 0, 5, commit=commit, version=1, now_ms=now_ms)
    assert isinstance(ended, Appended)


def fetcher(node: World) -> Fetch:
    image = Image("cluster", 1, [])
    throttles = MoveThrottles(image, ReplicationSettings(), TopicReplicationSettings(), Side.LEADER)
    usage = FetchUsage(Usage(10).of_api("Fetch"))
    return Fetch(node.replicas, image, FetchSessions(), ReplyMemory(100 * MIB), throttles, usage, node.pool, node.clock)


def request(offset: int, isolation_level: int, *, max_wait_ms: int = 0, max_bytes: int = MIB) -> FetchRequest:
    row = PartitionFetch(0, 0, offset, -1, -1, max_bytes)
    topics = [TopicFetch("", topic_id("orders"), [row])]
    return FetchRequest(CONSUMER, -1, max_wait_ms, 1, max_bytes, isolation_level, 0, -1, topics, [], "", None)


def answer_in(response: FetchResponse | Later[FetchResponse]) -> PartitionFetched:
    if isinstance(response, Later):
        response = response.result()
    return response.topics[0].partitions[0]


def base_offsets(records: Iterable[Part]) -> list[int]:
    data, position, found = b"".join(map(bytes, records)), 0, []
    while position < len(data):
        header = read_header(data, position)
        found.append(header.base_offset)
        position += header.size
    return found


def test_a_fetch_reads_to_the_last_stable_offset_and_names_what_was_aborted() -> None:
    async def life(node: World, partition: Partition) -> None:
        fetch = fetcher(node)
        write(partition, 1, 0)
        write(partition, 2, 0)
        end(node, partition, 1, commit=False)
        write(partition, 3, 0)
        end(node, partition, 2, commit=True)
        everything = answer_in(fetch.start(request(0, READ_UNCOMMITTED), CALLER))
        assert base_offsets(everything.records) == [0, 1, 2, 3, 4]
        assert (everything.high_watermark, everything.last_stable_offset) == (5, 3)
        assert everything.aborted_transactions is None
        committed = answer_in(fetch.start(request(0, READ_COMMITTED), CALLER))
        assert base_offsets(committed.records) == [0, 1, 2]
        assert (committed.high_watermark, committed.last_stable_offset) == (5, 3)
        assert committed.aborted_transactions == [AbortedTransaction(1, 0)]
        behind = answer_in(fetch.start(request(3, READ_COMMITTED), CALLER))
        assert (list(behind.records), behind.aborted_transactions, behind.last_stable_offset) == ([], [], 3)

    run(life)


def test_an_answer_that_is_cut_names_what_was_aborted_in_it_and_nothing_behind_it() -> None:
    async def life(node: World, partition: Partition) -> None:
        fetch = fetcher(node)
        write(partition, 1, 0)
        end(node, partition, 1, commit=False)
        for sequence in range(3):
            write(partition, 2, sequence, ENOUGH_BYTES * 2 // 5)
        end(node, partition, 2, commit=False)
        write(partition, 3, 0)
        end(node, partition, 3, commit=False)
        first = answer_in(fetch.start(request(0, READ_COMMITTED, max_bytes=50 * MIB), CALLER))
        assert base_offsets(first.records) == [0, 1, 2, 3]
        assert first.aborted_transactions == [AbortedTransaction(1, 0), AbortedTransaction(2, 2)]
        second = answer_in(fetch.start(request(4, READ_COMMITTED, max_bytes=50 * MIB), CALLER))
        assert base_offsets(second.records) == [4, 5, 6, 7]
        assert second.aborted_transactions == [AbortedTransaction(2, 2), AbortedTransaction(3, 6)]

    run(life)


def test_a_fetch_of_what_is_not_stable_yet_waits_for_the_end_of_the_transaction() -> None:
    async def life(node: World, partition: Partition) -> None:
        fetch = fetcher(node)
        write(partition, 1, 0)
        waiting = fetch.start(request(0, READ_COMMITTED, max_wait_ms=10 * SECOND_MS), CALLER)
        assert isinstance(waiting, Later)
        write(partition, 1, 1)
        node.write(partition, b"of no transaction")
        assert not waiting.done
        end(node, partition, 1, commit=True)
        assert waiting.done
        assert base_offsets(answer_in(waiting).records) == [0, 1, 2, 3]

    run(life)


def test_what_was_aborted_is_known_also_if_a_cold_read_takes_long() -> None:
    async def life(node: World, partition: Partition) -> None:
        fetch = fetcher(node)
        write(partition, 1, 0)
        end(node, partition, 1, commit=False)
        partition.log.roll(node.clock.now_ms())
        node.write(partition, b"in another segment")
        partition.log.checkpoint()
        partition.log.segments[0].release()
        loading = fetch.start(request(0, READ_COMMITTED), CALLER)
        assert isinstance(loading, Later) and not loading.done
        # As compaction does when nothing of it is left.
        partition.log.aborted.rows.drop({1})
        while not loading.done:
            await asyncio.sleep(0)
        assert answer_in(loading).aborted_transactions == [AbortedTransaction(1, 0)]

    run(life)


def test_a_cold_read_does_not_go_on_where_compaction_has_taken_a_marker_meanwhile() -> None:
    """Told of the transaction, a client would wait for that marker, and leave out what its producer committed."""

    async def life(node: World, partition: Partition) -> None:
        log, now_ms = partition.log, node.clock.now_ms()
        node.write(partition, b"of no transaction")
        write(partition, 1, 0)
        node.write(partition, b"of no transaction")
        log.roll(now_ms)
        node.write(partition, b"of no transaction")
        end(node, partition, 1, commit=False)
        write(partition, 1, 1)
        end(node, partition, 1, commit=True)
        node.write(partition, b"of no transaction")
        log.roll(now_ms)
        log.checkpoint()
        log.expire_producers(now_ms + 2 * DAY_MS, DAY_MS)
        log.segments[0].release()
        loading = fetcher(node).start(request(0, READ_COMMITTED), CALLER)
        assert isinstance(loading, Later) and not loading.done
        for _ in range(3):
            log.clean_offset = 0
            compaction = Compaction.begin(log, bound_offset=log.end_offset, now_ms=now_ms)
            assert compaction is not None
            while not compaction.is_done:
                compaction.work()
                compaction.settle(now_ms)
        assert not log.aborted.rows
        while not loading.done:
            await asyncio.sleep(0)
        first = answer_in(loading)
        assert (base_offsets(first.records), first.aborted_transactions) == ([0, 1, 2], [AbortedTransaction(1, 1)])
        second = fetcher(node).start(request(3, READ_COMMITTED), CALLER)
        while isinstance(second, Later) and not second.done:
            await asyncio.sleep(0)
        assert base_offsets(answer_in(second).records)[:2] == [5, 6]
        assert answer_in(second).aborted_transactions == []

    run(life, COMPACTED)


def test_a_cold_read_does_not_go_on_in_what_was_written_after_the_log_was_cut_meanwhile() -> None:
    """What was stable was so of the records that are gone."""

    async def life(node: World, partition: Partition) -> None:
        node.write(partition, b"stays")
        partition.log.roll(node.clock.now_ms())
        node.write(partition, b"goes")
        partition.log.checkpoint()
        partition.log.segments[0].release()
        loading = fetcher(node).start(request(0, READ_COMMITTED), CALLER)
        assert isinstance(loading, Later) and not loading.done
        partition.log.truncate_to(1)
        write(partition, 1, 0)
        while not loading.done:
            await asyncio.sleep(0)
        assert base_offsets(answer_in(loading).records) == [0]

    run(life)


def test_the_next_offset_for_readers_of_committed_records_is_the_last_stable_one() -> None:
    async def life(node: World, partition: Partition) -> None:
        node.write(partition, b"first")
        write(partition, 1, 0)
        handler = ListOffsets(node.replicas, node.pool)
        found = []
        for isolation_level in (READ_UNCOMMITTED, READ_COMMITTED):
            row = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(-1))
            answer = handler.start(
                ListOffsetsRequest(
                    replica_id=BrokerId(-1),
                    isolation_level=i8(isolation_level),
                    topics=(ListOffsetsTopic(name=TopicName("orders"), partitions=(row,)),),
                    timeout=timeout(0),
                ),
                CALLER,
            )
            while not answer.done:
                await asyncio.sleep(0)
            found.append(answer.result().topics[0].partitions[0].offset)
        assert found == [2, 1]

    run(life)


def test_producers_are_described_with_their_transactions() -> None:
    async def life(node: World, partition: Partition) -> None:
        node.write(partition, b"first")
        write(partition, 1, 0)
        write(partition, 2, 0)
        end(node, partition, 2, commit=True)
        # Whoever asks again and again is told once.
        topic = TopicRequest(name=TopicName("orders"), partition_indexes=(i32(0), i32(0)))
        answer = DescribeProducers(node.replicas).start(DescribeProducersRequest(topics=(topic, topic)), CALLER)
        ((row,),) = (each.partitions for each in answer.topics)
        assert {
            each.producer_id: (each.current_txn_start_offset, each.coordinator_epoch) for each in row.active_producers
        } == {1: (1, -1), 2: (-1, 5)}

    run(life)
