"""OffsetFetch: how far groups have come; of the partitions asked for, or of all that a group has committed.

Where a transaction under way is about to commit another offset, a client that asks for stable ones (`require_stable`)
is told UNSTABLE_OFFSET_COMMIT, and asks again. The offset in such a row is -1000 and not -1, because of librdkafka: if
its consumer is given another partition meanwhile, it goes on with the offset of that row. -1 says that there is none,
and it would begin at the start (auto.offset.reset), -1000 that the one of the group is still to be asked for. Other
clients look at no offset beside an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions
from kio.static.primitive import i32, i64

from penstock.broker.api import Api, Caller
from penstock.broker.error_codes import code_of_answer, code_or_none
from penstock.broker.topic_names import resolve
from penstock.cluster.core.image import Image, TopicImage
from penstock.errors import Problem, Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import FetchAnswer, FetchedOffset
from penstock.groups.core.events import FetchOffsets, TopicPartitions
from penstock.later import Later, gather
from penstock.wire.lifts.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)

# What was asked for, and what that was taken for.
Asked = Sequence[tuple[OffsetFetchRequestTopic, TopicPartitions]]

# As librdkafka calls it within itself: RD_KAFKA_OFFSET_STORED.
_STILL_TO_BE_ASKED_FOR = -1000


class OffsetFetch:
    api = Api(key=9, versions=(1, 10))

    def __init__(self, groups: Groups, image: Image) -> None:
        self._groups = groups
        self._image = image

    def start(self, request: OffsetFetchRequest, caller: Caller) -> Later[OffsetFetchResponse]:
        # Each once, however often it is asked for: it may have thousands of offsets, each with kilobytes of metadata.
        groups = {group.group_id: group for group in request.groups}
        return gather([self._fetch(_each_once(group), request.require_stable) for group in groups.values()]).map(
            lambda groups: OffsetFetchResponse(groups=tuple(groups))
        )

    def _fetch(self, group: OffsetFetchRequestGroup, require_stable: bool) -> Later[OffsetFetchResponseGroup]:
        """Names are looked up once: a topic that this broker hears of while the answer waits was not asked about, and

        to say that nothing is committed for it would send its consumer to the beginning.
        """
        asked = None
        if group.topics is not None:
            asked = [(topic, self._partitions(topic)) for topic in group.topics]
        topics = None if asked is None else tuple(wanted for _, wanted in asked)
        event = FetchOffsets(group.group_id, topics, group.member_id, group.member_epoch, require_stable)
        return self._groups.read(group.group_id, event, FetchAnswer).map(
            lambda answer: self._response(group.group_id, asked, answer)
        )

    def _partitions(self, topic: OffsetFetchRequestTopic) -> TopicPartitions:
        """With the id where it is known: a topic that was made anew does not inherit its forerunner's offsets."""
        found = resolve(self._image, topic.name, topic.topic_id)
        if isinstance(found, TopicImage):
            return TopicPartitions(found.name, topic.partition_indexes, found.id.bytes)
        return TopicPartitions(topic.name, topic.partition_indexes)

    def _response(self, group_id: str, asked: Asked | None, answer: FetchAnswer | Refused) -> OffsetFetchResponseGroup:
        if asked is None:
            topics = self._all(answer)
        else:
            offsets = {}
            if isinstance(answer, FetchAnswer):
                offsets = {(topic.topic, row.partition): row for topic in answer.topics for row in topic.partitions}
            topics = [_asked(topic, wanted.topic, offsets) for topic, wanted in asked]
        return OffsetFetchResponseGroup(group_id=group_id, topics=tuple(topics), error_code=code_of_answer(answer))

    def _all(self, answer: FetchAnswer | Refused) -> Sequence[OffsetFetchResponseTopic]:
        rows = []
        for topic in answer.topics if isinstance(answer, FetchAnswer) else ():
            image = self._image.topic(topic.topic)
            rows.append(
                OffsetFetchResponseTopic(
                    name=topic.topic,
                    topic_id=None if image is None else image.id,
                    partitions=tuple(map(_row, topic.partitions)),
                )
            )
        return rows


def _asked(
    topic: OffsetFetchRequestTopic, name: str, offsets: dict[tuple[str, int], FetchedOffset]
) -> OffsetFetchResponseTopic:
    unknown_id = topic.topic_id is not None and not name
    return OffsetFetchResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        partitions=tuple(
            _row(
                FetchedOffset(index, problem=Problem.UNKNOWN_TOPIC_ID)
                if unknown_id
                else offsets.get((name, index)) or FetchedOffset(index)
            )
            for index in topic.partition_indexes
        ),
    )


def _each_once(group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    if group.topics is None:
        return group
    wanted: dict[tuple[str, UUID | None], dict[int, None]] = {}
    for topic in group.topics:
        wanted.setdefault((topic.name, topic.topic_id), {}).update(dict.fromkeys(topic.partition_indexes))
    topics = [
        OffsetFetchRequestTopic(name=name, topic_id=topic_id, partition_indexes=tuple(indexes))
        for (name, topic_id), indexes in wanted.items()
    ]
    return replace(group, topics=tuple(topics))


def _row(offset: FetchedOffset) -> OffsetFetchResponsePartitions:
    is_unstable = offset.problem is Problem.UNSTABLE_OFFSET_COMMIT
    return OffsetFetchResponsePartitions(
        partition_index=i32(offset.partition),
        committed_offset=i64(_STILL_TO_BE_ASKED_FOR if is_unstable else offset.offset),
        committed_leader_epoch=i32(offset.leader_epoch),
        metadata=offset.metadata,
        error_code=code_or_none(offset.problem),
    )
