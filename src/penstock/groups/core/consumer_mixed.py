"""Where the two protocols meet: classic requests in a KIP-848 group, and the way back to a classic group."""

from __future__ import annotations

from penstock.errors import PenstockError, Problem
from penstock.groups.core.answers import HeartbeatAnswer, JoinAnswer, LeaveAnswer, SyncAnswer
from penstock.groups.core.classic_join import join as classic_join
from penstock.groups.core.classic_join import request_problem
from penstock.groups.core.consumer_classic import leave, member_heartbeat, sync
from penstock.groups.core.consumer_classic_join import join
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_downgrade import can_downgrade, downgrade
from penstock.groups.core.consumer_leave import fence
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.events import JoinGroup, LeaveGroup, MemberHeartbeat, SyncGroup
from penstock.groups.core.volatile import ClassicRemembered
from penstock.replication.core.machine import Parked

ClassicEvent = JoinGroup | SyncGroup | MemberHeartbeat | LeaveGroup
ClassicAnswer = JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer


def answer_classic(group: ConsumerGroup, event: ClassicEvent, context: ConsumerContext) -> ClassicAnswer | Parked:
    match event:
        case JoinGroup():
            return _join(group, event, context)
        case SyncGroup():
            return sync(group, event, context)
        case MemberHeartbeat():
            return member_heartbeat(group, event, context)
        case LeaveGroup():
            work = ConsumerWork(group, context.limits)
            answer = leave(work, event, context)
            work.finish(context.draft)
            return answer


def _join(group: ConsumerGroup, event: JoinGroup, context: ConsumerContext) -> JoinAnswer | Parked:
    problem = request_problem(event, context.draft.limits)
    if problem is not None:
        raise PenstockError(problem, "the request is not valid")
    work = ConsumerWork(group, context.limits)
    replaced = group.static_members.get(event.group_instance_id or "")
    if replaced is not None and not event.member_id and not group.members[replaced].is_classic:
        # A static member was set back to the classic protocol. If it was the last of its kind, so is the group.
        fenced = ConsumerWork(group, context.limits)
        fence(fenced, (replaced,), context)
        if can_downgrade(fenced.group, context):
            classic = downgrade(fenced, context)
            answer = classic_join(classic, event, context.draft)
            if isinstance(answer, JoinAnswer) and answer.problem is not None:
                # Who is refused takes nobody's place.
                context.draft.discard()
            else:
                context.draft.note(ClassicRemembered(classic))
            return answer
        context.draft.discard()
    joined = join(work, event, context)
    work.finish(context.draft)
    return joined


def finish_removal(work: ConsumerWork, had_modern: bool, context: ConsumerContext) -> None:
    """Members have gone. If those who are left all use the classic protocol, the group does so, too."""
    group = work.group
    if had_modern and group.members and not group.has_modern_members and can_downgrade(group, context):
        context.draft.note(ClassicRemembered(downgrade(work, context)))
    else:
        work.finish(context.draft)


def refused(event: ClassicEvent, problem: Problem) -> ClassicAnswer:
    match event:
        case JoinGroup():
            return JoinAnswer(problem, event.member_id)
        case SyncGroup():
            return SyncAnswer(problem)
        case MemberHeartbeat():
            return HeartbeatAnswer(problem)
        case LeaveGroup():
            return LeaveAnswer(problem)
