"""A coordinator with topics, and members as tests think of them: which partitions of which topic, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from tests.groups.runner import Runner

from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_events import (
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribeConsumerGroups,
    DescribeConsumerGroupsAnswer,
    DescribedConsumerGroup,
    TopicsChanged,
)
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.consumer_topics import KnownTopic, TopicsView
from penstock.groups.core.limits import GroupLimits
from penstock.groups.core.machine import GroupsMachine

GROUP = "readers"
REBALANCE_TIMEOUT_MS = 60_000
Owned = Mapping[str, Iterable[int]]


def topic(number: int) -> UUID:
    """The id of the topic that was created as this one."""
    return UUID(int=number)


def some(*indexes: int) -> Partitions:
    """Partitions of the first topic."""
    return {topic(1): frozenset(indexes)} if indexes else {}


class World:
    """One coordinator and its topics. `limits` and `consumer_limits` hold for every machine after a restart, too."""

    def __init__(
        self,
        topics: Mapping[str, int],
        consumer_limits: ConsumerLimits | None = None,
        limits: GroupLimits | None = None,
    ) -> None:
        self._limits = limits or GroupLimits()
        self._consumer_limits = consumer_limits or ConsumerLimits()
        self._topics: dict[str, KnownTopic] = {}
        self._created = 0
        self.runner = Runner(lambda: GroupsMachine(self._limits, self._consumer_limits))
        self.set_topics(topics)

    def set_topics(self, topics: Mapping[str, int], internal: Iterable[str] = ()) -> None:
        """Topics that stay keep their id; one that goes and comes back is another."""
        known = {}
        for name, count in topics.items():
            known_before = self._topics.get(name)
            if known_before is None:
                self._created += 1
            topic_id = known_before.topic_id if known_before else topic(self._created)
            known[name] = KnownTopic(topic_id, count, is_internal=name in internal)
        self._topics = known
        self.tell_topics()

    def tell_topics(self) -> None:
        self.runner.submit(TopicsChanged(TopicsView(self._topics)))

    def restart(self, *, compacted: bool = False) -> None:
        self.runner.restart(compacted=compacted)
        self.tell_topics()

    def ids(self, owned: Owned) -> Partitions:
        return {self._topics[name].topic_id: frozenset(indexes) for name, indexes in owned.items() if indexes}

    def names(self, partitions: Partitions | None) -> dict[str, set[int]] | None:
        if partitions is None:
            return None
        names = {topic.topic_id: name for name, topic in self._topics.items()}
        return {names[topic_id]: set(indexes) for topic_id, indexes in partitions.items()}

    @property
    def partition_counts(self) -> Mapping[UUID, int]:
        return {topic.topic_id: topic.partition_count for topic in self._topics.values()}

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        group = self.runner.machine.state.find(group_id)
        assert isinstance(group, ConsumerGroup)
        return group

    def described(self, group_id: str = GROUP) -> DescribedConsumerGroup:
        return self.runner.ask(DescribeConsumerGroups((group_id,)), DescribeConsumerGroupsAnswer).groups[0]

    def join(
        self,
        member_id: str,
        topics: Iterable[str] | None = ("orders",),
        *,
        instance_id: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> ConsumerHeartbeatAnswer:
        event = ConsumerGroupHeartbeat(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=0,
            client_id="client",
            client_host="127.0.0.1",
            fresh_id="fresh",
            instance_id=instance_id,
            rebalance_timeout_ms=rebalance_timeout_ms,
            topic_names=None if topics is None else tuple(topics),
            topic_regex=regex,
            server_assignor=assignor,
            owned={},
        )
        return self.runner.ask(event, ConsumerHeartbeatAnswer)

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        topics: Iterable[str] | None = None,
        instance_id: str | None = None,
        regex: str | None = None,
    ) -> ConsumerHeartbeatAnswer:
        event = ConsumerGroupHeartbeat(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="127.0.0.1",
            fresh_id="fresh",
            instance_id=instance_id,
            topic_names=None if topics is None else tuple(topics),
            topic_regex=regex,
            owned=None if owned is None else self.ids(owned),
        )
        return self.runner.ask(event, ConsumerHeartbeatAnswer)
