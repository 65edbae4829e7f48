"""The APIs whose versions differ by more than fields that came and went."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.describe_groups.v6.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.join_group.v9.response import JoinGroupResponse
from kio.schema.leave_group.v5.response import LeaveGroupResponse, MemberResponse
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions
from kio.schema.types import BrokerId, GroupId, ProducerId
from kio.static.primitive import i16, i32, i32Timedelta, i64
from tests.wire.messages import SERVED, kio_bytes, sent_as

from penstock.wire.lifts.offset_commit import OffsetCommitResponse, OffsetCommitResponseTopic
from penstock.wire.lifts.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponseTopic
from penstock.wire.schemas import request_class
from penstock.wire.shapes import shape_of
from penstock.wire.versions import decode

METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, JOIN_GROUP, LEAVE_GROUP = 3, 8, 9, 10, 11, 13
DESCRIBE_GROUPS, DELETE_TOPICS, INIT_PRODUCER_ID, CONSUMER_GROUP_HEARTBEAT = 15, 20, 22, 68
TOPIC_ID = UUID(int=7)
UNTHROTTLED = i32Timedelta.parse(timedelta(0))


def versions(api_key: int) -> range:
    oldest, newest = SERVED[api_key]
    return range(oldest, newest + 1)


def made(message: type, **values: Any) -> Any:
    """With those of the values that this version has a field for."""
    names = {field.name for field in shape_of(message)}
    return message(**{name: value for name, value in values.items() if name in names})


def received(api_key: int, version: int, **values: Any) -> Any:
    return decode(api_key, version, kio_bytes(made(request_class(api_key, version), **values)))


def row(api_key: int, version: int, array: str, **values: Any) -> Any:
    """An element of this array of the request."""
    (field,) = [field for field in shape_of(request_class(api_key, version)) if field.name == array]
    assert field.entity is not None
    return made(field.entity, **values)


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_find_coordinator_asks_for_keys(version: int) -> None:
    request = received(FIND_COORDINATOR, version, key="g", coordinator_keys=("g",), key_type=1 if version else 0)
    assert (request.coordinator_keys, request.key_type) == (("g",), 1 if version else 0)


@pytest.mark.parametrize("version", versions(FIND_COORDINATOR))
def test_find_coordinator_answers_in_the_clients_form(version: int) -> None:
    found = Coordinator(
        key="g", node_id=BrokerId(3), host="h", port=i32(9), error_code=ErrorCode.not_coordinator, error_message="no"
    )
    sent = sent_as(FindCoordinatorResponse(throttle_time=UNTHROTTLED, coordinators=(found,)), FIND_COORDINATOR, version)
    answer = sent.coordinators[0] if version >= 4 else sent
    assert (answer.node_id, answer.host, answer.port, answer.error_code) == (3, "h", 9, ErrorCode.not_coordinator)


@pytest.mark.parametrize("version", versions(LEAVE_GROUP))
def test_leave_group_names_its_members(version: int) -> None:
    members: tuple[Any, ...] = ()
    if version >= 3:
        members = (row(LEAVE_GROUP, version, "members", member_id="m", group_instance_id=None, reason=None),)
    request = received(LEAVE_GROUP, version, group_id="g", member_id="m", members=members)
    assert (request.group_id, [member.member_id for member in request.members]) == ("g", ["m"])


@pytest.mark.parametrize("version", versions(LEAVE_GROUP))
@pytest.mark.parametrize("whole_error", [ErrorCode.none, ErrorCode.not_coordinator])
def test_leave_group_answers_where_the_client_looks(version: int, whole_error: ErrorCode) -> None:
    member = MemberResponse(member_id="m", group_instance_id=None, error_code=ErrorCode.unknown_member_id)
    response = LeaveGroupResponse(throttle_time=UNTHROTTLED, error_code=whole_error, members=(member,))
    sent = sent_as(response, LEAVE_GROUP, version)
    if version >= 3:
        assert (sent.error_code, sent.members[0].error_code) == (whole_error, ErrorCode.unknown_member_id)
    else:
        assert sent.error_code == (whole_error or ErrorCode.unknown_member_id)


@pytest.mark.parametrize("version", versions(DELETE_TOPICS))
def test_delete_topics_has_rows(version: int) -> None:
    topics: tuple[Any, ...] = ()
    if version >= 6:
        topics = (row(DELETE_TOPICS, version, "topics", name="t", topic_id=None),)
    request = received(DELETE_TOPICS, version, topic_names=("t",), topics=topics, timeout=timedelta(seconds=1))
    assert [(topic.name, topic.topic_id) for topic in request.topics] == [("t", None)]
    assert request.timeout == timedelta(seconds=1)


def test_delete_topics_answers_an_unknown_id_without_a_name_where_it_can() -> None:
    result = DeletableTopicResult(
        name=None, topic_id=TOPIC_ID, error_code=ErrorCode.unknown_topic_id, error_message=None
    )
    response = DeleteTopicsResponse(throttle_time=UNTHROTTLED, responses=(result,))
    assert sent_as(response, DELETE_TOPICS, 6).responses[0].name is None
    assert sent_as(response, DELETE_TOPICS, 5).responses[0].name == ""


@pytest.mark.parametrize("version", versions(METADATA))
def test_metadata_for_no_topics_asks_for_all_in_version_0_only(version: int) -> None:
    asked = {
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    assert received(METADATA, version, topics=(), **asked).topics == (None if version == 0 else ())
    if version > 0:
        assert received(METADATA, version, topics=None, **asked).topics is None
    topics = (row(METADATA, version, "topics", name="t", topic_id=None),)
    request = received(METADATA, version, topics=topics, **asked)
    assert [topic.name for topic in request.topics] == ["t"]
    assert request.allow_auto_topic_creation is (version < 4)


@pytest.mark.parametrize("version", versions(JOIN_GROUP))
def test_join_group_says_what_the_client_can_do(version: int) -> None:
    request = received(
        JOIN_GROUP,
        version,
        group_id="g",
        session_timeout=timedelta(seconds=6),
        rebalance_timeout=timedelta(seconds=60),
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(row(JOIN_GROUP, version, "protocols", name="range", metadata=b"x"),),
        reason=None,
    )
    assert request.rebalance_timeout == timedelta(seconds=60 if version else 6)
    assert request.requires_known_member_id is (version >= 4)
    assert request.supports_skipping_assignment is (version >= 9)
    assert [(protocol.name, protocol.metadata) for protocol in request.protocols] == [("range", b"x")]


def test_a_static_member_needs_no_id_first() -> None:
    request = received(
        JOIN_GROUP,
        9,
        group_id="g",
        session_timeout=timedelta(0),
        member_id="",
        group_instance_id="i",
        protocol_type="consumer",
        protocols=(),
    )
    assert not request.requires_known_member_id


@pytest.mark.parametrize("version", versions(JOIN_GROUP))
@pytest.mark.parametrize("protocol_name", ["", None])
def test_no_protocol_is_null_where_that_can_be_said(version: int, protocol_name: str | None) -> None:
    response = JoinGroupResponse(
        throttle_time=UNTHROTTLED,
        error_code=ErrorCode.rebalance_in_progress,
        protocol_name=protocol_name,
        leader="",
        member_id="m",
        members=(),
    )
    assert sent_as(response, JOIN_GROUP, version).protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_offset_commit_names_topics_as_the_client_does(version: int) -> None:
    partition = {"partition_index": 1, "committed_offset": 5, "committed_leader_epoch": 2, "committed_metadata": None}
    (field,) = [f for f in shape_of(request_class(OFFSET_COMMIT, version)) if f.name == "topics"]
    assert field.entity is not None
    (rows,) = [f for f in shape_of(field.entity) if f.name == "partitions"]
    assert rows.entity is not None
    topic = made(field.entity, name="t", topic_id=TOPIC_ID, partitions=(made(rows.entity, **partition),))
    request = received(
        OFFSET_COMMIT,
        version,
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=4,
        group_instance_id=None,
        retention_time=timedelta(hours=1),
        topics=(topic,),
    )
    assert (request.topics[0].name, request.topics[0].topic_id) == (("", TOPIC_ID) if version >= 10 else ("t", None))
    assert request.topics[0].partitions[0].committed_offset == 5
    assert request.topics[0].partitions[0].committed_leader_epoch == (2 if version >= 6 else -1)
    assert request.retention_time == (timedelta(hours=1) if version <= 4 else timedelta(milliseconds=-1))
    assert request.knows_member_epochs is (version >= 9)


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
@pytest.mark.parametrize(
    ("error", "before_9"),
    [
        (ErrorCode.stale_member_epoch, ErrorCode.unsupported_version),
        (ErrorCode.group_id_not_found, ErrorCode.illegal_generation),
        (ErrorCode.none, ErrorCode.none),
    ],
)
def test_offset_commit_answers_with_errors_that_the_client_knows(
    version: int, error: ErrorCode, before_9: ErrorCode
) -> None:
    partition = OffsetCommitResponsePartition(partition_index=i32(1), error_code=error)
    topic = OffsetCommitResponseTopic(name="t", topic_id=TOPIC_ID, partitions=(partition,))
    sent = sent_as(OffsetCommitResponse(topics=(topic,)), OFFSET_COMMIT, version).topics[0]
    assert (sent.topic_id == TOPIC_ID) if version >= 10 else (sent.name == "t")
    assert sent.partitions[0].error_code is (error if version >= 9 else before_9)


@pytest.mark.parametrize("version", versions(OFFSET_FETCH))
@pytest.mark.parametrize("all_topics", [False, True])
def test_offset_fetch_has_groups(version: int, all_topics: bool) -> None:
    if version < 2 and all_topics:
        return
    request = request_class(OFFSET_FETCH, version)
    holder = request
    if version >= 8:
        (groups,) = [field for field in shape_of(request) if field.name == "groups"]
        assert groups.entity is not None
        holder = groups.entity
    (field,) = [field for field in shape_of(holder) if field.name == "topics"]
    assert field.entity is not None
    topics = None if all_topics else (made(field.entity, name="t", topic_id=TOPIC_ID, partition_indexes=(1, 2)),)
    asked = made(holder, group_id="g", topics=topics, require_stable=True, member_id="m", member_epoch=3)
    if version >= 8:
        asked = made(request, groups=(asked,), require_stable=True)
    got = decode(OFFSET_FETCH, version, kio_bytes(asked))
    (group,) = got.groups
    assert (group.group_id, got.require_stable) == ("g", version >= 7)
    assert (group.member_id, group.member_epoch) == (("m", 3) if version >= 9 else (None, -1))
    if all_topics:
        assert group.topics is None
    else:
        (topic,) = group.topics
        assert (topic.name, topic.topic_id) == (("", TOPIC_ID) if version >= 10 else ("t", None))
        assert topic.partition_indexes == (1, 2)


@pytest.mark.parametrize("version", versions(OFFSET_FETCH))
@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_coordinator])
def test_offset_fetch_answers_in_the_clients_form(version: int, error: ErrorCode) -> None:
    partition = OffsetFetchResponsePartitions(
        partition_index=i32(1), committed_offset=i64(5), metadata="x", error_code=ErrorCode.none
    )
    topic = OffsetFetchResponseTopic(name="t", topic_id=TOPIC_ID, partitions=(partition,))
    group = OffsetFetchResponseGroup(group_id="g", topics=(topic,), error_code=error)
    sent = sent_as(OffsetFetchResponse(groups=(group,)), OFFSET_FETCH, version)
    answer = sent.groups[0] if version >= 8 else sent
    if version >= 2:
        assert answer.error_code is error
    (answered,) = answer.topics
    assert (answered.topic_id == TOPIC_ID) if version >= 10 else (answered.name == "t")
    failed_in_row = version < 2 and error is not ErrorCode.none
    assert answered.partitions[0].committed_offset == (-1 if failed_in_row else 5)
    assert answered.partitions[0].error_code is (error if failed_in_row else ErrorCode.none)


@pytest.mark.parametrize("version", versions(DESCRIBE_GROUPS))
def test_an_unknown_group_is_dead_before_version_6(version: int) -> None:
    unknown = DescribedGroup(
        error_code=ErrorCode.group_id_not_found,
        error_message="no such group",
        group_id=GroupId("g"),
        group_state="Dead",
        protocol_type="",
        protocol_data="",
        members=(),
    )
    other = replace(unknown, error_code=ErrorCode.not_coordinator, group_state="")
    sent = sent_as(DescribeGroupsResponse(throttle_time=UNTHROTTLED, groups=(unknown, other)), DESCRIBE_GROUPS, version)
    assert sent.groups[0].error_code is (ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none)
    assert sent.groups[0].group_state == "Dead"
    assert sent.groups[1].error_code is ErrorCode.not_coordinator


@pytest.mark.parametrize("version", versions(INIT_PRODUCER_ID))
def test_a_fenced_producer_is_told_so_in_words_it_knows(version: int) -> None:
    response = InitProducerIdResponse(
        throttle_time=UNTHROTTLED,
        error_code=ErrorCode.producer_fenced,
        producer_id=ProducerId(-1),
        producer_epoch=i16(-1),
    )
    sent = sent_as(response, INIT_PRODUCER_ID, version)
    assert sent.error_code is (ErrorCode.producer_fenced if version >= 4 else ErrorCode.invalid_producer_epoch)


@pytest.mark.parametrize("version", versions(CONSUMER_GROUP_HEARTBEAT))
def test_members_bring_their_ids_from_version_1_on(version: int) -> None:
    request = received(
        CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id="g",
        member_id="m",
        member_epoch=4,
        subscribed_topic_names=("t",),
        topic_partitions=(
            row(CONSUMER_GROUP_HEARTBEAT, version, "topic_partitions", topic_id=TOPIC_ID, partitions=(1, 2)),
        ),
    )
    assert request.brings_member_id is (version >= 1)
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m", 4)
    assert request.subscribed_topic_names == ("t",)
    assert [(topic.topic_id, topic.partitions) for topic in request.topic_partitions] == [(TOPIC_ID, (1, 2))]
