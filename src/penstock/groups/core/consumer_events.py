"""What happens to KIP-848 groups, and the answers."""

from __future__ import annotations

from msgspec import Struct

from penstock.errors import Problem
from penstock.groups.core.assignors import Partitions
from penstock.groups.core.consumer_topics import TopicsView


class TopicsChanged(Struct, frozen=True):
    """The metadata as it is now. Submitted when the machine has been loaded and whenever topics come, go or grow;

    until the first, consumers are told to wait.
    """

    topics: TopicsView


class ConsumerGroupHeartbeat(Struct, frozen=True):
    """None (and -1 for the timeout) stands for "as in my last heartbeat".

    `fresh_id` is a unique text (a UUID), taken as the member id if the caller has none and may ask for one (version 0:
    `needs_own_member_id` is then false).
    """

    group_id: str
    member_id: str
    member_epoch: int
    client_id: str
    client_host: str
    fresh_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    needs_own_member_id: bool = True

    @property
    def is_full(self) -> bool:
        """A full heartbeat, as after joining or after an error, is answered with the whole assignment."""
        has_subscription = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class ConsumerHeartbeatAnswer(Struct, frozen=True):
    """`assignment` None: as before."""

    problem: Problem | None
    text: str = ""
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class DescribeConsumerGroups(Struct, frozen=True):
    group_ids: tuple[str, ...]


class DescribedConsumer(Struct, frozen=True):
    """Assignments are by topic name; partitions of topics that are gone are left out."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    assignment: tuple[NamedPartitions, ...]
    target: tuple[NamedPartitions, ...]
    is_classic: bool


class NamedPartitions(Struct, frozen=True):
    topic: str
    topic_id: bytes
    partitions: tuple[int, ...]


class DescribedConsumerGroup(Struct, frozen=True):
    group_id: str
    problem: Problem | None
    text: str = ""
    state: str = "Dead"
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class DescribeConsumerGroupsAnswer(Struct, frozen=True):
    groups: tuple[DescribedConsumerGroup, ...]
