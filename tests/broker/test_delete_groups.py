"""DeleteGroups and OffsetDelete, of a group that has more than goes into one batch."""

from __future__ import annotations

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from tests.broker.test_txn_offset_commit import Edge, at

from penstock.broker.apis.delete_groups import DeleteGroups
from penstock.groups.core.answers import CommitAnswer, DeleteOffsetsAnswer, FetchAnswer, ListGroupsAnswer
from penstock.groups.core.events import (
    CommitOffsets,
    DeleteOffsets,
    FetchOffsets,
    ListGroups,
    OffsetToCommit,
    TopicOffsets,
    TopicPartitions,
)

GROUP = GroupId("billing")
MANY = tuple(OffsetToCommit(partition, 42) for partition in range(12_000))


def test_a_group_with_many_offsets_is_deleted_by_one_request() -> None:
    async def use(broker: Edge) -> None:
        commit = CommitOffsets(GROUP, (TopicOffsets("orders", MANY),))
        assert (await broker.groups.submit(GROUP, commit, CommitAnswer).wait()).problem is None
        request = DeleteGroupsRequest(groups_names=(GROUP, GroupId("nobody")))
        answer = await DeleteGroups(broker.groups).start(request, broker.caller).wait()
        assert [row.error_code for row in answer.results] == [ErrorCode.none, ErrorCode.group_id_not_found]
        left = await broker.groups.submit(GROUP, FetchOffsets(GROUP, None), FetchAnswer).wait()
        listed = await broker.groups.submit(GROUP, ListGroups(), ListGroupsAnswer).wait()
        assert isinstance(left, FetchAnswer) and isinstance(listed, ListGroupsAnswer)
        assert not left.topics and not listed.groups

    at(use)


def test_many_offsets_are_deleted_by_one_request() -> None:
    async def use(broker: Edge) -> None:
        rows = (TopicOffsets("orders", MANY), TopicOffsets("bills", MANY[:1]))
        assert (await broker.groups.submit(GROUP, CommitOffsets(GROUP, rows), CommitAnswer).wait()).problem is None
        everything = TopicPartitions("orders", tuple(row.partition for row in MANY))
        answer = await broker.groups.delete_offsets(DeleteOffsets(GROUP, (everything,))).wait()
        assert isinstance(answer, DeleteOffsetsAnswer) and answer.problem is None
        left = await broker.groups.submit(GROUP, FetchOffsets(GROUP, None), FetchAnswer).wait()
        assert isinstance(left, FetchAnswer)
        assert [topic.topic for topic in left.topics] == ["bills"]

    at(use)
