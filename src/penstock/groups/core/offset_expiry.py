"""Offsets and groups that nobody uses any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.groups.core.deadlines import Deadline, Purpose
from penstock.groups.core.draft import Draft
from penstock.groups.core.group import Group
from penstock.groups.core.offset_table import FORGOTTEN_AT_ONCE, OffsetTable
from penstock.groups.core.records import CommittedOffset, OffsetCommit
from penstock.groups.core.volatile import ExpiryPaused

EXPIRY = Deadline("", Purpose.OFFSET_EXPIRY)

_OFFSETS_PER_STEP = 5000
"""A round is cut into steps of about this many offsets, a few milliseconds each: heartbeats are answered in between."""


def expire(
    group_ids: Iterable[str], find_group: Callable[[str], Group | None], table: OffsetTable, draft: Draft
) -> None:
    """One step of a round over these groups; what is left is noted, and the next step is due at once."""
    looked_at = 0
    waiting = iter(group_ids)
    unfinished: tuple[str, ...] = ()
    for group_id in waiting:
        group = find_group(group_id)
        if group is not None:
            looked_at += 1 + sum(map(len, table.of(group_id).values()))
            if not _expire_group(group, table, draft):
                unfinished = (group_id,)
        if looked_at >= _OFFSETS_PER_STEP:
            break
    rest = (*unfinished, *waiting)
    draft.note(ExpiryPaused(rest))
    draft.arm(EXPIRY, 0 if rest else draft.limits.offsets_retention_check_interval_ms)


def _expire_group(group: Group, table: OffsetTable, draft: Draft) -> bool:
    """A group without members goes with its last offset. While a transaction is about to commit one, neither it nor

    what it takes the place of does. False: there is more than one batch can take.
    """
    pending = table.pending
    kept = group.group_id in pending
    aged: dict[str, list[int]] = {}
    for topic, partitions in table.of(group.group_id).items():
        expired = [number for number, offset in partitions.items() if _is_expired(group, offset, draft)]
        kept = kept or len(expired) < len(partitions)
        if expired:
            aged[topic] = expired
    # The subscriptions of a large group are worth reading only if something could expire.
    subscribed = group.subscribed_among(aged) if aged else ()
    tombstones: list[OffsetCommit] = []
    for topic, expired in aged.items():
        if topic in subscribed:
            kept = True
            continue
        if group.group_id in pending:
            expired = [number for number in expired if not pending.senders(group.group_id, topic, number)]
        tombstones += [OffsetCommit(group.group_id, topic, partition, None) for partition in expired]
    draft.write(*tombstones[:FORGOTTEN_AT_ONCE])
    if len(tombstones) > FORGOTTEN_AT_ONCE:
        return False
    if not kept and group.is_empty:
        draft.write(*group.tombstones())
    return True


def _is_expired(group: Group, offset: CommittedOffset, draft: Draft) -> bool:
    starts_ms = group.retention_starts_ms(offset.committed_ms)
    if starts_ms is None:
        return False
    if offset.expires_ms >= 0:
        return draft.now_ms >= offset.expires_ms
    return draft.now_ms - starts_ms >= draft.limits.offsets_retention_ms
