"""Commits over the wire, in an order in which no client sends them."""

from __future__ import annotations

import pytest
from kio.schema.consumer_group_heartbeat.v1.request import ConsumerGroupHeartbeatRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.offset_commit.v8 import request as v8
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_commit.v9 import request as v9
from kio.schema.offset_commit.v10 import request as v10
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest
from kio.schema.sync_group.v2.request import SyncGroupRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64
from tests.bad_input import requests
from tests.bad_input.raw import RawConnection

from penstock.testing import node

GROUP = GroupId("billing")
PATIENT = requests.timeout(30_000)
JOIN = JoinGroupRequest(
    group_id=GROUP,
    session_timeout=PATIENT,
    rebalance_timeout=PATIENT,
    member_id="",
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
)


class Member:
    def __init__(self, connection: RawConnection) -> None:
        joined = connection.ask(JOIN)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=self._generation, member_id=self._member_id, assignments=()
        )
        assert connection.ask(sync).error_code == 0

    def committing(self, offset: int) -> OffsetCommitRequest:
        row = OffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(offset), committed_metadata=None
        )
        return OffsetCommitRequest(
            group_id=GROUP,
            member_id=self._member_id,
            generation_id_or_member_epoch=self._generation,
            topics=(OffsetCommitRequestTopic(name=TopicName("orders"), partitions=(row,)),),
        )

    def commit(self, connection: RawConnection, offset: int) -> None:
        assert connection.ask(self.committing(offset)).topics[0].partitions[0].error_code == 0
        found = connection.ask(OffsetFetchRequest(group_id=GROUP, topics=None)).topics[0].partitions[0]
        assert found.committed_offset == offset


def test_what_an_abandoned_connection_delivers_late_does_not_take_the_group_back() -> None:
    with (
        node({"group.initial.rebalance.delay.ms": "0"}) as server,
        RawConnection(server.bootstrap) as abandoned,
        RawConnection(server.bootstrap) as current,
        RawConnection(server.bootstrap) as new,
    ):
        abandoned.ask(requests.create_topic("orders"))
        assert abandoned.ask(FindCoordinatorRequest(key=GROUP)).error_code == 0
        member = Member(abandoned)
        for connection, offset in ((abandoned, 4541), (abandoned, 4540), (current, 4545), (current, 4850)):
            member.commit(connection, offset)
        abandoned.send(member.committing(4545))
        assert abandoned.wait_until_closed() == b""
        found = current.ask(OffsetFetchRequest(group_id=GROUP, topics=None)).topics[0].partitions[0]
        assert found.committed_offset == 4850
        member.commit(new, 100)


def test_an_id_of_zeros_is_no_topic() -> None:
    with node() as server, RawConnection(server.bootstrap) as connection:
        assert connection.ask(FindCoordinatorRequest(key=GROUP)).error_code == 0
        row = v10.OffsetCommitRequestPartition(partition_index=i32(0), committed_offset=i64(1), committed_metadata=None)
        commit = v10.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=i32(-1),
            member_id="",
            topics=(v10.OffsetCommitRequestTopic(topic_id=None, partitions=(row,)),),
        )
        (topic,) = connection.ask(commit).topics
        assert (topic.topic_id, topic.partitions[0].error_code) == (None, ErrorCode.unknown_topic_or_partition)


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.unsupported_version), (9, ErrorCode.none)])
def test_a_member_of_a_kip_848_group_commits_in_a_version_that_has_member_epochs(version: int, code: ErrorCode) -> None:
    """An older client would not know what it is told when its epoch is over."""
    with node() as server, RawConnection(server.bootstrap) as connection:
        connection.ask(requests.create_topic("orders"))
        assert connection.ask(FindCoordinatorRequest(key=GROUP)).error_code == 0
        joined = connection.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id="one",
                member_epoch=i32(0),
                rebalance_timeout=PATIENT,
                subscribed_topic_names=(TopicName("orders"),),
                subscribed_topic_regex=None,
                topic_partitions=(),
            )
        )
        assert joined.error_code == 0
        module = {8: v8, 9: v9}[version]
        row = module.OffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(1), committed_metadata=None
        )
        commit = module.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=joined.member_epoch,
            member_id="one",
            topics=(module.OffsetCommitRequestTopic(name=TopicName("orders"), partitions=(row,)),),
        )
        assert connection.ask(commit).topics[0].partitions[0].error_code is code
