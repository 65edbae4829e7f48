"""SyncGroup and Heartbeat in a classic group."""

from __future__ import annotations

import msgspec

from penstock.errors import Problem
from penstock.groups.core.answers import HeartbeatAnswer, SyncAnswer
from penstock.groups.core.classic_rebalance import renew_session
from penstock.groups.core.classic_state import ClassicGroup, ClassicState
from penstock.groups.core.deadlines import Deadline, Purpose
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import MemberHeartbeat, SyncGroup
from penstock.replication.core.machine import Parked


def sync(group: ClassicGroup, event: SyncGroup, draft: Draft) -> SyncAnswer | Parked:
    problem = _sync_problem(group, event)
    if problem is not None:
        return SyncAnswer(problem)
    if group.leader == event.member_id and group.state is ClassicState.COMPLETING_REBALANCE:
        return _assign(group, event, draft)
    _mark_synced(group, event.member_id, draft)
    renew_session(group, event.member_id, draft)
    if group.state is ClassicState.STABLE:
        return _assignment(group, event.member_id)
    draft.release(group.syncs.get(event.member_id), SyncAnswer(Problem.REBALANCE_IN_PROGRESS))
    parked = draft.park()
    group.syncs[event.member_id] = parked.ticket
    return parked


def _sync_problem(group: ClassicGroup, event: SyncGroup) -> Problem | None:
    problem = group.member_problem(event.member_id, event.group_instance_id)
    if problem is not None:
        return problem
    if event.generation != group.generation:
        return Problem.ILLEGAL_GENERATION
    if event.protocol_type not in (None, group.protocol_type) or event.protocol_name not in (None, group.protocol_name):
        return Problem.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return Problem.REBALANCE_IN_PROGRESS
    return None


def _assign(group: ClassicGroup, event: SyncGroup, draft: Draft) -> SyncAnswer:
    """The leader has decided. Whom it left out gets nothing; ids that it made up are ignored."""
    assignments = dict(event.assignments)
    assigned_bytes = sum(len(assignments.get(member_id, b"")) for member_id in group.members)
    if group.weight_bytes + assigned_bytes > draft.limits.max_group_bytes:
        return SyncAnswer(Problem.RECORDS_TOO_LARGE)
    group.members = {
        member_id: msgspec.structs.replace(member, assignment=assignments.get(member_id, b""))
        for member_id, member in group.members.items()
    }
    group.state = ClassicState.STABLE
    group.state_since_ms = draft.now_ms
    draft.write(group.stored())
    for member_id, ticket in group.syncs.items():
        draft.release(ticket, _assignment(group, member_id))
        renew_session(group, member_id, draft)
    group.syncs.clear()
    _mark_synced(group, event.member_id, draft)
    renew_session(group, event.member_id, draft)
    return _assignment(group, event.member_id)


def _mark_synced(group: ClassicGroup, member_id: str, draft: Draft) -> None:
    group.unsynced.discard(member_id)
    if not group.unsynced:
        draft.disarm(Deadline(group.group_id, Purpose.SYNC_PHASE))


def _assignment(group: ClassicGroup, member_id: str) -> SyncAnswer:
    return SyncAnswer(None, group.protocol_type, group.protocol_name, group.members[member_id].assignment)


def heartbeat(group: ClassicGroup, event: MemberHeartbeat, draft: Draft) -> HeartbeatAnswer:
    """Only reads the group, so that it needs no copy of it."""
    problem = group.member_problem(event.member_id, event.group_instance_id)
    if problem is not None:
        return HeartbeatAnswer(problem)
    if event.generation != group.generation:
        return HeartbeatAnswer(Problem.ILLEGAL_GENERATION)
    renew_session(group, event.member_id, draft)
    if group.state is ClassicState.PREPARING_REBALANCE:
        return HeartbeatAnswer(Problem.REBALANCE_IN_PROGRESS)
    return HeartbeatAnswer(None)
