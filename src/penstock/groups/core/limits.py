"""What the operator allows groups to do; plain values, taken from config/groups.py by whoever builds the machine."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.units import DAY_MS, KIB, MIB, MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class GroupLimits:
    min_session_timeout_ms: int = 6 * SECOND_MS
    max_session_timeout_ms: int = 30 * MINUTE_MS
    initial_rebalance_delay_ms: int = 3 * SECOND_MS
    max_size: int = 2**31 - 1
    max_group_bytes: int = 8 * MIB
    """The most that a group's record, or one OffsetCommit, may write. A batch that is too large for the log would take

    the whole offsets partition down with it, so growth ends with an answer instead.
    """
    offsets_retention_ms: int = 14 * DAY_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    offset_metadata_max_bytes: int = 4 * KIB


MAX_GROUP_ID_CHARACTERS = 1024
"""Kafka takes up to 32,767 bytes. But the id is part of every key, once per partition in every commit: a small request

under such a name would write hundreds of megabytes. No real name is longer than this.
"""

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
"""A first-time joiner has no session to keep alive while its JoinGroup is parked, and a client that gives up leaves no

trace; its place is given up after this time. Kafka's constant; no operator has a reason to change it.
"""

MAX_PENDING_MEMBERS = 10_000
"""Member ids handed out per group to clients that have not come back with them: each is held until a session timeout

has passed, so without an end to it a looping client would fill the memory. Far above any group that rebalances at all.
"""
