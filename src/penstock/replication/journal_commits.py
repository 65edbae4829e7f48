"""Which partitions wait for the next journal entry; one entry is on its way at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection

from penstock.clock import Clock
from penstock.replication.commit_thread import CommitThread
from penstock.replication.each import each
from penstock.replication.partition import Partition
from penstock.storage.journal import Journal, JournalTicket
from penstock.storage.stage import staged_bytes
from penstock.storage.state import LogState

# How long an entry waits for those whom the last one served, if they come back: about the time of a sync, and the
# shortest that the event loop can measure.
HOLD_S = 0.001


class JournalCommits:
    """On the event loop's thread. `on_ended` is told after each entry.

    What the journal cannot do goes to `sync_files`, with the time or, if they must sync in any case, with None.
    """

    def __init__(
        self,
        journal: Journal,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        observe_seconds: Callable[[float], None],
        sync_files: Callable[[Collection[Partition], int | None], None],
        on_ended: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._observe_seconds = observe_seconds
        self._sync_files = sync_files
        self._on_ended = on_ended
        self._thread = CommitThread(loop, "journal")
        self._waiting: dict[Partition, None] = {}
        self._in_flight: dict[Partition, None] = {}
        # Of all logs that the journal has something of.
        self._partitions: dict[LogState, Partition] = {}
        self._laps = 0
        self._loop = loop
        # Who came for the next entry, who for the last, and until when the next one waits for as many.
        self._arrived = 0
        self._served = 0
        self._hold: asyncio.TimerHandle | None = None

    def __contains__(self, partition: Partition) -> bool:
        """Whether it waits, or its entry is on its way."""
        return partition in self._waiting or partition in self._in_flight

    def accept(self, partition: Partition) -> bool:
        """Whether the journal makes it durable up to its end, with the next entry or the one after."""
        log = partition.log
        if log.stage is None or not (partition in self._in_flight or staged_bytes(log)):
            return False
        self._waiting[partition] = None
        self._arrived += 1
        return True

    def begin(self) -> None:
        """The next entry, unless one is on its way: then it begins when that one has ended.

        Then many who waited for it send their next message, and not all in the same turn: a sync for half of them
        makes the other half wait for two.
        """
        if self._in_flight or not self._waiting or (self._hold is not None and self._arrived < self._served):
            return
        self._end_hold()
        self._served, self._arrived = self._arrived, 0
        waiting, self._waiting = self._waiting, {}
        staged = [partition for partition in waiting if staged_bytes(partition.log)]
        now_ms = self._clock.now_ms()
        ticket = self._journal.begin([partition.log for partition in staged], now_ms)
        if ticket is None:
            self._sync_files(waiting, now_ms)
            return
        count = len(ticket.taken)
        self._in_flight = dict.fromkeys(staged[:count])
        for partition in self._in_flight:
            self._partitions[partition.log] = partition
        self._waiting.update(dict.fromkeys(staged[count:]))
        if len(staged) != len(waiting):
            self._sync_files(waiting.keys() - set(staged), now_ms)
        self._thread.run(ticket.run, lambda error, seconds: self._ended(ticket, error, seconds))

    def behind(self) -> list[Partition]:
        """Once after each change of files, and while that is not possible: those whose logs hold up the next one."""
        if self._laps == self._journal.laps and not self._journal.is_blocked:
            return []
        self._laps = self._journal.laps
        return [self._partitions[log] for log in self._journal.lagging()]

    def forget(self, partition: Partition) -> None:
        """It is deleted."""
        self._journal.forget(partition.log)
        self._partitions.pop(partition.log, None)

    def close(self) -> None:
        """Blocking. Nothing is on its way."""
        self._end_hold()
        self._thread.close()

    def _ended(self, ticket: JournalTicket, error: BaseException | None, seconds: float) -> None:
        self._observe_seconds(seconds)
        ended, self._in_flight = self._in_flight, {}
        try:
            if error is None:
                self._journal.finish(ticket)
                now_ms = self._clock.now_ms()
                each(deque(ended), lambda partition: partition.on_durable(now_ms))
            else:
                self._journal.fail(ticket, error, self._clock.now_ms())
                unsynced = [self._partitions[log] for log in self._journal.unsynced()] if self._journal.failure else []
                self._sync_files([*ended, *unsynced], None)
        finally:
            # Whatever bug one of them met: others wait for the next entry.
            self._hold = self._loop.call_later(HOLD_S, self._begin_late)
            self.begin()
            self._on_ended()

    def _begin_late(self) -> None:
        self._end_hold()
        self.begin()
        self._on_ended()

    def _end_hold(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
