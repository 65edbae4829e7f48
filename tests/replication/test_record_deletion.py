"""Records that somebody wants gone, and those who have to hear of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from tests.bad_input.requests import timeout
from tests.replication.brokers import SETTINGS, Cluster, cluster_of, led_by
from tests.replication.world import deleted

from penstock.broker.api import Caller
from penstock.broker.apis.delete_records import DeleteRecords
from penstock.config.log import LogSettings
from penstock.errors import Problem, Refused

OS = LogSettings(flush_policy="os")
WAIT_MS = 10_000


def run(
    count: int, use: Callable[[Cluster], Coroutine[object, object, None]], log_settings: LogSettings | None = None
) -> None:
    async def life() -> None:
        async with cluster_of(count, SETTINGS, log_settings) as cluster:
            await use(cluster)

    asyncio.run(life())


def test_what_is_deleted_at_the_leader_is_deleted_everywhere() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        assert await cluster[1].write(b"a", b"b").wait() is None
        assert await cluster[1].write(b"c").wait() is None
        assert await deleted(cluster[1].replicas, "orders", 2, WAIT_MS) == 2
        assert cluster[2].partition.log.start_offset == 2
        cluster[2].cut_off(1)
        refused = await deleted(cluster[1].replicas, "orders", 3, 1)
        assert isinstance(refused, Refused) and refused.problem is Problem.REQUEST_TIMED_OUT

    run(2, use)


def test_a_second_deletion_is_not_missed_while_a_follower_writes_down_the_first() -> None:
    async def use(cluster: Cluster) -> None:
        await cluster.decide(led_by(1, 1, 2))
        for value in (b"a", b"b", b"c"):
            assert await cluster[1].write(value).wait() is None
        await cluster.until(lambda: cluster[2].partition.high_watermark == 3)
        disk = cluster[2].disk
        disk.syncs_may_run.clear()
        first = asyncio.create_task(deleted(cluster[1].replicas, "orders", 1, WAIT_MS))
        await cluster.until(lambda: any("start-offset" in path for path in disk.being_synced))
        second = asyncio.create_task(deleted(cluster[1].replicas, "orders", 2, WAIT_MS))
        await cluster.until(lambda: cluster[1].partition.log.start_offset == 2)
        assert await cluster[1].write(b"d").wait() is None
        # It has heard of the second with this, and will not be told again.
        await cluster.until(lambda: cluster[2].partition.high_watermark == 4)
        disk.syncs_may_run.set()
        assert await first in (1, 2) and await second == 2

    run(2, use, OS)


def test_who_deletes_from_many_partitions_waits_for_a_follower_once() -> None:
    async def use(cluster: Cluster) -> None:
        for partition in range(4):
            await cluster.decide(led_by(1, 1, 2), partition)
            assert await cluster[1].write(b"a", partition=partition).wait() is None
        cluster[2].cut_off(1)
        topic = DeleteRecordsTopic(
            name=TopicName("orders"),
            partitions=tuple(DeleteRecordsPartition(partition_index=i32(i), offset=i64(1)) for i in range(4)),
        )
        request = DeleteRecordsRequest(topics=(topic,), timeout=timeout(500))
        async with asyncio.timeout(1.5):
            answer = (
                await DeleteRecords(cluster[1].replicas.deletion).start(request, Caller("client", "broker", 0)).wait()
            )
        codes = [row.error_code for topic in answer.topics for row in topic.partitions]
        assert codes == [ErrorCode.request_timed_out] * 4

    run(2, use, OS)
