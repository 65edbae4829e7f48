"""A KIP-848 consumer as real ones behave, reduced to what it says, hears and holds."""

from __future__ import annotations

from uuid import UUID

from tests.groups.consumer_world import GROUP

from penstock.errors import Problem
from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer

Pairs = frozenset[tuple[UUID, int]]


def pairs(partitions: Partitions) -> Pairs:
    return frozenset((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)


def partitions(held: Pairs) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic_id, index in held:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


class Client:
    """`owned` is what it reads from; `told` what it was last told to read from, which it has yet to act upon.

    What it lists in a heartbeat is all that it will read from until an answer says more. The coordinator relies on
    that, as Kafka's does: a partition that is not listed is given up, also by a member that has not begun with it.
    """

    def __init__(
        self, member_id: str, topics: tuple[str, ...], regex: str | None, instance_id: str | None = None
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.regex = regex
        self.epoch = 0
        self.owned: Pairs = frozenset()
        self.told: Pairs = frozenset()
        self._untaken: Pairs = frozenset()
        self._must_say_all = True
        self._said: tuple[Pairs, tuple[str, ...], str | None] | None = None

    @property
    def held(self) -> Pairs:
        """It may read from any of these at any moment, without a word to the coordinator."""
        return self.owned | self.told

    def act(self) -> None:
        self.owned = self.told

    def heartbeat(self) -> ConsumerGroupHeartbeat:
        """Says what changed since the last heartbeat that was answered, and everything after one that was not."""
        says_all = self._must_say_all or self._said is None or self.epoch == 0
        owned, topics, regex = self._said or (None, None, None)
        self._said = (self.owned, self.topics, self.regex)
        self._must_say_all = True
        self._untaken = self.told
        if says_all or owned != self.owned:
            self.told &= self.owned
        return ConsumerGroupHeartbeat(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            client_id="client",
            client_host="127.0.0.1",
            fresh_id="unused",
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if says_all else -1,
            topic_names=self.topics if says_all or topics != self.topics else None,
            topic_regex=(self.regex or "") if says_all or regex != self.regex else None,
            owned=partitions(self.owned) if says_all or owned != self.owned else None,
        )

    def goodbye(self, epoch: int) -> ConsumerGroupHeartbeat:
        self.owned = self.told = frozenset()
        return ConsumerGroupHeartbeat(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="127.0.0.1",
            fresh_id="unused",
            instance_id=self.instance_id,
        )

    def hear(self, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.problem in (Problem.FENCED_MEMBER_EPOCH, Problem.UNKNOWN_MEMBER, Problem.UNRELEASED_INSTANCE_ID):
            self.owned = self.told = frozenset()
            self.epoch = 0
            return
        assert answer.problem is None, answer
        self._must_say_all = False
        self.epoch = answer.member_epoch
        self.told = self._untaken if answer.assignment is None else pairs(answer.assignment)
