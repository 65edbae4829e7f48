"""Machines of one kind: one per partition of an internal topic, each on the broker that leads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar
from zlib import crc32

from penstock.clock import Clock
from penstock.cluster.core.image import Image
from penstock.cluster.topics import NewTopic, Topics
from penstock.errors import Problem, Refused
from penstock.later import Later, gather
from penstock.replication.core.machine import Machine, Tick
from penstock.replication.machine import MachineRunner, RecordCodec
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.units import MIB

# Small segments, so that compaction keeps the replay after a restart short.
TOPIC_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(100 * MIB)}

Event = TypeVar("Event")
Record = TypeVar("Record")
Answer = TypeVar("Answer")
Note = TypeVar("Note")
A = TypeVar("A")

_NOT_HERE = Refused(Problem.NOT_COORDINATOR, "another broker is the coordinator, or will be")


@dataclass(frozen=True)
class MachineKind(Generic[Event, Record, Answer, Note]):
    """What runs in the partitions of a topic; replication/machine.py says what a runner does with it."""

    topic: str
    make_machine: Callable[[], Machine[Event | Tick, Record, Answer, Note]]
    codec: RecordCodec[Record]
    on_ready: Callable[[MachineRunner[Event, Record, Answer, Note]], None]
    on_orders: Callable[[MachineRunner[Event, Record, Answer, Note], tuple[object, ...]], None] | None = None


@dataclass(frozen=True)
class Ground:
    """What machines of every kind stand on."""

    replicas: Replicas
    topics: Topics
    image: Image
    pool: ThreadPoolExecutor
    clock: Clock


class Machines(Generic[Event, Record, Answer, Note]):
    """A machine looks after all whose names hash to its partition. It comes and goes with the leadership."""

    def __init__(self, kind: MachineKind[Event, Record, Answer, Note], ground: Ground) -> None:
        self._kind = kind
        self._ground = ground
        # By partition: those that this broker leads.
        self._runners: dict[int, MachineRunner[Event, Record, Answer, Note]] = {}
        self._closed = False
        ground.replicas.roles.listen(self._role_changed)

    def __iter__(self) -> Iterator[MachineRunner[Event, Record, Answer, Note]]:
        return iter(list(self._runners.values()))

    def partition_of(self, name: str) -> int | None:
        """Its leader is the coordinator of whatever has this name. None before there is such a topic."""
        topic = self._ground.image.topic(self._kind.topic)
        return None if topic is None else crc32(name.encode()) % len(topic.partitions)

    async def ensure_topic(self, partition_count: int) -> Refused | None:
        """The topic comes with the first who needs it."""
        if self._ground.image.topic(self._kind.topic) is not None:
            return None
        new = NewTopic(self._kind.topic, partition_count, config=TOPIC_CONFIG)
        return await self._ground.topics.ensure(new, internal=True)

    def submit(self, name: str, event: Event, kind: type[A], *, certain: bool = False) -> Later[A | Refused]:
        """`kind` is the answer that the event is answered with; `certain` as in `MachineRunner.submit`."""
        partition = self.partition_of(name)
        if partition is None:
            return Later.of(Refused(Problem.COORDINATOR_NOT_AVAILABLE, "no coordinator has been looked up yet"))
        return self.submit_at(partition, event, kind, certain=certain)

    def submit_at(self, partition: int, event: Event, kind: type[A], *, certain: bool = False) -> Later[A | Refused]:
        """As `submit`, for what concerns all in one partition."""
        runner = self._runners.get(partition)
        if runner is None:
            return Later.of(_NOT_HERE)
        return runner.submit(event, certain=certain).map(lambda answer: _expected(answer, kind))

    def machine_at(self, partition: int | None) -> Machine[Event | Tick, Record, Answer, Note] | Refused:
        """For reading only, and only by who may see more than is committed."""
        runner = None if partition is None else self._runners.get(partition)
        if runner is None:
            return _NOT_HERE
        return runner.machine or runner.unavailable or _NOT_HERE

    def submit_to_all(self, event: Event, kind: type[A]) -> Later[list[A | Refused]]:
        """For what concerns every machine here; the answers are in no order that means anything."""
        return gather([runner.submit(event).map(lambda answer: _expected(answer, kind)) for runner in self])

    def unavailable(self) -> list[Refused]:
        """Why there is no service, for every partition where there is none."""
        return [refused for runner in self._runners.values() if (refused := runner.unavailable) is not None]

    def drop(self) -> None:
        """The topic was deleted."""
        self._stop_all(Refused(Problem.COORDINATOR_NOT_AVAILABLE, f"{self._kind.topic} was deleted"))

    def close(self) -> None:
        self._closed = True
        self._stop_all(Refused(Problem.COORDINATOR_NOT_AVAILABLE, "this broker is stopping"))

    def _role_changed(self, partition: Partition) -> None:
        """Under a new epoch a machine reads all anew."""
        if partition.topic != self._kind.topic or self._closed:
            return
        if (before := self._runners.pop(partition.index, None)) is not None:
            before.stop(_NOT_HERE)
        if partition.leadership is not None:
            self._start(partition)

    def _start(self, partition: Partition) -> None:
        kind, ground = self._kind, self._ground
        runner: MachineRunner[Event, Record, Answer, Note] = MachineRunner(
            partition,
            ground.replicas,
            kind.make_machine,
            kind.codec,
            ground.pool,
            ground.clock,
            kind.on_ready,
            kind.on_orders,
        )
        self._runners[partition.index] = runner
        runner.start()

    def _stop_all(self, refused: Refused) -> None:
        runners, self._runners = self._runners, {}
        for runner in runners.values():
            runner.stop(refused)


def _expected(answer: object, kind: type[A]) -> A | Refused:
    if isinstance(answer, Refused | kind):
        return answer
    raise TypeError(f"answered with {type(answer).__name__} instead of {kind.__name__}")
