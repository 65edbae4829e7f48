"""The runner of every durable state machine: its log is one partition of an internal topic.

The order of the steps is the contract of `replication/core/machine.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from penstock.clock import Clock, Timer
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.core.machine import Answered, Decision, Machine, Release, Tick, Ticket
from penstock.replication.partition import Committed, Partition
from penstock.replication.replicas import Replicas
from penstock.storage.log import Appended, Slice
from penstock.telemetry.outage import Outage
from penstock.units import MIB, SECOND_MS
from penstock.wire.batch import HEADER_BYTES, read_header
from penstock.wire.records import Record as LogRecord
from penstock.wire.records import build_batch, records_of

logger = logging.getLogger(__name__)

Event = TypeVar("Event")
Record = TypeVar("Record")
Answer = TypeVar("Answer")
Note = TypeVar("Note")

REPLAY_READ_BYTES = 4 * MIB
# Our own batches are not compressed, so what they hold is no larger than they are.
REPLAY_LIMIT_BYTES = 2**31
# After a failed append (a full disk, say) the log is replayed again, but not in a tight loop.
RELOAD_DELAY_MS = SECOND_MS

LOADING = Refused(Problem.COORDINATOR_LOADING, "the coordinator is reading its log")


class RecordCodec(Protocol[Record]):
    """A record as key and value, so that compaction keeps the newest of each key."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> Record: ...


