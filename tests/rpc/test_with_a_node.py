"""A real node at the other end: what it says is understood, in any size and number, until it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v4.response import OffsetForLeaderEpochResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32
from tests.bad_input import requests
from tests.bad_input.batches import good_batch
from tests.bad_input.raw import RawConnection
from tests.rpc.peer import api_versions, on_loop

from penstock.clock import SystemClock
from penstock.config.address import Address
from penstock.later import Later
from penstock.rpc.core.call import call_of, fetch_call
from penstock.rpc.core.fetch_session import FetchSession
from penstock.rpc.core.unanswered import How, Unanswered
from penstock.rpc.peers import Peers, Purpose
from penstock.testing import TestNode, node
from penstock.units import MIB
from penstock.wire.fetch import CONSUMER, FetchRequest, PartitionFetch
from penstock.wire.fetch_answer import FetchAnswer, PartitionAnswer

NODE = 0
TIMEOUT_MS = 20_000


@pytest.fixture(scope="module")
def shared() -> Iterator[TestNode]:
    with node() as running:
        yield running


@asynccontextmanager
async def peers_of(running: TestNode) -> AsyncIterator[Peers]:
    peers = Peers(SystemClock(), lambda *_: None)
    peers.register(NODE, Address.parse(running.bootstrap))
    yield peers
    peers.close()


def create(running: TestNode, topic: str, partitions: int = 1) -> None:
    with RawConnection(running.bootstrap) as connection:
        assert connection.ask(requests.create_topic(topic, partitions)).topics[0].error_code == 0


def produce(running: TestNode, topic: str, batch: bytes, partition: int = 0) -> None:
    with RawConnection(running.bootstrap) as connection:
        answer = connection.ask(requests.produce(topic, batch, partition=partition))
        assert answer.responses[0].partition_responses[0].error_code == 0


async def topic_id_of(peers: Peers, topic: str) -> UUID:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=TopicName(topic)),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    answer = await peers.call(NODE, Purpose.CONTROL, call_of(request, MetadataResponse), TIMEOUT_MS).wait()
    assert isinstance(answer, MetadataResponse)
    topic_id = answer.topics[0].topic_id
    assert topic_id is not None
    return topic_id


class Follower:
    """Fetches as a consumer, and keeps what it got, as a follower would write it: inside the callback."""

    def __init__(self, peers: Peers, topic_id: UUID, partitions: int, min_bytes: int = 1) -> None:
        self._peers = peers
        self._topic_id = topic_id
        self.min_bytes = min_bytes
        self.session = FetchSession()
        self.logs = [b""] * partitions
        self.named: list[int] = []
        for partition in range(partitions):
            self.want(partition, 0)

    def want(self, partition: int, offset: int) -> None:
        self.session.want(self._topic_id, PartitionFetch(partition, -1, offset, -1, -1, 64 * MIB))

    async def fetch(self, max_wait_ms: int = 0) -> FetchAnswer:
        session_id, session_epoch, topics, forgotten = self.session.ask()
        request = FetchRequest(
            CONSUMER,
            -1,
            max_wait_ms,
            self.min_bytes,
            50 * MIB,
            0,
            session_id,
            session_epoch,
            topics,
            forgotten,
            "",
            None,
        )
        fetched = self._peers.call(NODE, Purpose.REPLICATION, fetch_call(request), TIMEOUT_MS)
        fetched.when_done(self._write)
        answer = await fetched.wait()
        assert isinstance(answer, FetchAnswer), answer
        return answer

    def _write(self, done: Later[FetchAnswer | Unanswered]) -> None:
        answer = done.result()
        assert isinstance(answer, FetchAnswer), answer
        if self.session.answered(answer) is not None:
            return
        rows: list[PartitionAnswer] = [row for topic in answer.topics for row in topic.partitions]
        self.named = [row.partition for row in rows]
        for row in rows:
            assert row.error_code is ErrorCode.none
            self.logs[row.partition] += row.records


@on_loop
async def test_any_api_is_asked_and_understood(shared: TestNode) -> None:
    create(shared, "epochs")
    produce(shared, "epochs", good_batch())
    row = OffsetForLeaderPartition(partition=i32(0), leader_epoch=i32(0))
    request = OffsetForLeaderEpochRequest(
        replica_id=BrokerId(-1), topics=(OffsetForLeaderTopic(topic=TopicName("epochs"), partitions=(row,)),)
    )
    async with peers_of(shared) as peers:
        call = call_of(request, OffsetForLeaderEpochResponse)
        answer = await peers.call(NODE, Purpose.CONTROL, call, TIMEOUT_MS).wait()
    assert isinstance(answer, OffsetForLeaderEpochResponse)
    assert answer.topics[0].partitions[0].end_offset == 1


@on_loop
async def test_records_arrive_as_they_were_produced_and_only_news_is_named(shared: TestNode) -> None:
    create(shared, "news", partitions=3)
    produce(shared, "news", good_batch(value=b"first"), partition=1)
    async with peers_of(shared) as peers:
        follower = Follower(peers, await topic_id_of(peers, "news"), partitions=3)
        answer = await follower.fetch()
        assert (follower.named, answer.session_id > 0) == ([0, 1, 2], True)
        assert b"first" in follower.logs[1]
        assert [len(log) > 0 for log in follower.logs] == [False, True, False]
        follower.want(1, 1)
        await follower.fetch()
        assert follower.named == [], "nothing is new"
        produce(shared, "news", good_batch(value=b"second"), partition=2)
        await follower.fetch(max_wait_ms=10_000)
        assert follower.named == [2]
        assert b"second" in follower.logs[2]


@on_loop
async def test_answers_of_many_megabytes(shared: TestNode) -> None:
    create(shared, "large")
    batches = [good_batch(value=bytes([number]) * (MIB - 1024)) for number in range(12)]
    for batch in batches:
        produce(shared, "large", batch)
    async with peers_of(shared) as peers:
        follower = Follower(peers, await topic_id_of(peers, "large"), partitions=1, min_bytes=10 * MIB)
        await follower.fetch()
        received = len(follower.logs[0])
        assert received >= 10 * MIB
        whole = received // len(batches[0])
        follower.want(0, whole)
        follower.min_bytes = 1
        await follower.fetch()
        # Base offset and leader epoch, which the broker stamps, are in front of the CRC.
        sizes = [len(batch) for batch in batches]
        assert len(follower.logs[0]) == sum(sizes)
        starts = [sum(sizes[:number]) for number in range(len(sizes))]
        for batch, start in zip(batches, starts, strict=True):
            assert follower.logs[0][start + 17 : start + len(batch)] == batch[17:]


@on_loop
async def test_a_session_that_the_node_lost_is_opened_anew(shared: TestNode) -> None:
    create(shared, "lost")
    produce(shared, "lost", good_batch(value=b"kept"))
    async with peers_of(shared) as peers:
        topic_id = await topic_id_of(peers, "lost")
        follower = Follower(peers, topic_id, partitions=1)
        session_id = (await follower.fetch()).session_id
        with RawConnection(shared.bootstrap) as other:
            other.ask(replace(requests.fetch("lost"), session_id=i32(session_id), session_epoch=i32(-1)))
        refused = await follower.fetch()
        assert refused.error_code is ErrorCode.fetch_session_id_not_found
        assert (await follower.fetch()).session_id not in (0, session_id)
        assert follower.logs[0].count(b"kept") == 2, "from the same offset again"


@on_loop
async def test_a_thousand_requests_are_answered(shared: TestNode) -> None:
    async with peers_of(shared) as peers:
        answers = [peers.call(NODE, Purpose.CONTROL, api_versions(), TIMEOUT_MS) for _ in range(1000)]
        codes = {type(await answer.wait()) for answer in answers}
        assert [kind.__name__ for kind in codes] == ["ApiVersionsResponse"]


@on_loop
async def test_a_node_that_stops_is_seen_to_close_and_then_to_refuse() -> None:
    lost: list[tuple[int, Purpose, How]] = []
    with ExitStack() as stack:
        running = stack.enter_context(node())
        peers = Peers(SystemClock(), lambda node_id, purpose, why: lost.append((node_id, purpose, why.how)))
        peers.register(NODE, Address.parse(running.bootstrap))
        answer = await peers.call(NODE, Purpose.CONTROL, api_versions(), TIMEOUT_MS).wait()
        assert not isinstance(answer, Unanswered)
        await asyncio.get_running_loop().run_in_executor(None, stack.close)
        while not lost:
            await asyncio.sleep(0.001)
        assert lost == [(NODE, Purpose.CONTROL, How.CLOSED)]
        probed = await peers.probe(NODE).wait()
        assert probed is not None
        assert probed.how is How.REFUSED
        peers.close()
