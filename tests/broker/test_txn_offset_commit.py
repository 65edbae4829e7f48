"""Offsets in a transaction, from the request on: who is asked, and what happens while the question is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64
from tests.disk.power import PowerCutDisk
from tests.replication.world import WAIT_S, World, topic_id, world

from penstock.broker.api import Caller, next_number
from penstock.broker.apis.offset_fetch import OffsetFetch
from penstock.broker.apis.txn_offset_commit import TxnOffsetCommit
from penstock.cluster.core.image import BrokerImage, Image, PartitionImage, TopicImage
from penstock.cluster.topics import Topics
from penstock.coordination.paths import PartitionState
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import OFFSETS_TOPIC, Groups
from penstock.groups.core.answers import CommitAnswer
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.events import CommitOffsets, OffsetToCommit, TopicOffsets
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine
from penstock.groups.core.transaction_events import TransactionEnded, TransactionEndedAnswer
from penstock.later import Later
from penstock.replication.machines import TOPIC_CONFIG, Ground
from penstock.wire.lifts.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from penstock.wire.lifts.txn_offset_commit import TxnOffsetCommitRequest

Question = tuple[str, int, int, str, bool]


@dataclass
class HandVerification:
    """The transaction's coordinator, on another broker: answers when the test says so."""

    asked: list[tuple[Question, Later[Refused | None]]] = field(default_factory=list)

    def of_offsets(
        self, transactional_id: str, producer_id: int, producer_epoch: int, group_id: str, *, adds: bool
    ) -> Later[Refused | None]:
        answer: Later[Refused | None] = Later()
        self.asked.append(((transactional_id, producer_id, producer_epoch, group_id, adds), answer))
        return answer

    def answer(self, refused: Refused | None = None) -> None:
        self.asked[-1][1].complete(refused)


@dataclass
class Edge:
    groups: Groups
    handler: TxnOffsetCommit
    coordinator: HandVerification
    fetching: OffsetFetch
    image: Image
    caller: Caller

    def start(
        self, offset: int, *, topic: str = "orders", partition: int = 0, group_id: str = "billing"
    ) -> Later[TxnOffsetCommitResponse]:
        row = TxnOffsetCommitRequestPartition(
            partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=None
        )
        return self.handler.start(
            TxnOffsetCommitRequest(
                transactional_id="x",
                group_id=group_id,
                producer_id=9,
                producer_epoch=3,
                topics=(TxnOffsetCommitRequestTopic(name=TopicName(topic), partitions=(row,)),),
                adds_offsets=True,
            ),
            self.caller,
        )

    async def end(self, *, committed: bool = True) -> None:
        event = TransactionEnded(9, 4, coordinator_epoch=0, committed=committed, bumps_epoch=True)
        assert await self.groups.end_transaction(0, event).wait() == TransactionEndedAnswer(None)

    async def fetched(self) -> tuple[ErrorCode, int]:
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=(0,))
        group = OffsetFetchRequestGroup(group_id="billing", topics=(topic,))
        request = OffsetFetchRequest(groups=(group,), require_stable=True)
        answer = await self.fetching.start(request, self.caller).wait()
        (row,) = answer.groups[0].topics[0].partitions
        return row.error_code, row.committed_offset


def one_partition(topic: str, replicas: tuple[int, ...] = (1,)) -> TopicImage:
    state = PartitionState(leader=1, leader_epoch=0, replicas=replicas, isr=replicas)
    return TopicImage(topic, topic_id(topic), (PartitionImage(state, version=0),), TOPIC_CONFIG)


@asynccontextmanager
async def edge(node: World, replicas: tuple[int, ...]) -> AsyncIterator[Edge]:
    """The only partition of the offsets topic has these replicas, and this broker leads it if it is one."""
    image = Image("cluster", 1, [BrokerImage(1, "", 0, None)])
    for topic in (OFFSETS_TOPIC, "orders"):
        image.put(one_partition(topic))

    def make_machine() -> GroupsMachine:
        return GroupsMachine(GroupLimits(), ConsumerLimits(), began=next_number())

    # They are needed to make the offsets topic, which is there.
    groups = Groups(make_machine, Ground(node.replicas, cast(Topics, None), image, node.pool, node.clock))
    if replicas:
        await node.replicas.open_topic(one_partition(OFFSETS_TOPIC, replicas))
    coordinator = HandVerification()
    handler, fetching = TxnOffsetCommit(groups, image, coordinator), OffsetFetch(groups, image)
    try:
        yield Edge(groups, handler, coordinator, fetching, image, Caller("127.0.0.1", "127.0.0.1", 9092))
    finally:
        await groups.close()


