"""The KIP-848 group protocol: what machine.py calls."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import PenstockError, Problem
from penstock.groups.core.classic_state import ClassicGroup
from penstock.groups.core.consumer_context import ConsumerContext
from penstock.groups.core.consumer_describe import describe
from penstock.groups.core.consumer_events import (
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedConsumerGroup,
    TopicsChanged,
)
from penstock.groups.core.consumer_heartbeat import heartbeat
from penstock.groups.core.consumer_leave import deadlines_passed, leave
from penstock.groups.core.consumer_limits import ConsumerLimits
from penstock.groups.core.consumer_mixed import ClassicAnswer, ClassicEvent, answer_classic, finish_removal, refused
from penstock.groups.core.consumer_reconcile import NOT_JOINED_EPOCH
from penstock.groups.core.consumer_state import ConsumerGroup
from penstock.groups.core.consumer_timers import start_clocks
from penstock.groups.core.consumer_upgrade import upgrade
from penstock.groups.core.consumer_validation import check_request
from penstock.groups.core.consumer_volatile import ConsumerVolatile, TopicsLearned
from penstock.groups.core.consumer_work import ConsumerWork
from penstock.groups.core.deadlines import Deadline
from penstock.groups.core.draft import Draft
from penstock.groups.core.group import Group
from penstock.replication.core.machine import Parked


class ConsumerProtocol:
    """Every method takes the group as found, None if there is none, and leaves it as it is."""

    def __init__(self, limits: ConsumerLimits, known: ConsumerVolatile) -> None:
        self._limits = limits
        self._known = known

    def learn_topics(self, event: TopicsChanged, draft: Draft) -> None:
        """Groups compare them with what they know at their next heartbeat; groups without heartbeats have no need."""
        draft.note(TopicsLearned(event.topics))

    def heartbeat(self, group: Group | None, event: ConsumerGroupHeartbeat, draft: Draft) -> ConsumerHeartbeatAnswer:
        """A refusal changes nothing, not even the member's session: who asks may be somebody else."""
        context = self._context(draft)
        try:
            check_request(event, self._limits)
            work = _work_on(group, event, context)
            if event.member_epoch >= NOT_JOINED_EPOCH:
                answer = heartbeat(work, event, context)
                work.finish(draft)
            else:
                had_modern = work.group.has_modern_members
                answer = leave(work, event, context)
                finish_removal(work, had_modern, context)
        except PenstockError as error:
            draft.discard()
            return ConsumerHeartbeatAnswer(problem=error.problem, text=str(error), member_id=event.member_id)
        return answer

    def classic_member(self, group: ConsumerGroup, event: ClassicEvent, draft: Draft) -> ClassicAnswer | Parked:
        """Requests of the classic protocol, from members that have yet to be upgraded."""
        try:
            return answer_classic(group, event, self._context(draft))
        except PenstockError as error:
            draft.discard()
            return refused(event, error.problem)

    def describe(self, group_id: str, group: Group | None) -> DescribedConsumerGroup:
        return describe(group_id, group, self._known.topics, self._limits)

    def deadlines_passed(self, group: ConsumerGroup, deadlines: Iterable[Deadline], draft: Draft) -> None:
        work = ConsumerWork(group, self._limits)
        deadlines_passed(work, deadlines, self._context(draft))
        finish_removal(work, group.has_modern_members, self._context(draft))

    def start_clocks(self, group: ConsumerGroup, draft: Draft) -> None:
        start_clocks(group, self._context(draft))

    def _context(self, draft: Draft) -> ConsumerContext:
        return ConsumerContext(limits=self._limits, known=self._known, draft=draft)


def _work_on(group: Group | None, event: ConsumerGroupHeartbeat, context: ConsumerContext) -> ConsumerWork:
    """Who joins makes the group, also out of what an empty classic group has left. For anybody else a group that is

    not there is UNKNOWN_MEMBER, unlike in Kafka: clients take GROUP_ID_NOT_FOUND for fatal, but all they need is to
    join again.
    """
    if isinstance(group, ConsumerGroup):
        return ConsumerWork(group, context.limits)
    if event.member_epoch != NOT_JOINED_EPOCH:
        raise PenstockError(Problem.UNKNOWN_MEMBER, f"{event.member_id} is not a member of group {event.group_id}")
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return upgrade(group, context)
    work = ConsumerWork(ConsumerGroup(event.group_id), context.limits, is_copy=True)
    if isinstance(group, ClassicGroup):
        context.draft.write(*group.tombstones())
        # It may have been a KIP-848 group before: epochs go on from its generations, so that no member gets one twice.
        work.begin_epoch(group.generation, metadata_hash=0)
    return work
