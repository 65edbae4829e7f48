"""The classic group protocol: finds the group, lets the phases decide on a copy of it, and notes the outcome."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import Problem
from penstock.groups.core.answers import HeartbeatAnswer, JoinAnswer, LeaveAnswer, MemberLeft, SyncAnswer
from penstock.groups.core.classic_join import join, request_problem
from penstock.groups.core.classic_leave import deadline_passed, leave, start_clocks
from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.classic_sync import heartbeat, sync
from penstock.groups.core.deadlines import Deadline
from penstock.groups.core.draft import Draft
from penstock.groups.core.events import JoinGroup, LeaveGroup, MemberHeartbeat, SyncGroup
from penstock.groups.core.volatile import ClassicRemembered
from penstock.replication.core.machine import Parked


class ClassicProtocol:
    """Every method takes the group as found, None if there is none, and leaves it as it is."""

    def join(self, group: ClassicGroup | None, event: JoinGroup, draft: Draft) -> JoinAnswer | Parked:
        problem = request_problem(event, draft.limits)
        if problem is not None:
            return JoinAnswer(problem, event.member_id)
        if group is None:
            if event.member_id:
                return JoinAnswer(Problem.UNKNOWN_MEMBER, event.member_id)
            group = ClassicGroup(event.group_id)
        working = group.copy()
        answer = join(working, event, draft)
        draft.note(ClassicRemembered(working))
        return answer

    def sync(self, group: ClassicGroup | None, event: SyncGroup, draft: Draft) -> SyncAnswer | Parked:
        if group is None:
            return SyncAnswer(Problem.UNKNOWN_MEMBER)
        working = group.copy()
        answer = sync(working, event, draft)
        draft.note(ClassicRemembered(working))
        return answer

    def heartbeat(self, group: ClassicGroup | None, event: MemberHeartbeat, draft: Draft) -> HeartbeatAnswer:
        if group is None:
            return HeartbeatAnswer(Problem.UNKNOWN_MEMBER)
        return heartbeat(group, event, draft)

    def leave(self, group: ClassicGroup | None, event: LeaveGroup, draft: Draft) -> LeaveAnswer:
        if group is None:
            unknown = Problem.UNKNOWN_MEMBER
            return LeaveAnswer(
                None, tuple(MemberLeft(row.member_id, row.group_instance_id, unknown) for row in event.members)
            )
        working = group.copy()
        answer = leave(working, event, draft)
        draft.note(ClassicRemembered(working))
        return answer

    def deadlines_passed(self, group: ClassicGroup, deadlines: Iterable[Deadline], draft: Draft) -> None:
        working = group.copy()
        for deadline in deadlines:
            # One that fell due may have been moved on by what another one led to.
            if not draft.has_moved(deadline):
                deadline_passed(working, deadline, draft)
        draft.note(ClassicRemembered(working))

    def start_clocks(self, group: ClassicGroup, draft: Draft) -> None:
        working = group.copy()
        start_clocks(working, draft)
        draft.note(ClassicRemembered(working))
