"""Clients at brokers that do not lead: told who does, or served because they are near (KIP-951, KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

from kio.schema.errors import ErrorCode
from tests.replication.brokers import TOPIC_ID, Broker, Cluster, cluster_of, led_by
from tests.storage.batches import headers_in

from penstock.broker.api import Caller
from penstock.broker.apis.produce import Produce
from penstock.broker.current_leaders import CurrentLeaders
from penstock.replication.verification import Coordinators, Verification
from penstock.rpc.core.call import fetch_call
from penstock.rpc.peers import Peers, Purpose
from penstock.telemetry.usage import Usage
from penstock.wire.fetch import CONSUMER, FetchRequest, PartitionFetch, TopicFetch
from penstock.wire.fetch_answer import FetchAnswer
from penstock.wire.produce_request import OneBatch
from penstock.wire.produced import ProduceResponse
from penstock.wire.records import Record, build_batch

EAST, WEST = "east", "west"


class Answered:
    def __init__(self, answer: FetchAnswer) -> None:
        ((row,),) = [topic.partitions for topic in answer.topics]
        self.error_code = row.error_code
        self.preferred = row.preferred_read_replica
        self.high_watermark = row.high_watermark
        self.current_leader = row.current_leader
        self.records = sum(header.record_count for header in headers_in(bytes(row.records)))


async def fetch(peers: Peers, broker: Broker, offset: int, rack: str = "", *, epoch: int = -1) -> Answered:
    row = PartitionFetch(0, epoch, offset, -1, -1, 2**20)
    topics = [TopicFetch("", TOPIC_ID, [row])]
    request = FetchRequest(CONSUMER, -1, 0, 1, 2**20, 0, 0, -1, topics, [], rack, None)
    found: list[Answered] = []
    done = asyncio.Event()

    def take(answer: object) -> None:
        if isinstance(answer, FetchAnswer):
            found.append(Answered(answer))
        done.set()

    call = peers.call(broker.node_id, Purpose.FORWARDING, fetch_call(request), 10_000)
    call.when_done(lambda later: take(later.result()))
    await done.wait()
    return found[0]


def run(use: Callable[[Cluster, Peers], Coroutine[object, object, None]]) -> None:
    async def life() -> None:
        async with cluster_of(3) as cluster:
            cluster.racks = {1: EAST, 2: WEST, 3: WEST}
            cluster.tell_brokers()
            await cluster.decide(led_by(1, 1, 2, isr=(1, 2)))
            peers = Peers(cluster.clock, lambda *_: None)
            for broker in cluster.brokers.values():
                peers.register(broker.node_id, broker.address)
            try:
                await use(cluster, peers)
            finally:
                peers.close()

    asyncio.run(life())


async def written(cluster: Cluster) -> None:
    """With the follower too, and both know that it is committed."""
    assert await cluster[1].write(b"a", b"b").wait() is None
    assert await cluster[1].write(b"c").wait() is None
    await cluster.until(lambda: cluster[2].partition.high_watermark == 3)


def test_whoever_comes_to_the_wrong_broker_hears_who_leads() -> None:
    async def use(cluster: Cluster, peers: Peers) -> None:
        await written(cluster)
        for broker in (2, 3):
            answer = await fetch(peers, cluster[broker], 0)
            assert answer.error_code is ErrorCode.not_leader_or_follower
            assert answer.current_leader == (1, 0)
        stale = await fetch(peers, cluster[1], 0, epoch=7)
        assert (stale.error_code, stale.current_leader) == (ErrorCode.unknown_leader_epoch, None)

    run(use)


def test_a_consumer_is_sent_to_the_follower_in_its_rack_and_served_there() -> None:
    async def use(cluster: Cluster, peers: Peers) -> None:
        await written(cluster)
        sent = await fetch(peers, cluster[1], 0, WEST)
        assert (sent.error_code, sent.preferred, sent.records) == (ErrorCode.none, 2, 0)
        served = await fetch(peers, cluster[2], 0, WEST)
        assert (served.error_code, served.high_watermark, served.records) == (ErrorCode.none, 3, 3)
        near = await fetch(peers, cluster[1], 0, EAST)
        assert (near.preferred, near.records) == (-1, 3)

    run(use)


def test_what_a_follower_does_not_have_yet_is_not_out_of_range() -> None:
    async def use(cluster: Cluster, peers: Peers) -> None:
        await written(cluster)
        beyond = await fetch(peers, cluster[2], 4, WEST)
        assert beyond.error_code is ErrorCode.offset_not_available
        end = await fetch(peers, cluster[2], 3, WEST)
        assert (end.error_code, end.records) == (ErrorCode.none, 0)

    run(use)


def test_a_follower_that_left_the_isr_sends_consumers_back() -> None:
    async def use(cluster: Cluster, peers: Peers) -> None:
        await written(cluster)
        cluster[2].cut_off(1)
        assert await cluster[1].write(b"d").wait() is None
        await cluster.until(lambda: cluster[2].partition.state.isr == (1,))
        assert (await fetch(peers, cluster[2], 0, WEST)).error_code is ErrorCode.not_leader_or_follower
        assert (await fetch(peers, cluster[1], 0, WEST)).preferred == -1

    run(use)


def produce(broker: Broker, acks: int = -1) -> ProduceResponse:
    batch = memoryview(build_batch([Record(0, broker.cluster.clock.now_ms(), None, b"x")]))
    verification = Verification(broker.replicas, cast(Coordinators, None), broker.cluster.clock)
    usage = Usage(10).of_api("Produce")
    handler = Produce(broker.replicas, verification, CurrentLeaders(broker.image), usage, broker.cluster.clock)
    answer = handler.start(OneBatch(acks, 1000, "", TOPIC_ID, 0, batch), Caller("client", "here", 1))
    assert isinstance(answer, ProduceResponse)
    return answer


def test_a_producer_at_the_wrong_broker_hears_who_leads_and_where_that_is() -> None:
    async def use(cluster: Cluster, _: Peers) -> None:
        for broker in (cluster[2], cluster[3]):
            answer = produce(broker)
            (row,) = answer.topics[0].partitions
            assert row.error_code is ErrorCode.not_leader_or_follower
            assert row.current_leader == (1, 0)
            (endpoint,) = answer.node_endpoints
            assert (endpoint.node_id, endpoint.port) == (1, cluster[1].address.port)
        assert cluster[2].partition.log.end_offset == 0

    run(use)


def test_acks_all_is_refused_before_anything_is_written_when_too_few_are_in_sync() -> None:
    async def use(cluster: Cluster, _: Peers) -> None:
        cluster[2].cut_off(1)
        await cluster.decide(led_by(1, 1, 2, isr=(1,), min_isr=2))
        (row,) = produce(cluster[1]).topics[0].partitions
        assert row.error_code is ErrorCode.not_enough_replicas
        assert cluster[1].partition.log.end_offset == 0

    run(use)
