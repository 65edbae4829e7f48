"""The classic protocol in a KIP-848 group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that have yet to

be upgraded. Nobody waits here: a member gets its part of the target at once, or as soon as others have given it up, and
is told by its heartbeats when to rejoin.
"""

from __future__ import annotations

from penstock.errors import PenstockError, Problem
from penstock.groups.core.answers import HeartbeatAnswer, JoinAnswer, LeaveAnswer, MemberLeft, SyncAnswer
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_downgrade import embedded_assignment
from penstock.groups.core.consumer_leave import fence
from penstock.groups.core.consumer_reconcile import MemberState
from penstock.groups.core.consumer_state import ConsumerGroup, ConsumerMember
from penstock.groups.core.consumer_timers import expect_join, has_synced, renew_session
from penstock.groups.core.consumer_validation import known_member
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.events import LeaveGroup, LeavingMember, MemberHeartbeat, SyncGroup
from penstock.groups.core.group import CONSUMER_PROTOCOL_TYPE


def sync(group: ConsumerGroup, event: SyncGroup, context: ConsumerContext) -> SyncAnswer:
    member = _classic_member(group, event.member_id, event.group_instance_id)
    classic = member.subscription.classic
    assert classic is not None
    if event.generation != member.epoch:
        raise PenstockError(Problem.ILLEGAL_GENERATION, f"member {member.member_id} is at epoch {member.epoch}")
    protocol_name = classic.protocols[0][0]
    if event.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or event.protocol_name not in (None, protocol_name):
        raise PenstockError(Problem.INCONSISTENT_GROUP_PROTOCOL, f"member {member.member_id} joined as {protocol_name}")
    if group.epoch > member.epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        expect_join(group, member, context)
        return SyncAnswer(Problem.REBALANCE_IN_PROGRESS)
    has_synced(group, member, context)
    renew_session(group, member, context)
    return SyncAnswer(None, CONSUMER_PROTOCOL_TYPE, protocol_name, embedded_assignment(member, classic, context))


def member_heartbeat(group: ConsumerGroup, event: MemberHeartbeat, context: ConsumerContext) -> HeartbeatAnswer:
    member = _classic_member(group, event.member_id, event.group_instance_id)
    if event.generation != member.epoch:
        raise PenstockError(Problem.ILLEGAL_GENERATION, f"member {member.member_id} is at epoch {member.epoch}")
    renew_session(group, member, context)
    if not _should_rejoin(group, member):
        return HeartbeatAnswer(None)
    expect_join(group, member, context)
    return HeartbeatAnswer(Problem.REBALANCE_IN_PROGRESS)


def _should_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """The group has moved on; or it has partitions to give up; or some that it waits for are free now."""
    if member.epoch < group.epoch or member.current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.current.state is MemberState.UNRELEASED_PARTITIONS and _has_free_partitions(group, member)


def _has_free_partitions(group: ConsumerGroup, member: ConsumerMember) -> bool:
    is_free = group.free_for(member.member_id)
    assigned = member.current.assigned
    return any(
        is_free(topic_id, index)
        for topic_id, indexes in group.target_of(member.member_id).items()
        for index in indexes - assigned.get(topic_id, frozenset())
    )


def leave(work: ConsumerWork, event: LeaveGroup, context: ConsumerContext) -> LeaveAnswer:
    rows = []
    gone: dict[str, None] = {}
    for leaving in event.members:
        try:
            gone[_leaving(work.group, leaving).member_id] = None
            problem = None
        except PenstockError as error:
            problem = error.problem
        rows.append(MemberLeft(leaving.member_id, leaving.group_instance_id, problem))
    if gone:
        fence(work, gone, context)
    return LeaveAnswer(None, tuple(rows))


def _leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        member_id = group.static_members.get(leaving.group_instance_id, "")
    return _classic_member(group, member_id, leaving.group_instance_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    member = known_member(group, member_id, instance_id)
    if not member.is_classic:
        raise PenstockError(Problem.UNKNOWN_MEMBER, f"member {member_id} does not use the classic protocol")
    return member


def joined(member: ConsumerMember) -> JoinAnswer:
    """Nobody leads: the coordinator assigns."""
    classic = member.subscription.classic
    assert classic is not None
    return JoinAnswer(
        problem=None,
        member_id=member.member_id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=classic.protocols[0][0],
    )
