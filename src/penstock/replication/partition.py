"""One partition on this broker: its log, its role, what of it is committed, and who waits for it.

The high watermark is the first offset that a reader may not see yet. The core of the role decides where it is; here is
what follows from that. Roles are given in `replication/roles.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from uuid import UUID

from penstock.coordination.paths import NO_EPOCH, NO_LEADER, PartitionState
from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later
from penstock.replication.confirmations import NOT_LEADING, Confirmations
from penstock.replication.core.closest import may_serve_reads
from penstock.replication.core.following import Following
from penstock.replication.core.in_sync import Proposal
from penstock.replication.core.leadership import FollowerFetch, Leadership, Outcome, Standing
from penstock.replication.waiters import NEVER_MS, Committed, CommitWaiters, HandOver
from penstock.storage.core.leader_epochs import EpochEnd
from penstock.storage.log import Appended, Log, Slice
from penstock.wire.batch import BatchHeader

logger = logging.getLogger(__name__)

__all__ = ["NEVER_MS", "NOT_LEADING", "Committed", "Partition"]

# Bytes that there are to read now; None: the partition has another role from now on, or none.
OnProgress = Callable[[int | None], None]
Propose = Callable[[Proposal], None]

NO_STATE: Final = PartitionState(NO_LEADER, NO_EPOCH, (), ())
_SHRUNK_SINCE: Final = Refused(
    Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    "it is written and committed, but since then fewer replicas than min.insync.replicas are in sync",
)


class Partition:
    """All methods run on the event loop's thread. It leads, or follows, or neither."""

    def __init__(self, node_id: int, topic: str, topic_id: UUID, index: int, log: Log) -> None:
        """`node_id`: this broker."""
        self.node_id = node_id
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        # The newest that is known, and its version. The role lags behind while the log is being settled.
        self.state = NO_STATE
        self.version = -1
        self.leader_epoch = NO_EPOCH
        # The newest in which this broker led and does not any more.
        self.ended_epoch = NO_EPOCH
        self.leadership: Leadership | None = None
        self.following: Following | None = None
        # As far as this replica knows. After a restart that is nothing, but a leader without followers knows all.
        self.high_watermark = log.start_offset
        self.waits_for_sync = log.settings.flush_policy == "acked"
        # What an earlier run of this broker wrote may be committed and not have been on its disk.
        self.was_unsynced = False
        # acks=all is refused: the ISR is too small.
        self.lacks_replicas = False
        self.hand_over = HandOver()
        # Not while something that takes time is done to the log, which nothing else may use then.
        self.settled = asyncio.Event()
        self.settled.set()
        # The log has failed: whoever leads should not.
        self.when_failed: Callable[[], None] = lambda: None
        # Deleted or moved away: what is asked on its behalf is of no use any more.
        self.is_gone = False
        self._when_durable: Callable[[], None] | None = None
        self._propose: Propose | None = None
        self._committed_bytes = log.appended_bytes
        self._commits = CommitWaiters()
        # Whether this broker leads still, for whoever must know.
        self.confirmations = Confirmations(lambda: _tell(self._followers, None))
        self._readers: dict[object, OnProgress] = {}
        # Those of committed transactions only.
        self._stable_readers: dict[object, OnProgress] = {}
        # The last stable offset of which they were told, and how much was committed since.
        self._stable_offset = self.high_watermark
        self._unstable_bytes = 0
        self._followers: dict[object, OnProgress] = {}
        # What an append is refused with.
        self._refused: Refused | None = NOT_LEADING
        self._closed: Refused | None = None
        # Asked once, because a high watermark moves with every commit.
        self._tells_all = logger.isEnabledFor(logging.DEBUG)

    @property
    def acknowledged_end(self) -> int:
        """What this replica counts with."""
        return self.log.durable_offset if self.waits_for_sync else self.log.end_offset

    @property
    def last_stable_offset(self) -> int:
        """What readers of committed transactions may not see yet begins there: all before it has an outcome."""
        stable_offset = self.log.producer_states.transactions.last_stable_offset(self.high_watermark)
        # Retention does not wait for a transaction.
        return max(stable_offset, self.log.start_offset)

    def may_be_read(self, *, as_closest: bool) -> bool:
        """By consumers; `as_closest`: it was chosen because it is near, so it need not lead."""
        if self.leadership is not None:
            return True
        if not as_closest or self.following is None or not self.settled.is_set():
            return False
        return may_serve_reads(self.state, self.node_id)

    # Roles

    def lead(self, leadership: Leadership, propose: Propose) -> None:
        self.leadership, self._propose = leadership, propose
        self.following = self._when_durable = None
        self.leader_epoch = leadership.leader_epoch
        self._refused = self._closed
        self.lacks_replicas = not leadership.has_enough_in_sync
        logger.debug("partition.leading", extra=_place_of(self))
        self._moved_to(leadership.high_watermark)

    def follow(self, following: Following, when_durable: Callable[[], None]) -> None:
        """`when_durable`: more of what was appended may be acknowledged now."""
        self.let_go(NOT_LEADING)
        self.following, self._when_durable = following, when_durable
        self.leader_epoch = following.leader_epoch
        logger.debug("partition.following", extra={**_place_of(self), "leader": self.state.leader})

    def let_go(self, refused: Refused) -> None:
        """Neither role, for now. Nobody is left waiting: what becomes of what was appended is for others to decide."""
        self.leadership = self.following = self._when_durable = self._propose = None
        self.lacks_replicas = False
        self._refused = self._closed or refused
        self._commits.refuse(self._refused)
        self.hand_over.end(self._refused)
        self.confirmations.refuse(self._refused)
        _tell_ended(self._readers, self._stable_readers, self._followers)

    def stop(self, problem: Problem, text: str) -> None:
        """For good: the partition is deleted, moved, or its log failed. What can be read stays so."""
        self._refused = self._closed = Refused(problem, text)
        self._commits.refuse(self._closed)
        self.hand_over.end(self._closed)
        self.confirmations.refuse(self._closed)
        _tell_ended(self._readers, self._stable_readers, self._followers)
        if problem is Problem.STORAGE_FAILED:
            if self.leadership is not None:
                self.leadership.is_resigning = True
            self.when_failed()
        else:
            self.is_gone = True

    # Leading

    def append(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Appended:
        """Raises PenstockError; the caller validated header and CRC."""
        leadership = self.leadership
        if self._refused is not None or leadership is None:
            refused = self._refused or NOT_LEADING
            raise PenstockError(refused.problem, refused.text)
        log = self.log
        appended = log.append(batch, header, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if not self.waits_for_sync and leadership.advance(log.end_offset, now_ms):
            self._moved_to(leadership.high_watermark)
        if self._followers:
            _tell(self._followers, len(batch))
        return appended

    def on_follower_fetch(self, fetch: FollowerFetch, now_ms: int) -> EpochEnd | Refused | None:
        """None: it may read what is there. EpochEnd: its log parts from this one."""
        if self.leadership is None:
            return NOT_LEADING
        outcome = self.leadership.on_fetch(fetch, now_ms)
        if not isinstance(outcome, Outcome):
            return outcome
        if self.confirmations.rounds:
            self.confirmations.fetched(self.leadership, fetch.replica, fetch.connection)
        self.heed(outcome)
        return None

    def heed(self, outcome: Outcome) -> None:
        """What the leadership said to one of its events."""
        leadership, propose = self.leadership, self._propose
        if leadership is None or propose is None:
            return
        self.lacks_replicas = not leadership.has_enough_in_sync
        if self.confirmations.rounds:
            self.confirmations.look(leadership)
        if outcome.advanced:
            self._moved_to(leadership.high_watermark)
        if outcome.proposal is not None:
            propose(outcome.proposal)

    def when_committed(self, next_offset: int, deadline_ms: int = NEVER_MS) -> Later[Committed]:
        """Done when everything below `next_offset` is committed; refused when this partition stops or, at some time

        after the deadline, when `expire` finds it still waiting. NOT_ENOUGH_REPLICAS_AFTER_APPEND is committed too."""
        if self._refused is not None:
            return Later.of(self._refused)
        if next_offset <= self.high_watermark:
            return Later.of(_answer_below(self.leadership, next_offset))
        return self._commits.add(next_offset, deadline_ms)

    def expire(self, now_ms: int) -> None:
        """Now and then, at least twice in replica.lag.time.max.ms: deadlines, and followers that lag behind."""
        if self.confirmations.rounds:
            self.confirmations.expire(now_ms)
        if self._commits.waiting:
            self._commits.expire(now_ms)
        if self.leadership is not None and len(self.state.replicas) > 1:
            self.heed(self.leadership.tick(now_ms))

    def on_durable(self, now_ms: int) -> None:
        """The log's durable end has moved."""
        if self.waits_for_sync:
            if self.leadership is not None:
                if self.leadership.advance(self.log.durable_offset, now_ms):
                    self._moved_to(self.leadership.high_watermark)
            elif self._when_durable is not None:
                self._when_durable()

    def on_settings_changed(self, now_ms: int) -> None:
        """A change from acked to os counts what is written."""
        self.waits_for_sync = self.log.settings.flush_policy == "acked"
        if self.following is not None:
            self.following.waits_for_sync = self.waits_for_sync
            if self._when_durable is not None:
                self._when_durable()
        elif self.leadership is not None and self.leadership.advance(self.acknowledged_end, now_ms):
            self._moved_to(self.leadership.high_watermark)

    # Reading

    def read(
        self, offset: int, max_bytes: int, at_least_one: bool, *, to_end: bool = False, stable_offset: int | None = None
    ) -> Slice:
        """What is committed; `to_end`: all that there is, for a follower. `stable_offset`: only what is below it, which

        was the last stable offset at some time, for a reader of committed transactions.
        """
        upto = self.log.end_offset if to_end else self.high_watermark
        if stable_offset is not None and stable_offset < upto:
            upto = stable_offset
        return self.log.read(offset, max_bytes, upto=upto, at_least_one=at_least_one)

    def watch(self, key: object, on_progress: OnProgress, *, appends: bool = False, stable: bool = False) -> None:
        """Told, until it is unwatched, what becomes readable; `appends`: what is appended, for a follower.

        `stable`: for a reader of committed transactions.
        """
        (self._followers if appends else self._stable_readers if stable else self._readers)[key] = on_progress

    def unwatch(self, key: object) -> None:
        self._readers.pop(key, None)
        self._stable_readers.pop(key, None)
        self._followers.pop(key, None)

    def learn_high_watermark(self) -> None:
        """As a follower: the leader has told."""
        if self.following is not None:
            if self.following.high_watermark < self.high_watermark:
                # Only after something that was committed is lost.
                self.high_watermark = self.following.high_watermark
                self._stable_offset = min(self._stable_offset, self.high_watermark)
            self._moved_to(self.following.high_watermark)

    def _moved_to(self, offset: int) -> None:
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        if self._tells_all and self.leadership is not None:
            logger.debug("partition.watermark", extra={**_place_of(self), "offset": offset})
        # A log's durable bytes are those of its last commit, whatever has been appended since it began.
        committed_bytes = self.log.durable_bytes if self.waits_for_sync else self.log.appended_bytes
        readable = max(1, committed_bytes - self._committed_bytes)
        self._committed_bytes = committed_bytes
        if self._commits.waiting:
            self._commits.reached(offset, _answer_below(self.leadership, offset))
        if self._readers:
            _tell(self._readers, readable)
        self._unstable_bytes += readable
        stable_offset = self.log.producer_states.transactions.last_stable_offset(offset)
        if stable_offset > self._stable_offset:
            self._stable_offset = stable_offset
            # How much of it is stable now is not known; who is told of too much looks once more.
            stable_bytes, self._unstable_bytes = self._unstable_bytes, 0
            if self._stable_readers:
                _tell(self._stable_readers, stable_bytes)


def _answer_below(leadership: Leadership | None, next_offset: int) -> Committed:
    if leadership is not None and leadership.standing(next_offset) is Standing.COMMITTED_BELOW_MIN_ISR:
        return _SHRUNK_SINCE
    return None


def _tell(watchers: dict[object, OnProgress], progress: int | None) -> None:
    for on_progress in list(watchers.values()):
        on_progress(progress)


def _tell_ended(*all_watchers: dict[object, OnProgress]) -> None:
    for watchers in all_watchers:
        _tell(watchers, None)


def _place_of(partition: Partition) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.index, "leader_epoch": partition.leader_epoch}
