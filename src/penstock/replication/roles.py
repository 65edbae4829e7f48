"""Who leads and who follows: from what the controller has decided to what this broker does about each partition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.cluster.core.messages import IsrWish
from penstock.cluster.core.view import PartitionNode
from penstock.config.replication import ReplicationSettings
from penstock.coordination.paths import NO_LEADER, PartitionState
from penstock.errors import PenstockError, Problem, Refused
from penstock.replication.core.followers import LeadershipSettings
from penstock.replication.core.following import Following
from penstock.replication.core.in_sync import Altered, Answer, Proposal, answer_of
from penstock.replication.core.leadership import Leadership
from penstock.replication.partition import NOT_LEADING, Partition
from penstock.replication.resignations import IsrChanges, Resignations
from penstock.storage.holes import first_fresh_hole, first_hole

logger = logging.getLogger(__name__)

_NO_LEADER = Refused(Problem.NOT_LEADER, "nobody leads the partition now")
_NOT_AGAIN = Refused(Problem.NOT_LEADER, "the leader epoch of this broker is over, and it has been given no other yet")


class Fetching(Protocol):
    """Those who fetch for partitions that follow."""

    def follow(self, partition: Partition, leader: int) -> None:
        """From now on from this leader, and from no other."""

    def leave(self, partition: Partition) -> None: ...

    def cut(self, partition: Partition, offset: int) -> None:
        """Its log, in the background. It is settled then."""

    def keep_holes(self, partition: Partition) -> None:
        """Of its log, in the same way."""

    def go_on(self, partition: Partition) -> None:
        """It may be that there is something to fetch now."""

    def brokers_changed(self) -> None: ...

    def attach(self, take_role: Callable[[Partition], None]) -> None:
        """Whom to tell when a log that was being settled can be used again."""


OnRole = Callable[[Partition], None]


class Roles:
    """What a partition learns last counts, by its version. All methods run on the event loop's thread.

    It leads only in an epoch that was given to this life of the broker: whoever shows states has read them after the
    broker was admitted.
    """

    def __init__(
        self, image: Image, isr_changes: IsrChanges, fetching: Fetching, settings: ReplicationSettings, clock: Clock
    ) -> None:
        self.node_id = image.node_id
        self._image = image
        self._isr_changes = isr_changes
        self._fetching = fetching
        self._clock = clock
        most = settings.replica_lag_max_messages
        self._settings = LeadershipSettings(settings.replica_lag_time_max_ms, None if most < 0 else most)
        # Shared with all leaderships.
        self._live = dict(image.lasting_epochs)
        self._resignations = Resignations(self.node_id, isr_changes, self._live, clock)
        self._is_suspended = False
        self._listeners: list[OnRole] = []
        fetching.attach(self.take_role)

    def listen(self, on_role: OnRole) -> None:
        """Told when a partition begins to lead, under each new epoch, and when it has ceased to."""
        self._listeners.append(on_role)

    def learn(self, partition: Partition, state: PartitionState, version: int) -> None:
        """From the metadata, or from the controller itself."""
        has_role = partition.leadership is not None or partition.following is not None
        if version < partition.version or (version == partition.version and has_role):
            return
        partition.state, partition.version = state, version
        partition.when_failed = lambda: self._resignations.resign(partition)
        leadership = partition.leadership
        if leadership is not None:
            partition.heed(leadership.on_state(state, version, self._clock.now_ms()))
            if not leadership.is_over:
                return
            self._cease(partition, NOT_LEADING)
        if partition.settled.is_set():
            self.take_role(partition)

    def take_role(self, partition: Partition) -> None:
        """What its state says, now that nothing stands in the way."""
        state = partition.state
        if partition.log.failure is not None:
            self._neither(partition, Refused(Problem.STORAGE_FAILED, partition.log.failure))
            self._resignations.resign(partition)
        elif state.leader == self.node_id:
            if state.leader_epoch > partition.ended_epoch:
                self._lead(partition)
            elif partition.leadership is None:
                self._neither(partition, _NOT_AGAIN)
        elif state.leader == NO_LEADER or self.node_id not in state.replicas:
            self._neither(partition, _NO_LEADER if state.leader == NO_LEADER else NOT_LEADING)
        elif partition.following is None or partition.following.leader_epoch != state.leader_epoch:
            self._follow(partition)

    def brokers_changed(self, partitions: Iterable[Partition]) -> None:
        """Who is alive, in which epoch: leaders look at their followers."""
        self._live.clear()
        self._live.update(self._image.lasting_epochs)
        self._fetching.brokers_changed()
        now_ms = self._clock.now_ms()
        for partition in partitions:
            partition.expire(now_ms)

    def session(self, partitions: Iterable[Partition], *, suspended: bool) -> None:
        """While it is in doubt nothing is proposed; all else goes on."""
        self._is_suspended = self._resignations.is_suspended = suspended
        for partition in partitions:
            if partition.leadership is not None:
                partition.leadership.is_suspended = suspended

    def resign(self, partitions: Iterable[Partition]) -> None:
        """The session is lost: what this broker leads is given to others, or to it under another epoch."""
        for partition in partitions:
            if partition.leadership is not None:
                self._cease(partition, _NOT_AGAIN)

    def stand_still(self, partition: Partition) -> bool:
        """A controller is told what the log has: it stays so until there is a leader. False: it cannot be told now."""
        if partition.leadership is not None or not partition.settled.is_set() or partition.log.failure is not None:
            return False
        if partition.state.leader != NO_LEADER:
            # Asked by one that is not the controller any more, or will be asked again.
            return False
        self._neither(partition, _NO_LEADER)
        return True

    def close(self, partition: Partition) -> None:
        """It is gone from this broker."""
        if partition.leadership is not None:
            self._cease(partition, NOT_LEADING)
        self._neither(partition, NOT_LEADING)

    # Each role

    def _lead(self, partition: Partition) -> None:
        hole_offset = first_fresh_hole(partition.log)
        if hole_offset is not None:
            self._lead_without_hole(partition, hole_offset)
            return
        self._fetching.leave(partition)
        state, log = partition.state, partition.log
        try:
            log.begin_epoch(state.leader_epoch)
        except PenstockError as error:
            # Metadata that are older than the log: restored from a copy, say.
            where = {"topic": partition.topic, "partition": partition.index}
            logger.error("partition.not.led", extra={**where, "why": str(error)})
            self._neither(partition, Refused.by(error))
            return
        leadership = Leadership(
            self.node_id,
            Altered(state, partition.version),
            self._settings,
            log,
            self._live,
            acknowledged_end=partition.acknowledged_end,
            high_watermark=partition.high_watermark,
            now_ms=self._clock.now_ms(),
        )
        leadership.is_suspended = self._is_suspended
        partition.lead(leadership, lambda proposal: self._propose(partition, leadership, proposal))
        # The controller may remember others until it hears of this leader, and nothing is committed until then.
        partition.heed(leadership.tick(self._clock.now_ms()))
        self._tell(partition)

    def _lead_without_hole(self, partition: Partition, hole_offset: int) -> None:
        """Followers that end before it would never get past it. It leads, if it is to, when the log is settled."""
        self._neither(partition, NOT_LEADING)
        state = partition.state
        if len(state.isr) > 1:
            # Should it be damage of what was committed, others have that.
            self._resignations.resign(partition)
        elif len(state.replicas) > 1 and partition.waits_for_sync and not partition.was_unsynced:
            # It was never synced, so nothing behind it was ever committed.
            self._fetching.cut(partition, hole_offset)
        else:
            self._fetching.keep_holes(partition)

    def _follow(self, partition: Partition) -> None:
        state = partition.state
        hole_offset = first_hole(partition.log)
        if hole_offset is not None:
            # From behind it, its first fetch would acknowledge what is missing. It follows when it is cut.
            self._neither(partition, NOT_LEADING)
            self._fetching.cut(partition, hole_offset)
            return
        following = Following(
            state.leader,
            state.leader_epoch,
            partition.log,
            waits_for_sync=partition.waits_for_sync,
            high_watermark=max(min(partition.high_watermark, partition.log.end_offset), partition.log.start_offset),
        )
        partition.follow(following, lambda: self._fetching.go_on(partition))
        self._fetching.follow(partition, state.leader)

    def _neither(self, partition: Partition, refused: Refused) -> None:
        self._fetching.leave(partition)
        partition.let_go(refused)
        partition.leader_epoch = partition.state.leader_epoch

    def _cease(self, partition: Partition, refused: Refused) -> None:
        partition.ended_epoch = partition.leader_epoch
        partition.let_go(refused)
        self._tell(partition)

    def _tell(self, partition: Partition) -> None:
        for on_role in self._listeners:
            on_role(partition)

    # The ISR

    def _propose(self, partition: Partition, leadership: Leadership, proposal: Proposal) -> None:
        wish = IsrWish(
            partition.topic_id, partition.index, proposal.leader_epoch, proposal.version, proposal.isr, proposal.lost
        )
        answered = self._isr_changes.alter(wish)
        answered.when_done(lambda done: self._answered(partition, leadership, proposal, done.result()))

    def _answered(
        self, partition: Partition, leadership: Leadership, proposal: Proposal, result: PartitionNode | Refused
    ) -> None:
        if partition.leadership is not leadership:
            return
        answer: Answer = (
            answer_of(result.problem) if isinstance(result, Refused) else Altered(result.state, result.version)
        )
        partition.heed(leadership.on_answer(proposal, answer, self._clock.now_ms()))
        if isinstance(result, PartitionNode) and result.version > partition.version:
            partition.state, partition.version = result.state, result.version
        if leadership.is_over and partition.leadership is leadership:
            self._cease(partition, NOT_LEADING)
            if partition.settled.is_set():
                self.take_role(partition)
