"""One partition on this broker: its log, what of it is committed, and who waits for it.

The high watermark is the first offset that a reader may not see yet. A lone replica commits what it has:
with `flush.policy=acked` its durable end, with `os` its written end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from uuid import UUID

from penstock.errors import PenstockError, Problem, Refused
from penstock.later import Later
from penstock.storage.log import Appended, Log, Slice
from penstock.wire.batch import BatchHeader

Committed = None | Refused
NEVER_MS = 2**63


class Partition:
    """All methods run on the event loop's thread."""

    def __init__(self, topic: str, topic_id: UUID, index: int, log: Log, leader_epoch: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        # After a restart everything that is there counts: with `acked`, recovery has synced what it keeps.
        self.high_watermark = log.end_offset
        self._committed_bytes = log.appended_bytes
        self._commit_waiters: deque[tuple[int, int, Later[Committed]]] = deque()
        self._progress_waiters: dict[object, Callable[[int | None], None]] = {}
        self._closed: Refused | None = None

    @property
    def waits_for_sync(self) -> bool:
        return self.log.settings.flush_policy == "acked"

    def append(self, batch: memoryview, header: BatchHeader, now_ms: int) -> Appended:
        """Raises PenstockError; the caller validated header and CRC."""
        if self._closed is not None:
            raise PenstockError(self._closed.problem, self._closed.text)
        appended = self.log.append(batch, header, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if not self.waits_for_sync:
            self._advance(self.log.end_offset)
        return appended

    def when_committed(self, next_offset: int, deadline_ms: int = NEVER_MS) -> Later[Committed]:
        """Done when everything below `next_offset` is committed; refused when this partition stops or, at some time

        after the deadline, when `expire` finds it still waiting."""
        if self._closed is not None:
            return Later.of(self._closed)
        if next_offset <= self.high_watermark:
            return Later.of(None)
        later: Later[Committed] = Later()
        self._commit_waiters.append((next_offset, deadline_ms, later))
        return later

    def expire(self, now_ms: int) -> None:
        """Swept now and then: a timer per produce would cost more than the produce."""
        if not self._commit_waiters:
            return
        waiting, self._commit_waiters = self._commit_waiters, deque()
        for waiter in waiting:
            if waiter[1] > now_ms:
                self._commit_waiters.append(waiter)
            else:
                waiter[2].complete(Refused(Problem.REQUEST_TIMED_OUT, "it is written, but was not committed in time"))

    def read(self, offset: int, max_bytes: int, at_least_one: bool) -> Slice:
        return self.log.read(offset, max_bytes, upto=self.high_watermark, at_least_one=at_least_one)

    def on_durable(self) -> None:
        """The log's durable end has moved."""
        if self.waits_for_sync:
            self._advance(self.log.durable_offset)

    def on_settings_changed(self) -> None:
        """A change from acked to os commits what is written."""
        self._advance(self.log.durable_offset if self.waits_for_sync else self.log.end_offset)

    def watch(self, key: object, on_progress: Callable[[int | None], None]) -> None:
        """Call `on_progress(bytes that became readable)` until unwatched; None tells that the partition stopped."""
        self._progress_waiters[key] = on_progress

    def unwatch(self, key: object) -> None:
        self._progress_waiters.pop(key, None)

    def stop(self, problem: Problem, text: str) -> None:
        """The partition is deleted, moved or its log failed: nobody is left waiting."""
        self._closed = Refused(problem, text)
        waiting, self._commit_waiters = self._commit_waiters, deque()
        for _, _, later in waiting:
            later.complete(self._closed)
        for on_progress in list(self._progress_waiters.values()):
            on_progress(None)

    def _advance(self, offset: int) -> None:
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        # A log's durable bytes are those of its last commit, whatever has been appended since it began.
        committed_bytes = self.log.durable_bytes if self.waits_for_sync else self.log.appended_bytes
        readable = max(1, committed_bytes - self._committed_bytes)
        self._committed_bytes = committed_bytes
        waiters = self._commit_waiters
        while waiters and waiters[0][0] <= offset:
            waiters.popleft()[2].complete(None)
        if self._progress_waiters:
            for on_progress in list(self._progress_waiters.values()):
                on_progress(readable)
