"""What classic and KIP-848 groups have in common: enough for offsets, listing and deletion to serve both."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Protocol

from penstock.errors import Problem
from penstock.groups.core.events import CommitOffsets
from penstock.groups.core.records import Record


class GroupType(Enum):
    """The value is the name that ListGroups shows and filters by."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type under which Kafka's consumers join; their metadata can be read for the topics they subscribe to."""


class Group(Protocol):
    """Reads only. Checks return the problem to answer with, or None."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def state_name(self) -> str:
        """As DescribeGroups and ListGroups spell it: "Stable", "PreparingRebalance", "Reconciling", ..."""

    @property
    def is_empty(self) -> bool:
        """No members, not even joining ones: the group may be deleted or change its type."""

    def subscribed_among(self, topics: Collection[str]) -> Collection[str]:
        """All also when it cannot be known: an offset that may still be needed is neither expired nor deleted.

        For many topics at once, because every member's subscription is looked at.
        """

    def retention_starts_ms(self, committed_ms: int) -> int | None:
        """From when an offset committed at that time counts towards expiry; None: it does not expire now."""

    def commit_problem(self, event: CommitOffsets) -> Problem | None: ...

    def fetch_problem(self, member_id: str | None, member_epoch: int) -> Problem | None: ...

    def offset_delete_problem(self) -> Problem | None: ...

    def delete_problem(self) -> Problem | None: ...

    def tombstones(self) -> list[Record]:
        """Records that end every key of this group but its offsets."""
