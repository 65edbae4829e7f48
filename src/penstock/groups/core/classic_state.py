"""A classic group as it is now: the newest stored generation, and the rebalance that may be under way since."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Self

from msgspec import Struct, field

from penstock.errors import Problem
from penstock.groups.core.events import CommitOffsets
from penstock.groups.core.group import CONSUMER_PROTOCOL_TYPE, GroupType
from penstock.groups.core.records import ClassicGroupValue, GroupMetadata, Record, StoredMember
from penstock.groups.core.subscription import subscribed_topics
from penstock.replication.core.machine import Ticket


class ClassicState(Enum):
    """The value is the name that DescribeGroups shows. A group that does not exist is "Dead"."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class InitialDelay(Struct, frozen=True):
    """The first rebalance of an empty group waits for more members to come, again for each wave of them."""

    delay_ms: int
    remaining_ms: int
    grew: bool = False


class ClassicGroup(Struct):
    """Decisions work on a `copy`. Outside PREPARING_REBALANCE, `stored()` is what the group's newest record says."""

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    state_since_ms: int = -1
    members: dict[str, StoredMember] = field(default_factory=dict)
    joins: dict[str, Ticket] = field(default_factory=dict)
    """Parked JoinGroup answers by member id; whoever is here has rejoined."""
    syncs: dict[str, Ticket] = field(default_factory=dict)
    """Parked SyncGroup answers by member id."""
    newcomers: set[str] = field(default_factory=set)
    """Members whose first JoinGroup is parked: they do not know their id yet and cannot send heartbeats."""
    pending: set[str] = field(default_factory=set)
    """Member ids handed out with MEMBER_ID_REQUIRED whose owner has not come back yet."""
    unsynced: set[str] = field(default_factory=set)
    """Members that have not sent SyncGroup in this generation."""
    initial_delay: InitialDelay | None = None
    weight_bytes: int = 0
    """About what `members` takes in the group's record, assignments apart."""
    static_members: dict[str, str] = field(default_factory=dict)
    """Instance id to member id. A request may name thousands of them in a group of thousands."""

    @classmethod
    def restored(cls, group_id: str, value: ClassicGroupValue) -> Self:
        members = {member.member_id: member for member in value.members}
        state = ClassicState.STABLE if value.synced else ClassicState.COMPLETING_REBALANCE
        return cls(
            group_id=group_id,
            state=state if members else ClassicState.EMPTY,
            generation=value.generation,
            protocol_type=value.protocol_type,
            protocol_name=value.protocol_name,
            leader=value.leader,
            state_since_ms=value.state_since_ms,
            members=members,
            unsynced=set() if value.synced else set(members),
            weight_bytes=sum(_weight_bytes(member) for member in value.members),
            static_members={
                member.group_instance_id: member.member_id
                for member in reversed(value.members)
                if member.group_instance_id is not None
            },
        )

    def stored(self) -> GroupMetadata:
        value = ClassicGroupValue(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader,
            synced=self.state is not ClassicState.COMPLETING_REBALANCE,
            state_since_ms=self.state_since_ms,
            members=tuple(self.members.values()),
        )
        return GroupMetadata(self.group_id, value)

    def copy(self) -> ClassicGroup:
        return ClassicGroup(
            self.group_id,
            self.state,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.leader,
            self.state_since_ms,
            self.members.copy(),
            self.joins.copy(),
            self.syncs.copy(),
            self.newcomers.copy(),
            self.pending.copy(),
            self.unsynced.copy(),
            self.initial_delay,
            self.weight_bytes,
            self.static_members.copy(),
        )

    def put(self, member: StoredMember) -> None:
        """Adds or replaces a member; the first one leads."""
        known = self.members.get(member.member_id)
        self.weight_bytes += _weight_bytes(member) - (_weight_bytes(known) if known else 0)
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members.setdefault(member.group_instance_id, member.member_id)
        if self.leader is None:
            self.leader = member.member_id

    def drop(self, member_id: str) -> None:
        """Removes a member whose parked answers have been given; the longest-serving one takes over the lead."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.weight_bytes -= _weight_bytes(member)
            if self.static_members.get(member.group_instance_id or "") == member_id:
                del self.static_members[member.group_instance_id or ""]
        for member_ids in (self.newcomers, self.pending, self.unsynced):
            member_ids.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def member_problem(self, member_id: str, group_instance_id: str | None) -> Problem | None:
        """Whether a request under this identity comes from a member, and not from one that was replaced."""
        member = self.members.get(member_id)
        if group_instance_id is None:
            return None if member is not None else Problem.UNKNOWN_MEMBER
        if member is not None and member.group_instance_id == group_instance_id:
            return None
        holder = self.static_member_id(group_instance_id)
        return Problem.UNKNOWN_MEMBER if holder is None else Problem.FENCED_INSTANCE_ID

    def static_member_id(self, group_instance_id: str) -> str | None:
        return self.static_members.get(group_instance_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member's: nobody is thrown out for being slower than others."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        return len(self.joins) == len(self.members) and not self.pending

    @property
    def is_vacant(self) -> bool:
        """Nothing is known beyond what is stored, and nobody is there."""
        return self.state is ClassicState.EMPTY and not self.pending

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    def subscribed_among(self, topics: Collection[str]) -> Collection[str]:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return ()
        wanted, found = frozenset(topics), set[str]()
        for member in self.members.values():
            subscribed = subscribed_topics(dict(member.protocols).get(self.protocol_name or "", b""))
            if subscribed is None:
                return topics
            found |= subscribed & wanted
        return found

    def retention_starts_ms(self, committed_ms: int) -> int | None:
        if self.protocol_type is None:
            return committed_ms
        if self.state is ClassicState.EMPTY:
            # Unlike in Kafka, an offset that an operator sets in an empty group is not already old.
            return max(self.state_since_ms, committed_ms)
        if self.state is ClassicState.STABLE and self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return committed_ms
        return None

    def commit_problem(self, event: CommitOffsets) -> Problem | None:
        if event.generation < 0 and self.state is ClassicState.EMPTY:
            # No member: an admin client, or a consumer that assigns its partitions itself.
            return None
        if event.generation < 0 and not event.member_id and event.group_instance_id is None:
            return Problem.UNKNOWN_MEMBER
        problem = self.member_problem(event.member_id, event.group_instance_id)
        if problem is not None:
            return problem
        if event.generation != self.generation:
            return Problem.ILLEGAL_GENERATION
        # Members of a new generation have nothing to commit before they know their assignment.
        return Problem.REBALANCE_IN_PROGRESS if self.state is ClassicState.COMPLETING_REBALANCE else None

    def fetch_problem(self, member_id: str | None, member_epoch: int) -> Problem | None:
        return None

    def offset_delete_problem(self) -> Problem | None:
        if self.is_empty or self.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return None
        return Problem.GROUP_NOT_EMPTY

    def delete_problem(self) -> Problem | None:
        return None if self.is_empty else Problem.GROUP_NOT_EMPTY

    def tombstones(self) -> list[Record]:
        return [GroupMetadata(self.group_id, None)]


def _weight_bytes(member: StoredMember) -> int:
    """Text at up to four bytes a character; 64 for the numbers and lengths, and as many as a protocol's own take."""
    text = len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id) + len(member.client_host)
    return 64 + 4 * text + protocols_bytes(member.protocols)


def protocols_bytes(protocols: tuple[tuple[str, bytes], ...]) -> int:
    """A request may have a hundred thousand of them, all empty, so that what is around each counts as well."""
    return sum(12 + 4 * len(name) + len(metadata) for name, metadata in protocols)
