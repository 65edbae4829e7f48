"""Offsets in a transaction, of members that their group has left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.join_group.v5.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest, OffsetFetchRequestTopic
from kio.schema.sync_group.v3.request import SyncGroupRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32
from tests.bad_input import requests
from tests.bad_input.broker import Broker
from tests.bad_input.raw import RawConnection
from tests.interop.waiting import eventually
from tests.transactions.raw_client import RawProducer, initialised

INSTANCE = "till-1"


@dataclass(frozen=True)
class Membership:
    member: str
    generation: int


class Group:
    def __init__(self, connection: RawConnection, name: str, topic: str) -> None:
        self._connection = connection
        self.name = name
        self.topic = topic
        asked = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(name,))
        eventually(lambda: connection.ask(asked).coordinators[0].error_code is ErrorCode.none, "it has a coordinator")

    def join(self, member: str = "") -> Membership:
        """As a static member, the only one."""
        request = JoinGroupRequest(
            group_id=GroupId(self.name),
            session_timeout=requests.timeout(30_000),
            rebalance_timeout=requests.timeout(30_000),
            member_id=member,
            group_instance_id=INSTANCE,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
        )
        joined = self._connection.ask(request)
        assert joined.error_code is ErrorCode.none
        synced = self._connection.ask(
            SyncGroupRequest(
                group_id=GroupId(self.name),
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=INSTANCE,
                assignments=(),
            )
        )
        assert synced.error_code is ErrorCode.none
        return Membership(joined.member_id, joined.generation_id)

    def committed(self) -> int:
        row = OffsetFetchRequestTopic(name=TopicName(self.topic), partition_indexes=(i32(0),))
        answer = self._connection.ask(
            OffsetFetchRequest(group_id=GroupId(self.name), topics=(row,), require_stable=True)
        )
        (found,) = answer.topics[0].partitions
        return int(found.committed_offset) if found.error_code is ErrorCode.none else -2

    def commit(self, producer: RawProducer, offset: int, at: Membership, instance: str | None = INSTANCE) -> ErrorCode:
        request = producer.commit_offset(
            self.name, self.topic, offset, generation=at.generation, member=at.member, instance=instance
        )
        code: ErrorCode = self._connection.ask(request).topics[0].partitions[0].error_code
        return code


@pytest.fixture
def connection(broker: Broker) -> Iterator[RawConnection]:
    with broker.connect() as connected:
        yield connected


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_that_moved_on_takes_no_offsets_of_those_it_left_behind(
    broker: Broker, connection: RawConnection, version: int
) -> None:
    group = Group(connection, broker.name("group"), broker.topic())
    producer = initialised(connection, broker.name("id"), version)

    def begin() -> None:
        if version == 1:
            assert connection.ask(producer.add_offsets(group.name)).error_code is ErrorCode.none

    first = group.join()
    begin()
    assert group.commit(producer, 5, first) is ErrorCode.none
    producer = producer.ended_by(connection.ask(producer.end()))
    eventually(lambda: group.committed() == 5, "it is committed")
    # Who has an instance id takes its place over, and the one before it is fenced.
    second = group.join()
    third = group.join(second.member)
    assert third.generation > first.generation
    wrong = {
        ErrorCode.fenced_instance_id: (first, INSTANCE),
        ErrorCode.unknown_member_id: (Membership("nobody", third.generation), None),
        ErrorCode.illegal_generation: (Membership(third.member, third.generation - 1), INSTANCE),
    }
    for expected, (at, instance) in wrong.items():
        begin()
        assert group.commit(producer, 9, at, instance) is expected
        assert group.committed() == 5, "nobody waits for what was refused"
        producer = producer.ended_by(connection.ask(producer.end()))
        eventually(lambda: group.committed() == 5, "the end of that transaction changes nothing")
    begin()
    assert group.commit(producer, 7, third) is ErrorCode.none
    producer.ended_by(connection.ask(producer.end()))
    eventually(lambda: group.committed() == 7, "its member goes on")


@pytest.mark.parametrize("version", [1, 2])
def test_a_generation_of_a_group_that_does_not_exist(broker: Broker, connection: RawConnection, version: int) -> None:
    group = Group(connection, broker.name("group"), broker.topic())
    producer = initialised(connection, broker.name("id"), version)
    if version == 1:
        assert connection.ask(producer.add_offsets(group.name)).error_code is ErrorCode.none
    assert group.commit(producer, 9, Membership("nobody", 3)) is ErrorCode.illegal_generation
    assert group.committed() == -1
