"""The markers that end transactions, on their way to the leaders of all partitions that have something of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.cluster.partition_counts import PartitionCounts
from penstock.cluster.tasks import Tasks
from penstock.coordination.paths import NO_LEADER
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.machine import MachineRunner
from penstock.transactions.core.events import MarkersWritten
from penstock.transactions.core.machine import TransactionEvent
from penstock.transactions.core.orders import WriteMarkers
from penstock.transactions.core.records import StateRecord
from penstock.transactions.core.replies import MachineAnswer
from penstock.transactions.core.transaction import TopicPartitions
from penstock.transactions.core.volatile import Note
from penstock.units import SECOND_MS

logger = logging.getLogger(__name__)

Runner = MachineRunner[TransactionEvent, StateRecord, MachineAnswer, Note]
Place = tuple[str, int]

# A leader that is not ready yet is soon; one that is gone is replaced within a second or two.
FIRST_PAUSE_MS, LAST_PAUSE_MS = 20, SECOND_MS
# Metadata may lag behind: a topic that was made a moment ago is not one that was deleted. After so long, and each time
# again, the store is asked.
ASKED_AFTER_MS = 10 * SECOND_MS
# Of one request: what it takes is seen in a few milliseconds, by whoever serves it.
MAX_PARTITIONS_PER_REQUEST = 2000


@dataclass(frozen=True, slots=True)
class Marker:
    """A row of WriteTxnMarkers."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    topics: tuple[TopicPartitions, ...]


# By partition; None: its marker is written and committed.
Outcome = Mapping[Place, Problem | None]


class MarkerSender(Protocol):
    def send(self, node_id: int, markers: Sequence[Marker]) -> Later[Sequence[Outcome] | Refused]:
        """To that broker, which may be this one. Outcomes in the order of the markers; it is always answered, also when

        nobody knows what has become of it.
        """


@dataclass(eq=False)
class _Work:
    """One order, until all of its markers are written."""

    runner: Runner
    order: WriteMarkers
    coordinator_epoch: int
    # Whoever ordered it: a later one orders it anew.
    machine: object
    left: set[Place]
    pause_ms: int = FIRST_PAUSE_MS
    # Since when a partition has been missing in the metadata, or since it was last asked for.
    missing: dict[Place, int] = field(default_factory=dict)

    @property
    def is_wanted(self) -> bool:
        return self.runner.machine is self.machine

    def marker(self, places: Iterable[Place]) -> Marker:
        order, by_topic = self.order, dict[str, list[int]]()
        for topic, partition in places:
            by_topic.setdefault(topic, []).append(partition)
        return Marker(
            order.ending.producer.id,
            order.ending.producer.epoch,
            self.coordinator_epoch,
            order.commit,
            order.ending.transaction_version,
            tuple(TopicPartitions(topic, tuple(partitions)) for topic, partitions in by_topic.items()),
        )


@dataclass(eq=False)
class _Broker:
    """One request at a time: what comes meanwhile goes together with the next."""

    waiting: deque[tuple[_Work, list[Place]]] = field(default_factory=deque)
    is_asked: bool = False