class MachineRunner(Generic[Event, Record, Answer, Note]):
    """Answers are `Answer`s, or `Refused` while there is no machine: loading, stopped, or its log failed."""

    def __init__(
        self,
        partition: Partition,
        replicas: Replicas,
        make_machine: Callable[[], Machine[Event | Tick, Record, Answer, Note]],
        codec: RecordCodec[Record],
        pool: ThreadPoolExecutor,
        clock: Clock,
        on_ready: Callable[[MachineRunner[Event, Record, Answer, Note]], None],
        on_orders: Callable[[MachineRunner[Event, Record, Answer, Note], tuple[object, ...]], None] | None = None,
    ) -> None:
        """`on_ready` is called after each replay, when events are taken again; `on_orders` with what decisions ordered,

        when that is committed and while the machine that ordered it serves.
        """
        self._on_ready = on_ready
        self._on_orders = on_orders
        self._partition = partition
        self._replicas = replicas
        self._make_machine = make_machine
        self._codec = codec
        self._pool = pool
        self._clock = clock
        self._machine: Machine[Event | Tick, Record, Answer, Note] | None = None
        self._unavailable = LOADING
        self._loading: asyncio.Task[None] | None = None
        self._seen_offset = 0
        self._parked: dict[Ticket, Later[Answer | Refused]] = {}
        self._timer: Timer | None = None
        # It ends with the first record that is committed: a machine can always be had, whatever its log takes.
        self._outage = Outage()

    @property
    def machine(self) -> Machine[Event | Tick, Record, Answer, Note] | None:
        """For reading only, and only by what may see more than is committed, such as metrics."""
        return self._machine

    @property
    def unavailable(self) -> Refused | None:
        """Why there is no machine now."""
        return None if self._machine is not None else self._unavailable

    @property
    def leader_epoch(self) -> int:
        """Of its log: no runner that serves later has a lower one."""
        return self._partition.leader_epoch

    def start(self) -> None:
        """Replay the log in the background. Until it is done, events are refused as COORDINATOR_LOADING."""
        self._timer = None
        self._unavailable = LOADING
        log = self._partition.log
        if log.start_offset == log.end_offset:
            # A new log: the client that had it made need not ask twice.
            self._serve(self._make_machine(), log.end_offset)
        else:
            self._loading = asyncio.get_running_loop().create_task(self._load())
            self._loading.add_done_callback(self._loaded)

    def _loaded(self, loading: asyncio.Task[None]) -> None:
        if not loading.cancelled() and (error := loading.exception()) is not None:
            self._drop(Refused(Problem.COORDINATOR_NOT_AVAILABLE, f"the log could not be replayed: {error!r}"))

    async def _load(self) -> None:
        machine = self._make_machine()
        loop = asyncio.get_running_loop()
        position = self._partition.log.start_offset
        end = self._partition.log.end_offset
        while position < end:
            part = self._partition.log.read(position, REPLAY_READ_BYTES, upto=end, at_least_one=True)
            records, position = await loop.run_in_executor(self._pool, self._records_in, part, position, end)
            for record in records:
                machine.apply(record)
        # What a new leader found may not be committed, nor what a machine wrote that was dropped: nobody may act on it,
        # as by carrying out orders. And the leader before may have shown more than this one knows of.
        refused = await self._partition.when_committed(end).wait()
        if refused is None or refused.problem is Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            self._serve(machine, end)
        else:
            self._drop(refused)

    def _serve(self, machine: Machine[Event | Tick, Record, Answer, Note], seen_offset: int) -> None:
        self._seen_offset = seen_offset
        self._machine = machine
        self._on_ready(self)
        self._arm()

    def submit(self, event: Event | Tick, *, certain: bool = False) -> Later[Answer | Refused]:
        """`certain`: an answer for which nothing had to be written is not from the past of a runner that was replaced

        and does not know it. One for which something was is never.
        """
        machine = self._machine
        if machine is None:
            return Later.of(self._unavailable)
        decision = machine.decide(event, self._clock.now_ms())
        if decision.records:
            match self._append(decision.records):
                case Appended(next_offset=next_offset):
                    self._seen_offset = next_offset
                case Refused(Problem.NOT_ENOUGH_REPLICAS) as refused:
                    # Nothing has happened, and the machine is as good as before.
                    self._arm(self._clock.now_ms() + RELOAD_DELAY_MS)
                    return Later.of(Refused(Problem.COORDINATOR_NOT_AVAILABLE, refused.text))
                case Refused() as refused:
                    return Later.of(self._drop(refused))
        for record in decision.records:
            machine.apply(record)
        for note in decision.notes:
            machine.remember(note)
        answer: Later[Answer | Refused] = Later()
        if not isinstance(decision.answer, Answered):
            self._parked[decision.answer.ticket] = answer
        self._partition.when_committed(self._seen_offset).when_done(
            lambda committed: self._deliver(machine, decision, answer, committed)
        )
        self._arm()
        return self._confirmed(answer) if certain and not decision.records else answer

    def _confirmed(self, answer: Later[Answer | Refused]) -> Later[Answer | Refused]:
        """The same, when it is certain that no other runner served this partition when this was called."""
        certain: Later[Answer | Refused] = Later()

        def confirmed(done: Later[Refused | None]) -> None:
            refused = done.result()
            if refused is None:
                answer.when_done(certain.settle_like)
            elif refused.problem is Problem.COORDINATOR_NOT_AVAILABLE:
                certain.complete(refused)
            else:
                certain.complete(Refused(Problem.NOT_COORDINATOR, refused.text))

        self._partition.confirmations.ask(self._partition.leadership, self._clock.now_ms()).when_done(confirmed)
        return certain

    def stop(self, refused: Refused) -> None:
        """No more answers from here; the next machine replays."""
        self._machine = None
        self._unavailable = refused
        for running in (self._timer, self._loading):
            if running is not None:
                running.cancel()
        self._timer = self._loading = None
        parked, self._parked = self._parked, {}
        for answer in parked.values():
            answer.complete(refused)

    def _deliver(
        self,
        machine: Machine[Event | Tick, Record, Answer, Note],
        decision: Decision[Record, Answer, Note],
        answer: Later[Answer | Refused],
        committed: Later[Committed],
    ) -> None:
        refused = committed.result()
        # What is committed stays, however few have it.
        if refused is not None and refused.problem is not Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            answer.complete(Refused(Problem.NOT_COORDINATOR, refused.text))
            # What this machine believes may never have reached the disk.
            if self._machine is machine:
                self._drop(refused)
            return
        if self._outage.lasts and decision.records:
            logger.info("machine.works.again", extra={**self._name(), "times": self._outage.over()})
        if isinstance(decision.answer, Answered):
            answer.complete(decision.answer.answer)
        if self._machine is machine:
            # The next machine counts its tickets anew: its clients must not get this one's answers.
            for release in decision.releases:
                self._release(release)
        if decision.orders and self._on_orders is not None and self._machine is machine:
            self._on_orders(self, decision.orders)

    def _release(self, release: Release[Answer]) -> None:
        parked = self._parked.pop(release.ticket, None)
        if parked is not None:
            parked.complete(release.answer)

    def _append(self, records: tuple[Record, ...]) -> Appended | Refused:
        now_ms = self._clock.now_ms()
        encoded = (self._codec.encode(record) for record in records)
        batch = build_batch([LogRecord(offset, now_ms, key, value) for offset, (key, value) in enumerate(encoded)])
        return self._replicas.append_own(self._partition, memoryview(batch), read_header(batch))

    def _drop(self, refused: Refused) -> Refused:
        """What the log holds is no longer certain to be what the machine believes: start from the log anew.

        Unless others lead it now: they replay it.
        """
        if refused.problem is Problem.NOT_LEADER:
            self.stop(Refused(Problem.NOT_COORDINATOR, refused.text))
            return self._unavailable
        times = self._outage.failed(refused.text, self._clock.now_ms())
        if times is not None:
            logger.error("machine.dropped", extra={**self._name(), "why": refused.text, "times": times})
        self.stop(Refused(Problem.COORDINATOR_NOT_AVAILABLE, refused.text))
        self._timer = self._clock.call_at(self._clock.now_ms() + RELOAD_DELAY_MS, self.start)
        return self._unavailable

    def _name(self) -> dict[str, object]:
        return {"topic": self._partition.topic, "partition": self._partition.index}

    def _arm(self, not_before_ms: int = 0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._machine is not None and (deadline := self._machine.next_deadline_ms()) is not None:
            self._timer = self._clock.call_at(max(deadline, not_before_ms), self._tick)

    def _tick(self) -> None:
        # Armed first: should the decision meet a bug, which the loop is told, it is made again, and time goes on.
        self._arm(self._clock.now_ms() + RELOAD_DELAY_MS)
        self.submit(Tick())

    def _records_in(self, part: Slice, position: int, end: int) -> tuple[list[Record], int]:
        """Blocking, in the pool. The records from `position` on, and where to go on."""
        view = memoryview(part.load())
        records = []
        at = 0
        while len(view) - at >= HEADER_BYTES:
            header = read_header(view, at)
            if len(view) - at < header.size:
                break
            if not header.is_control:
                for record in records_of(view[at : at + header.size], limit_bytes=REPLAY_LIMIT_BYTES):
                    if record.offset >= position and record.key is not None:
                        records.append(self._codec.decode(record.key, record.value))
            position = header.next_offset
            at += header.size
        return records, position if at else end
