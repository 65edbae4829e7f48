"""The two phases of a classic rebalance: everybody joins, then everybody learns the leader's assignment.

All functions work on a group that is the caller's own copy.
"""

from __future__ import annotations

import msgspec

from penstock.errors import Problem
from penstock.groups.core.answers import JoinAnswer, JoinedMember, SyncAnswer
from penstock.groups.core.classic_protocols import metadata_of, select_protocol
from penstock.groups.core.classic_state import ClassicGroup, ClassicState, InitialDelay
from penstock.groups.core.deadlines import Deadline, Purpose
from penstock.groups.core.draft import Draft


def session(group: ClassicGroup, member_id: str) -> Deadline:
    return Deadline(group.group_id, Purpose.SESSION, member_id)


def renew_session(group: ClassicGroup, member_id: str, draft: Draft) -> None:
    draft.arm(session(group, member_id), group.members[member_id].session_timeout_ms)


def remove_member(group: ClassicGroup, member_id: str, problem: Problem, draft: Draft) -> None:
    """Takes out a member or a pending id; what it has parked is answered with the problem."""
    draft.release(group.joins.pop(member_id, None), JoinAnswer(problem, ""))
    draft.release(group.syncs.pop(member_id, None), SyncAnswer(problem))
    draft.disarm(session(group, member_id))
    group.drop(member_id)


def rebalance_without_removed(group: ClassicGroup, draft: Draft) -> None:
    """After members were removed: those who stay share out the work anew, or need wait for one fewer."""
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        prepare_rebalance(group, draft)
    else:
        complete_join_if_ready(group, draft)


def prepare_rebalance(group: ClassicGroup, draft: Draft) -> None:
    """From any state but PREPARING_REBALANCE: waits for all members to (re)join."""
    if group.state is ClassicState.COMPLETING_REBALANCE:
        for member_id, ticket in group.syncs.items():
            draft.release(ticket, SyncAnswer(Problem.REBALANCE_IN_PROGRESS))
            renew_session(group, member_id, draft)
        group.syncs.clear()
    group.unsynced.clear()
    draft.disarm(Deadline(group.group_id, Purpose.SYNC_PHASE))
    was_empty = group.state is ClassicState.EMPTY
    group.state = ClassicState.PREPARING_REBALANCE
    delay_ms = draft.limits.initial_rebalance_delay_ms
    if was_empty and delay_ms > 0:
        group.initial_delay = InitialDelay(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        _arm_join_phase(group, delay_ms, draft)
    elif was_empty or group.all_joined:
        complete_join(group, draft)
    else:
        _arm_join_phase(group, group.rebalance_timeout_ms, draft)


def complete_join_if_ready(group: ClassicGroup, draft: Draft) -> None:
    if group.state is ClassicState.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined:
        complete_join(group, draft)


def join_phase_ended(group: ClassicGroup, draft: Draft) -> None:
    """The deadline of the join phase has passed."""
    if group.state is not ClassicState.PREPARING_REBALANCE:
        draft.disarm(Deadline(group.group_id, Purpose.JOIN_PHASE))
        return
    initial = group.initial_delay
    if initial is not None and initial.grew and initial.remaining_ms > 0:
        delay_ms = min(draft.limits.initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_delay = InitialDelay(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
        _arm_join_phase(group, delay_ms, draft)
    else:
        complete_join(group, draft)


def complete_join(group: ClassicGroup, draft: Draft) -> None:
    """Starts the next generation with those who are there. Static members may be absent: they keep their place until

    their session ends.
    """
    for member_id in [member_id for member_id in group.members if member_id not in group.joins]:
        if group.members[member_id].group_instance_id is None:
            remove_member(group, member_id, Problem.UNKNOWN_MEMBER, draft)
    if group.members and not group.joins:
        # Nobody to lead: absent static members either come back or lose their session. A client may have sent a
        # rebalance timeout of nothing, which must not make this a busy loop.
        _arm_join_phase(group, max(group.rebalance_timeout_ms, draft.limits.min_session_timeout_ms), draft)
        return
    draft.disarm(Deadline(group.group_id, Purpose.JOIN_PHASE))
    if group.leader not in group.joins:
        group.leader = next(iter(group.joins), None)
    group.initial_delay = None
    group.generation += 1
    group.state_since_ms = draft.now_ms
    group.protocol_name = select_protocol(group)
    if group.members:
        _await_assignment(group, draft)
    else:
        group.state = ClassicState.EMPTY
        draft.write(group.stored())


def _await_assignment(group: ClassicGroup, draft: Draft) -> None:
    group.state = ClassicState.COMPLETING_REBALANCE
    for member_id, member in group.members.items():
        if member.assignment:
            group.members[member_id] = msgspec.structs.replace(member, assignment=b"")
    draft.write(group.stored())
    for member_id in group.members:
        draft.release(group.joins.get(member_id), joined_answer(group, member_id))
        renew_session(group, member_id, draft)
    group.joins.clear()
    group.newcomers.clear()
    group.unsynced = set(group.members)
    draft.arm(Deadline(group.group_id, Purpose.SYNC_PHASE), group.rebalance_timeout_ms)


def joined_answer(group: ClassicGroup, member_id: str, skip_assignment: bool = False) -> JoinAnswer:
    """The current generation, as this member is told of it."""
    members: tuple[JoinedMember, ...] = ()
    if member_id == group.leader:
        members = tuple(
            JoinedMember(member.member_id, member.group_instance_id, metadata_of(member, group.protocol_name))
            for member in group.members.values()
        )
    return JoinAnswer(
        problem=None,
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        skip_assignment=skip_assignment,
        members=members,
    )


def _arm_join_phase(group: ClassicGroup, after_ms: int, draft: Draft) -> None:
    draft.arm(Deadline(group.group_id, Purpose.JOIN_PHASE), after_ms)
