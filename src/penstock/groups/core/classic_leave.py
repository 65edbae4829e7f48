"""How members of a classic group go: by LeaveGroup, or because their time is up."""

from __future__ import annotations

from penstock.errors import Problem
from penstock.groups.core.answers import LeaveAnswer, MemberLeft
from penstock.groups.core.classic_rebalance import (
    join_phase_ended,
    prepare_rebalance,
    rebalance_without_removed,
    remove_member,
    renew_session,
    session,
)
from penstock.groups.core.classic_state import ClassicGroup, ClassicState
from penstock.groups.core.deadlines import Deadline, Purpose
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import LeaveGroup, LeavingMember


def leave(group: ClassicGroup, event: LeaveGroup, draft: Draft) -> LeaveAnswer:
    rows = []
    member_count = len(group.members)
    for leaving in event.members:
        problem = _leave(group, leaving, draft)
        rows.append(MemberLeft(leaving.member_id, leaving.group_instance_id, problem))
    # A pending id that is given back moves nobody's partitions, but may be the last that a rebalance waits for.
    if len(group.members) < member_count or group.state is ClassicState.PREPARING_REBALANCE:
        rebalance_without_removed(group, draft)
    return LeaveAnswer(None, tuple(rows))


def _leave(group: ClassicGroup, leaving: LeavingMember, draft: Draft) -> Problem | None:
    member_id: str | None = leaving.member_id
    if not leaving.member_id and leaving.group_instance_id is not None:
        member_id = group.static_member_id(leaving.group_instance_id)
    elif leaving.member_id not in group.pending:
        problem = group.member_problem(leaving.member_id, leaving.group_instance_id)
        if problem is not None:
            return problem
    if not member_id:
        return Problem.UNKNOWN_MEMBER
    remove_member(group, member_id, Problem.UNKNOWN_MEMBER, draft)
    return None


def deadline_passed(group: ClassicGroup, deadline: Deadline, draft: Draft) -> None:
    match deadline.purpose:
        case Purpose.SESSION:
            _session_expired(group, deadline.member_id, draft)
        case Purpose.JOIN_PHASE:
            join_phase_ended(group, draft)
        case Purpose.SYNC_PHASE:
            _sync_phase_expired(group, draft)
        case _:
            draft.disarm(deadline)


def _session_expired(group: ClassicGroup, member_id: str, draft: Draft) -> None:
    draft.disarm(session(group, member_id))
    waits_for_us = member_id in group.joins or member_id in group.syncs
    if waits_for_us and member_id not in group.newcomers:
        # It cannot send heartbeats while its request is parked; its session goes on with the answer.
        return
    if member_id in group.members or member_id in group.pending:
        was_member = member_id in group.members
        remove_member(group, member_id, Problem.UNKNOWN_MEMBER, draft)
        if was_member or group.state is ClassicState.PREPARING_REBALANCE:
            rebalance_without_removed(group, draft)


def _sync_phase_expired(group: ClassicGroup, draft: Draft) -> None:
    """Members that joined but never asked for their assignment would hold partitions that nobody reads."""
    draft.disarm(Deadline(group.group_id, Purpose.SYNC_PHASE))
    if not group.unsynced or group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
        return
    for member_id in tuple(group.unsynced):
        remove_member(group, member_id, Problem.UNKNOWN_MEMBER, draft)
    prepare_rebalance(group, draft)


def start_clocks(group: ClassicGroup, draft: Draft) -> None:
    """After replay: sessions begin now, because how long a member has been silent is not known."""
    for member_id in group.members:
        if not draft.is_armed(session(group, member_id)):
            renew_session(group, member_id, draft)
    sync_phase = Deadline(group.group_id, Purpose.SYNC_PHASE)
    if group.unsynced and not draft.is_armed(sync_phase):
        draft.arm(sync_phase, group.rebalance_timeout_ms)
    if len(group.members) > draft.limits.max_size and group.state is not ClassicState.PREPARING_REBALANCE:
        prepare_rebalance(group, draft)