class Markers:
    """Writes until every partition has answered, or is gone: what is prepared gets finished. Stops when the machine

    that ordered it does: the next one orders it again, and a marker that comes twice does no harm.
    """

    def __init__(self, image: Image, partition_counts: PartitionCounts, sender: MarkerSender, clock: Clock) -> None:
        self._image = image
        self._partition_counts = partition_counts
        self._sender = sender
        self._clock = clock
        self._brokers: dict[int, _Broker] = {}
        self._tasks = Tasks("looking for partitions")
        self._closed = False
        # Told the transactional id when a machine knows that all markers are written; set by whoever wants to know.
        self.when_finished: Callable[[str], None] = lambda transactional_id: None

    def write(self, runner: Runner, orders: Sequence[WriteMarkers]) -> None:
        for order in orders:
            left = {(row.topic, partition) for row in order.topics for partition in row.partitions}
            work = _Work(runner, order, runner.leader_epoch, runner.machine, left)
            self._go_on(work, sorted(left))

    def close(self) -> None:
        self._closed = True
        self._brokers.clear()
        self._tasks.cancel()

    def _go_on(self, work: _Work, places: Sequence[Place]) -> None:
        """With these partitions, none of which is on its way."""
        if self._closed or not work.is_wanted:
            return
        later: list[Place] = []
        unknown: list[Place] = []
        by_leader: dict[int, list[Place]] = {}
        for place in places:
            leader = self._leader_of(place, work)
            if leader is None:
                unknown.append(place)
            elif leader == NO_LEADER:
                later.append(place)
            else:
                by_leader.setdefault(leader, []).append(place)
        for leader, led in by_leader.items():
            self._queue(leader, work, led)
        if later:
            self._again(work, lambda: self._go_on(work, later))
        if unknown:
            self._tasks.spawn(self._look_for(work, unknown))
        if not work.left:
            self._finish(work)

    def _leader_of(self, place: Place, work: _Work) -> int | None:
        """NO_LEADER: nobody for now. None: the metadata have long been without this partition."""
        topic = self._image.topic(place[0])
        if topic is not None and 0 <= place[1] < len(topic.partitions):
            work.missing.pop(place, None)
            return topic.partitions[place[1]].leader
        now_ms = self._clock.now_ms()
        if now_ms - work.missing.setdefault(place, now_ms) < ASKED_AFTER_MS:
            return NO_LEADER
        work.missing[place] = now_ms
        return None

    async def _look_for(self, work: _Work, places: Sequence[Place]) -> None:
        """Gone is what the store does not have. What it has gets its marker, however long the metadata take: without

        it readers would never come past the transaction.
        """
        counts = await self._partition_counts.of({topic for topic, _ in places})
        rest = list(places)
        if not isinstance(counts, Refused):
            rest = [place for place in places if 0 <= place[1] < counts[place[0]]]
        for topic, partition in set(places).difference(rest):
            logger.info("transaction.partition.gone", extra={"topic": topic, "partition": partition})
            work.left.discard((topic, partition))
        if rest:
            self._again(work, lambda: self._go_on(work, rest))
        elif not work.left:
            self._finish(work)

    def _queue(self, leader: int, work: _Work, places: list[Place]) -> None:
        broker = self._brokers.setdefault(leader, _Broker())
        for start in range(0, len(places), MAX_PARTITIONS_PER_REQUEST):
            broker.waiting.append((work, places[start : start + MAX_PARTITIONS_PER_REQUEST]))
        if not broker.is_asked:
            broker.is_asked = True
            # What else this turn of the loop orders goes with it.
            asyncio.get_running_loop().call_soon(self._ask, leader, broker)

    def _ask(self, leader: int, broker: _Broker) -> None:
        parts: list[tuple[_Work, list[Place]]] = []
        room = MAX_PARTITIONS_PER_REQUEST
        while broker.waiting and len(broker.waiting[0][1]) <= room:
            work, places = broker.waiting.popleft()
            if work.is_wanted:
                parts.append((work, places))
                room -= len(places)
        if not parts or self._closed:
            broker.is_asked = False
            return
        asked = self._sender.send(leader, [work.marker(places) for work, places in parts])
        asked.when_done(lambda done: self._answered(leader, broker, parts, done.result()))

    def _answered(
        self,
        leader: int,
        broker: _Broker,
        parts: Sequence[tuple[_Work, list[Place]]],
        answer: Sequence[Outcome] | Refused,
    ) -> None:
        outcomes: Sequence[Outcome] = () if isinstance(answer, Refused) else answer
        for position, (work, places) in enumerate(parts):
            self._heed(work, places, outcomes[position] if position < len(outcomes) else {})
        asyncio.get_running_loop().call_soon(self._ask, leader, broker)

    def _heed(self, work: _Work, places: Sequence[Place], outcome: Outcome) -> None:
        written = {place for place in places if place in outcome and _is_over(outcome[place])}
        for place in written:
            if (problem := outcome[place]) is not None:
                where = {"topic": place[0], "partition": place[1], "transactional_id": work.order.transactional_id}
                logger.warning("transaction.marker.refused", extra={**where, "why": problem.name})
        work.left -= written
        rest = [place for place in places if place not in written]
        if rest:
            self._again(work, lambda: self._go_on(work, rest))
        elif not work.left:
            self._finish(work)

    def _finish(self, work: _Work) -> None:
        if self._closed or not work.is_wanted:
            return

        def told(done: Later[MachineAnswer | Refused]) -> None:
            # Too few replicas, most likely. When it is another machine's by now, that one has it done.
            if isinstance(done.result(), Refused):
                self._again(work, lambda: self._finish(work))

        work.runner.submit(MarkersWritten(work.order.transactional_id, work.order.ends)).when_done(told)
        # In the same turn of the loop, so that the next transaction begins with the same sync that this one ends with.
        self.when_finished(work.order.transactional_id)

    def _again(self, work: _Work, go_on: Callable[[], None]) -> None:
        if work.is_wanted and not self._closed:
            self._clock.call_at(self._clock.now_ms() + work.pause_ms, go_on)
            work.pause_ms = min(2 * work.pause_ms, LAST_PAUSE_MS)


def _is_over(problem: Problem | None) -> bool:
    """Written, or of no use: the log has a later epoch of this producer, so nothing of it is open there."""
    return problem is None or problem is Problem.INVALID_PRODUCER_EPOCH
