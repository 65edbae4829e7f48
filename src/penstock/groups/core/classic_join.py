"""JoinGroup in a classic group: who may come in, under which id, and whether a rebalance follows."""

from __future__ import annotations

import msgspec

from penstock.errors import Problem
from penstock.groups.core.answers import JoinAnswer
from penstock.groups.core.classic_protocols import can_join, select_protocol
from penstock.groups.core.classic_rebalance import (
    complete_join_if_ready,
    joined_answer,
    prepare_rebalance,
    rebalance_without_removed,
    remove_member,
    renew_session,
    session,
)
from penstock.groups.core.classic_state import ClassicGroup, ClassicState, protocols_bytes
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import JoinGroup
from penstock.groups.core.limits import MAX_PENDING_MEMBERS, NEW_MEMBER_JOIN_TIMEOUT_MS, GroupLimits
from penstock.groups.core.records import StoredMember
from penstock.replication.core.machine import Parked


def request_problem(event: JoinGroup, limits: GroupLimits) -> Problem | None:
    """What is wrong with the request itself, whatever the group."""
    if not limits.min_session_timeout_ms <= event.session_timeout_ms <= limits.max_session_timeout_ms:
        return Problem.INVALID_SESSION_TIMEOUT
    return None


def join(group: ClassicGroup, event: JoinGroup, draft: Draft) -> JoinAnswer | Parked:
    if not _has_room(group, event, draft.limits):
        if event.member_id in group.members:
            remove_member(group, event.member_id, Problem.GROUP_FULL, draft)
            rebalance_without_removed(group, draft)
        return JoinAnswer(Problem.GROUP_FULL, "")
    if not can_join(group, event.protocol_type, event.protocols):
        return JoinAnswer(Problem.INCONSISTENT_GROUP_PROTOCOL, event.member_id)
    if not event.member_id:
        return _join_unknown(group, event, draft)
    if event.member_id in group.pending and event.group_instance_id is None:
        return _add(group, event, event.member_id, draft)
    problem = group.member_problem(event.member_id, event.group_instance_id)
    if problem is not None:
        return JoinAnswer(problem, event.member_id)
    return _rejoin(group, event, draft)


def _has_room(group: ClassicGroup, event: JoinGroup, limits: GroupLimits) -> bool:
    """During a rebalance those who already rejoined count, so that a lowered limit removes the last to come."""
    known = event.member_id
    if not known and event.group_instance_id is not None:
        known = group.static_member_id(event.group_instance_id) or ""
    if group.state is ClassicState.EMPTY:
        return _weight_fits(group, event, limits)
    if group.state is ClassicState.PREPARING_REBALANCE:
        has_place = known in group.joins or len(group.joins) < limits.max_size
    else:
        has_place = known in group.members or len(group.members) < limits.max_size
    return has_place and _weight_fits(group, event, limits)


def _weight_fits(group: ClassicGroup, event: JoinGroup, limits: GroupLimits) -> bool:
    return group.weight_bytes + protocols_bytes(event.protocols) <= limits.max_group_bytes


def _join_unknown(group: ClassicGroup, event: JoinGroup, draft: Draft) -> JoinAnswer | Parked:
    if event.group_instance_id is not None:
        new_member_id = f"{event.group_instance_id}-{event.fresh_id}"
        old_member_id = group.static_member_id(event.group_instance_id)
        if old_member_id is None:
            return _add(group, event, new_member_id, draft)
        return _replace_static(group, event, old_member_id, new_member_id, draft)
    new_member_id = f"{event.client_id}-{event.fresh_id}"
    if not event.needs_known_member_id:
        return _add(group, event, new_member_id, draft)
    if len(group.pending) >= MAX_PENDING_MEMBERS:
        return JoinAnswer(Problem.GROUP_FULL, "")
    group.pending.add(new_member_id)
    draft.arm(session(group, new_member_id), event.session_timeout_ms)
    return JoinAnswer(Problem.MEMBER_ID_REQUIRED, new_member_id)


