"""One partition as a follower, for one leader epoch: what to fetch next, and what an answer means for the own log.

The offset of a fetch acknowledges everything below it. With flush.policy=acked only what is durable may be
acknowledged, so the next fetch is not sent before all that was appended is durable: one fetch, one sync, one
acknowledgement. To fetch ahead while a sync runs would need a second offset in the request; as the leader sends all
that came meanwhile at once, it would save the latency of a sync and no throughput.

Where the logs part is found by leader epochs alone (KIP-101, KIP-279, KIP-320): the high watermark of a follower is
always late, so what lies above it may be committed.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import Problem
from penstock.replication.core.replica_log import ReplicaLog, last_epoch
from penstock.storage.core.leader_epochs import UNDEFINED, EpochEnd

# After an answer that a later one may better, each time twice as long: the leader does not lead yet, which is a matter
# of milliseconds as a rule, or cannot be reached.
FIRST_RETRY_MS = 25
RETRY_MS = 200


class Fetch(NamedTuple):
    """What to ask the leader for."""

    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start: int
    # Tells answers apart: only the one to the newest fetch counts.
    attempt: int


class Fetched(NamedTuple):
    """The leader's answer. `parting`: its log parts from ours there (diverging epoch); then it has no records."""

    high_watermark: int
    log_start: int
    parting: EpochEnd | None = None


class Append(NamedTuple):
    """Append the records, each batch if `Following.admits` it, and tell `on_appended`, also if there were none."""

    high_watermark: int
    log_start: int


class Truncate(NamedTuple):
    """The log ends at `offset`, durably, before anything else is done with it."""

    offset: int


class Restart(NamedTuple):
    """Drop the whole log and all that is known of its producers, durably; it starts, empty, at `offset`."""

    offset: int


class Following:
    """Ends with its leader epoch: make a new one for the next. All methods are called in one thread.

    `waits_for_sync`: flush.policy=acked. `high_watermark`: what this replica knew before; the start of its log if it
    knew nothing.
    """

    def __init__(
        self, leader: int, leader_epoch: int, log: ReplicaLog, *, waits_for_sync: bool, high_watermark: int
    ) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.waits_for_sync = waits_for_sync
        self.high_watermark = high_watermark
        # The leader's epoch is a later one than ours: nothing is fetched before we know it too.
        self.is_fenced = False
        self._log = log
        # The leader has answered without a parting: what is here is what it had.
        self._is_verified = False
        self._pending: Fetch | None = None
        self._attempts = 0
        self._pause_ms = FIRST_RETRY_MS
        # Nothing is fetched before.
        self.retry_at_ms = 0

    def next_fetch(self, now_ms: int) -> Fetch | None:
        """None while one is on its way, while something waits for its sync, and for a while after a failure."""
        log = self._log
        if self._pending is not None or self.is_fenced or now_ms < self.retry_at_ms:
            return None
        if self.waits_for_sync and log.durable_offset < log.end_offset:
            return None
        self._attempts += 1
        self._pending = Fetch(self.leader_epoch, log.end_offset, last_epoch(log), log.start_offset, self._attempts)
        return self._pending

    def on_fetched(self, fetch: Fetch, answer: Fetched) -> Append | Truncate | Restart | None:
        """None: an answer to an older fetch, to be forgotten.

        What lies below the leader's start cannot be compared any more. If nothing is left above it, all of it goes
        that is not known to be committed: a record that never was would else live on in what is known of its producer,
        and be acknowledged when it is sent again. A log that is empty above the leader's start stays as it is: all was
        deleted, which the leader may not have heard of yet, and a member of the ISR must not go back.
        """
        if fetch != self._pending:
            return None
        self._pending = None
        self._pause_ms = FIRST_RETRY_MS
        if answer.parting is not None:
            offset = self._shared_end(answer.parting)
            return Truncate(offset) if offset > answer.log_start else self._restart(answer.log_start)
        if not self._is_verified:
            self._is_verified = True
            is_committed = fetch.offset == answer.log_start and fetch.offset <= self.high_watermark
            has_records = fetch.last_fetched_epoch != UNDEFINED
            if has_records and fetch.offset <= answer.log_start and not is_committed:
                return self._restart(answer.log_start)
        return Append(answer.high_watermark, answer.log_start)

    def on_refused(self, fetch: Fetch, problem: Problem | None, now_ms: int) -> bool:
        """None: no answer came. True if the log is outside of the leader's: ask for its start and end."""
        if fetch != self._pending:
            return False
        self._pending = None
        self.retry_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(RETRY_MS, 2 * self._pause_ms)
        if problem is Problem.FENCED_LEADER_EPOCH:
            self.is_fenced = True
        return problem is Problem.OFFSET_OUT_OF_RANGE

    def on_leader_range(self, fetch: Fetch, leader_start: int, leader_end: int) -> Restart | None:
        """Of the leader of this epoch, asked for after `fetch` was out of range, and only if no fetch came since.

        None: in range by now, or too late; if the logs part, the next fetch tells where.
        """
        log = self._log
        if self._pending is not None or fetch.attempt != self._attempts:
            return None
        if log.end_offset < leader_start or log.start_offset > leader_end:
            # What lies between is gone at the leader; nothing of ours can be joined to what it has.
            return self._restart(leader_start)
        return None

    def admits(self, base_offset: int, leader_epoch: int) -> bool:
        """Whether a batch may be appended. A leader that is replaced while it reads may send its successor's.

        Offsets may be missing before it, which the leader's compaction took out.
        """
        return base_offset >= self._log.end_offset and last_epoch(self._log) <= leader_epoch <= self.leader_epoch

    def on_appended(self, leader: Append) -> int | None:
        """The log's new start, if it has to move: the leader's retention is everyone's."""
        log = self._log
        known = min(leader.high_watermark, log.end_offset)
        if known > self.high_watermark:
            self.high_watermark = known
        start = min(leader.log_start, log.end_offset)
        return start if start > log.start_offset else None

    def _restart(self, leader_start: int) -> Restart:
        self.high_watermark = leader_start
        return Restart(leader_start)

    def _shared_end(self, parting: EpochEnd) -> int:
        log = self._log
        ours = log.epochs.end_offset_of(parting.epoch, log.end_offset)
        # If we do not have that epoch, the end of the one before it is as far as we may agree; the next fetch tells.
        offset = min(ours.end_offset, parting.end_offset) if ours.epoch == parting.epoch else ours.end_offset
        offset = max(offset, log.start_offset)
        if offset < self.high_watermark:
            # Something committed is lost: only an unclean election does that.
            self.high_watermark = offset
        return offset
