"""OffsetFetch while this broker hears of topics."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from kio.schema.errors import ErrorCode

from penstock.broker.api import Caller
from penstock.broker.apis.offset_fetch import OffsetFetch
from penstock.cluster.core.image import Image, TopicImage
from penstock.errors import Refused
from penstock.groups.coordinator import Groups
from penstock.groups.core.answers import FetchAnswer, FetchedOffset, FetchedTopic
from penstock.groups.core.events import FetchOffsets
from penstock.later import Later
from penstock.wire.lifts.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic

ORDERS = TopicImage("orders", UUID(int=7), (), {})


class Coordinator:
    """The group has committed 42 for every partition of `orders`; the answer waits until the test has it come."""

    def __init__(self) -> None:
        self._answer: Later[FetchAnswer | Refused] = Later()
        self._asked: FetchOffsets | None = None

    def read(self, group_id: str, event: FetchOffsets, kind: type[FetchAnswer]) -> Later[FetchAnswer | Refused]:
        self._asked = event
        return self._answer

    def answer(self) -> None:
        assert self._asked is not None and self._asked.topics is not None
        topics = tuple(
            FetchedTopic(
                topic.topic,
                tuple(
                    FetchedOffset(index, 42) if topic.topic == "orders" else FetchedOffset(index)
                    for index in topic.partitions
                ),
            )
            for topic in self._asked.topics
        )
        self._answer.complete(FetchAnswer(None, topics))


def test_of_a_topic_that_becomes_known_meanwhile_nobody_says_that_nothing_was_committed() -> None:
    image, coordinator = Image("cluster", 1), Coordinator()
    topic = OffsetFetchRequestTopic(topic_id=ORDERS.id, partition_indexes=(0,))
    group = OffsetFetchRequestGroup(group_id="readers", topics=(topic,))
    offset_fetch = OffsetFetch(cast(Groups, coordinator), image)
    answer = offset_fetch.start(OffsetFetchRequest(groups=(group,)), Caller("127.0.0.1", "127.0.0.1", 9092))
    image.put(ORDERS)
    coordinator.answer()
    (row,) = answer.result().groups[0].topics[0].partitions
    assert row.error_code is ErrorCode.unknown_topic_id or row.committed_offset == 42