def _add(group: ClassicGroup, event: JoinGroup, member_id: str, draft: Draft) -> Parked:
    if not group.members:
        group.protocol_type = event.protocol_type
    if group.initial_delay is not None:
        group.initial_delay = msgspec.structs.replace(group.initial_delay, grew=True)
    group.pending.discard(member_id)
    group.newcomers.add(member_id)
    group.put(_member(event, member_id))
    parked = _park(group, member_id, draft)
    draft.arm(session(group, member_id), NEW_MEMBER_JOIN_TIMEOUT_MS)
    _rebalance(group, draft)
    return parked


def _rejoin(group: ClassicGroup, event: JoinGroup, draft: Draft) -> JoinAnswer | Parked:
    """A member comes again: it lost an answer, has something new to say, or was told to."""
    member = group.members[event.member_id]
    unchanged = member.protocols == event.protocols
    leads_stable = group.state is ClassicState.STABLE and group.leader == event.member_id
    if group.state is not ClassicState.PREPARING_REBALANCE and unchanged and not leads_stable:
        renew_session(group, event.member_id, draft)
        return joined_answer(group, event.member_id)
    # A leader rejoins to have the work shared out anew, for example because a topic grew.
    group.put(_member(event, event.member_id, member))
    parked = _park(group, event.member_id, draft)
    _rebalance(group, draft)
    return parked


def _replace_static(
    group: ClassicGroup, event: JoinGroup, old_member_id: str, new_member_id: str, draft: Draft
) -> JoinAnswer | Parked:
    """A static member restarted: it takes over its own place under a new id, and whoever used the old one is fenced."""
    old_leader = group.leader
    had_synced = old_member_id not in group.unsynced
    _rename(group, event, old_member_id, new_member_id, draft)
    renew_session(group, new_member_id, draft)
    if group.state is not ClassicState.STABLE or group.protocol_name != select_protocol(group):
        # Also while the assignment is awaited: the leader is computing it for the old id.
        parked = _park(group, new_member_id, draft)
        _rebalance(group, draft)
        return parked
    if not had_synced:
        group.unsynced.add(new_member_id)
    draft.write(group.stored())
    answer = joined_answer(group, new_member_id, skip_assignment=group.leader == new_member_id)
    if event.can_skip_assignment:
        return answer
    # A client that cannot be told to skip it must not believe that it leads: nobody else would follow.
    return msgspec.structs.replace(answer, leader=old_leader or "", skip_assignment=False, members=())


def _rename(group: ClassicGroup, event: JoinGroup, old_member_id: str, new_member_id: str, draft: Draft) -> None:
    """Keeps the member's place among the others, its assignment, and the lead if it had it."""
    renamed = _member(event, new_member_id, group.members[old_member_id])
    successors = list(group.members.values())
    leads = group.leader == old_member_id
    remove_member(group, old_member_id, Problem.FENCED_INSTANCE_ID, draft)
    group.put(renamed)
    group.members = {
        member.member_id: member
        for member in (renamed if member.member_id == old_member_id else member for member in successors)
    }
    if leads:
        group.leader = new_member_id


def _member(event: JoinGroup, member_id: str, known: StoredMember | None = None) -> StoredMember:
    timeout_ms = event.rebalance_timeout_ms if event.rebalance_timeout_ms >= 0 else event.session_timeout_ms
    return StoredMember(
        member_id=member_id,
        group_instance_id=known.group_instance_id if known else event.group_instance_id,
        client_id=known.client_id if known else event.client_id,
        client_host=known.client_host if known else event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=timeout_ms,
        protocols=event.protocols,
        assignment=known.assignment if known else b"",
    )


def _park(group: ClassicGroup, member_id: str, draft: Draft) -> Parked:
    """A second JoinGroup of the same member takes the place of the first, whose sender has most likely gone."""
    draft.release(group.joins.get(member_id), JoinAnswer(Problem.REBALANCE_IN_PROGRESS, member_id))
    parked = draft.park()
    group.joins[member_id] = parked.ticket
    return parked


def _rebalance(group: ClassicGroup, draft: Draft) -> None:
    if group.state is ClassicState.PREPARING_REBALANCE:
        complete_join_if_ready(group, draft)
    else:
        prepare_rebalance(group, draft)