def at(use: Callable[[Edge], Awaitable[None]], replicas: tuple[int, ...] = (1,)) -> None:
    async def life() -> None:
        async with asyncio.timeout(WAIT_S), world(PowerCutDisk()) as node, edge(node, replicas) as broker:
            await use(broker)

    asyncio.run(life())


async def code_of(answer: Later[TxnOffsetCommitResponse]) -> ErrorCode:
    (row,) = (await answer.wait()).topics[0].partitions
    return row.error_code


def test_the_coordinator_is_asked_once_per_transaction() -> None:
    async def use(broker: Edge) -> None:
        first = broker.start(42)
        assert [question for question, _ in broker.coordinator.asked] == [("x", 9, 3, "billing", True)]
        assert await broker.fetched() == (ErrorCode.none, -1)
        broker.coordinator.answer()
        assert await code_of(first) is ErrorCode.none
        assert await broker.fetched() == (ErrorCode.unstable_offset_commit, -1000)
        assert await code_of(broker.start(43)) is ErrorCode.none
        assert len(broker.coordinator.asked) == 1
        await broker.end()
        assert await broker.fetched() == (ErrorCode.none, 43)

    at(use)


def test_a_transaction_that_ends_while_the_question_is_under_way_gets_nothing_more() -> None:
    async def use(broker: Edge) -> None:
        late = broker.start(42)
        await broker.end(committed=False)
        broker.coordinator.answer()
        assert await code_of(late) is ErrorCode.invalid_producer_epoch
        assert await broker.fetched() == (ErrorCode.none, -1)

    at(use)


def test_a_topic_that_is_created_again_while_the_question_is_under_way_keeps_what_is_committed_for_it() -> None:
    async def use(broker: Edge) -> None:
        late = broker.start(42)
        broker.image.remove("orders")
        await broker.groups.drop_topic("orders")
        again = replace(one_partition("orders"), id=UUID(int=7))
        await broker.groups.open_topic(again)
        broker.image.put(again)
        rows = (TopicOffsets("orders", (OffsetToCommit(0, 5),), again.id.bytes),)
        committed = await broker.groups.submit("billing", CommitOffsets("billing", rows), CommitAnswer).wait()
        assert committed.problem is None
        broker.coordinator.answer()
        assert await code_of(late) is ErrorCode.unknown_topic_or_partition
        await broker.end()
        assert await broker.fetched() == (ErrorCode.none, 5)

    at(use)


def test_what_the_coordinator_says_is_passed_on_where_it_is_about_the_transaction() -> None:
    async def use(broker: Edge) -> None:
        for problem, code in (
            (Problem.INVALID_PRODUCER_EPOCH, ErrorCode.invalid_producer_epoch),
            (Problem.NOT_COORDINATOR, ErrorCode.coordinator_load_in_progress),
            (Problem.REQUEST_TIMED_OUT, ErrorCode.coordinator_load_in_progress),
        ):
            refused = broker.start(42)
            broker.coordinator.answer(Refused(problem, "no"))
            assert await code_of(refused) is code
        assert await broker.fetched() == (ErrorCode.none, -1)

    at(use)


def test_nobody_is_asked_about_what_cannot_be_committed_anyway() -> None:
    async def use(broker: Edge) -> None:
        for answer in (broker.start(1, topic="nowhere"), broker.start(1, partition=7)):
            assert await code_of(answer) is ErrorCode.unknown_topic_or_partition
        for group_id in ("", "g" * 2000):
            assert await code_of(broker.start(1, group_id=group_id)) is ErrorCode.invalid_group_id
        assert not broker.coordinator.asked

    at(use)


def test_nor_where_another_broker_coordinates_the_group() -> None:
    async def use(broker: Edge) -> None:
        assert await code_of(broker.start(1)) is ErrorCode.not_coordinator
        assert not broker.coordinator.asked
        event = TransactionEnded(9, 4, coordinator_epoch=0, committed=True)
        answer = await broker.groups.end_transaction(0, event).wait()
        assert answer.problem is Problem.NOT_LEADER, "for who writes markers it is a partition like any other"

    at(use, replicas=())


@pytest.mark.parametrize("others", [(), (2,)])
def test_that_nothing_was_pending_says_only_who_is_not_replaced(others: tuple[int, ...]) -> None:
    """The other replica could lead by now, and have what is pending; it has not been heard of."""

    async def use(broker: Edge) -> None:
        event = TransactionEnded(9, 4, coordinator_epoch=0, committed=True)
        answer = broker.groups.end_transaction(0, event)
        for _ in range(20):
            await asyncio.sleep(0)
        assert answer.done is (not others)

    at(use, replicas=(1, *others))
