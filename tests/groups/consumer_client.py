"""KIP-848 consumers as real ones behave, reduced to what they say, hear and hold.

They differ in when they list what they own, and in what they do with an assignment that comes while they still work on
another. The coordinator has to be safe and to make progress with all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from uuid import UUID

from msgspec.structs import replace
from tests.groups.consumer_world import GROUP

from penstock.errors import Problem
from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_events import ConsumerGroupHeartbeat, ConsumerHeartbeatAnswer

Pairs = frozenset[tuple[UUID, int]]
NOTHING: Pairs = frozenset()
# Longer than the quiet times of a simulation: a member that waits for ever is to be seen, not to be fenced.
REBALANCE_TIMEOUT_MS = 3_600_000
FENCED = (
    Problem.FENCED_MEMBER_EPOCH,
    Problem.UNKNOWN_MEMBER,
    Problem.UNRELEASED_INSTANCE_ID,
    Problem.FENCED_INSTANCE_ID,
)


def pairs(partitions: Partitions) -> Pairs:
    return frozenset((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)


def partitions(held: Pairs) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic_id, index in held:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


class Client(ABC):
    """What all have in common: one heartbeat at a time is under way, and one that is not answered has failed.

    `owned` is what it reads from. `is_expelled`: the group has removed it and it does not know, so what it holds does
    not count.
    """

    def __init__(
        self, member_id: str, topics: tuple[str, ...], regex: str | None, instance_id: str | None = None
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics = topics
        self.regex = regex
        self.is_expelled = False
        self._lose_all()

    @property
    @abstractmethod
    def held(self) -> Pairs:
        """It may read from any of these at any moment, without a word to the coordinator."""

    @abstractmethod
    def act(self, known: Collection[UUID]) -> None:
        """One step towards what it was told. `known` are the topics whose names it can find."""

    @abstractmethod
    def _heartbeat(self) -> ConsumerGroupHeartbeat: ...

    @abstractmethod
    def _told(self, assignment: Pairs | None) -> None:
        """The heartbeat was answered."""

    def _lose_all(self) -> None:
        self.epoch = 0
        self.owned = NOTHING
        self.has_failed = True
        self._said: tuple[tuple[str, ...], str | None] | None = None

    def heartbeat(self) -> ConsumerGroupHeartbeat:
        event = self._heartbeat()
        self.has_failed = True
        return event

    def hear(self, answer: ConsumerHeartbeatAnswer) -> None:
        if answer.problem in FENCED:
            self.is_expelled = False
            self._lose_all()
            return
        assert answer.problem is None, answer
        self.has_failed = False
        self.epoch = answer.member_epoch
        self._told(None if answer.assignment is None else pairs(answer.assignment))

    def goodbye(self, epoch: int) -> ConsumerGroupHeartbeat:
        self._lose_all()
        return self._event(epoch)

    def _event(self, epoch: int) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="127.0.0.1",
            fresh_id="unused",
            instance_id=self.instance_id,
        )

    def _saying(self, listing: Pairs | None, *, is_full: bool) -> ConsumerGroupHeartbeat:
        """All there is to say, or what is new."""
        topics, regex = self._said or (None, None)
        self._said = (self.topics, self.regex)
        event = self._event(self.epoch)
        return replace(
            event,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else -1,
            topic_names=self.topics if is_full or topics != self.topics else None,
            topic_regex=(self.regex or "") if is_full or regex != self.regex else None,
            owned=None if listing is None else partitions(listing),
        )


class JavaClient(Client):
    """Finishes the assignment that it has begun with, takes the newest next, and lists each that it has finished.

    A heartbeat after one that failed lists the one that it last finished, also while it works on another.
    """

    def _lose_all(self) -> None:
        super()._lose_all()
        self._target, self._target_number = NOTHING, 0
        self._working_on: Pairs | None = None
        self._working_number = self._finished_number = 0
        self._is_listed = False

    @property
    def held(self) -> Pairs:
        return self.owned | self._target | (self._working_on or NOTHING)

    def act(self, known: Collection[UUID]) -> None:
        if self._working_on is not None:
            finished = _with_names(self._working_on, self.owned, known)
            if (finished, self._working_number) != (self.owned, self._finished_number):
                self._is_listed = False
            self.owned, self._finished_number = finished, self._working_number
            self._working_on = None
        elif (self.owned, self._finished_number) != (self._target, self._target_number):
            self._working_on, self._working_number = self._target, self._target_number

    def _heartbeat(self) -> ConsumerGroupHeartbeat:
        is_full = self.has_failed or self.epoch == 0
        listing = self.owned if is_full or not self._is_listed else None
        self._is_listed = True
        return self._saying(listing, is_full=is_full)

    def _told(self, assignment: Pairs | None) -> None:
        if assignment is not None and assignment != self._target:
            self._target = assignment
            self._target_number += 1


class LibrdkafkaClient(Client):
    """Takes the next assignment only when it has listed the one before and was answered. One that it has already, or

    works on, is no news to it. `repeats`: after a time-out it sends the very same heartbeat again.
    """

    repeats = False

    def _lose_all(self) -> None:
        super()._lose_all()
        self._current = NOTHING
        self._target: Pairs | None = None
        self._next: Pairs | None = None
        self._is_done = self._is_listing = False
        self._last: ConsumerGroupHeartbeat | None = None

    @property
    def held(self) -> Pairs:
        return self.owned | (self._target or NOTHING) | (self._next or NOTHING)

    def act(self, known: Collection[UUID]) -> None:
        if self._target is not None:
            self.owned, self._is_done = self._target, True
        elif self._next is not None:
            found = _with_names(self._next, self._current, known)
            if found != self._current:
                self._target, self._is_done = found, False
            if found == self._next:
                self._next = None

    def _heartbeat(self) -> ConsumerGroupHeartbeat:
        if self._last is None or not self.repeats:
            is_full = self.has_failed or self.epoch == 0
            self._is_listing = self._is_done
            listing = self._target if self._is_listing else self._current if is_full else None
            self._last = self._saying(listing, is_full=is_full)
        return self._last

    def _told(self, assignment: Pairs | None) -> None:
        self._last = None
        if assignment is not None:
            is_news = assignment != (self._current if self._target is None else self._target)
            self._next = assignment if is_news else None
        if self._is_listing and self._target is not None:
            self._current, self._target = self._target, None
            self._is_done = self._is_listing = False


class FranzGoClient(Client):
    """Lists what it was told as soon as it was told, but says nothing while it gives up partitions."""

    def _lose_all(self) -> None:
        super()._lose_all()
        self._target = NOTHING
        self._known: tuple[Pairs, tuple[str, ...], str | None] | None = None

    @property
    def held(self) -> Pairs:
        return self.owned | self._target

    def act(self, known: Collection[UUID]) -> None:
        self.owned = self._target

    def _heartbeat(self) -> ConsumerGroupHeartbeat:
        if self.has_failed:
            self._known = None
        is_giving_up = bool(self.owned - self._target)
        everything = (self._target, self.topics, self.regex)
        is_known = bool(self._target) and everything == self._known
        if self.epoch != 0 and (is_giving_up or is_known):
            return self._event(self.epoch)
        self._known = everything
        return self._saying(self._target, is_full=True)

    def _told(self, assignment: Pairs | None) -> None:
        if assignment is not None:
            self._target = assignment


KINDS: dict[str, type[Client]] = {"java": JavaClient, "librdkafka": LibrdkafkaClient, "franz-go": FranzGoClient}


def _with_names(told: Pairs, owned: Pairs, known: Collection[UUID]) -> Pairs:
    """Those whose topic's name can be found, or is known from what it has."""
    names = {topic_id for topic_id, _ in owned}.union(known)
    return frozenset(pair for pair in told if pair[0] in names)
