"""All groups of this broker: one machine per partition of __consumer_offsets, found by the group's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from zlib import crc32

from penstock.clock import Clock
from penstock.cluster.core.image import Image, TopicImage
from penstock.cluster.topics import NewTopic, Topics
from penstock.errors import Problem, Refused
from penstock.groups.core import records
from penstock.groups.core.answers import GroupAnswer
from penstock.groups.core.consumer_events import TopicsChanged
from penstock.groups.core.consumer_topics import KnownTopic, TopicsView
from penstock.groups.core.events import TopicsDeleted
from penstock.groups.core.machine import GroupEvent, GroupsMachine
from penstock.groups.core.records import Record
from penstock.groups.core.volatile import Note
from penstock.later import Later, gather
from penstock.replication.machine import MachineRunner
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.units import MIB

OFFSETS_TOPIC = "__consumer_offsets"
# Small segments, so that compaction keeps the replay after a restart short.
OFFSETS_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(100 * MIB)}

Runner = MachineRunner[GroupEvent, Record, GroupAnswer, Note]
A = TypeVar("A", bound=GroupAnswer)

_NOT_HERE = Refused(Problem.NOT_COORDINATOR, "another broker coordinates the group, or will")


class Groups:
    """Follows the topics: its own, whose partitions it runs, and all others, which groups subscribe to."""

    def __init__(
        self,
        make_machine: Callable[[], GroupsMachine],
        replicas: Replicas,
        topics: Topics,
        image: Image,
        pool: ThreadPoolExecutor,
        clock: Clock,
    ) -> None:
        self._make_machine = make_machine
        self._replicas = replicas
        self._topics = topics
        self._image = image
        self._pool = pool
        self._clock = clock
        # By partition of the offsets topic: those that this broker leads.
        self._runners: dict[int, Runner] = {}
        self._closed = False
        replicas.roles.listen(self._role_changed)

    def partition_of(self, group_id: str) -> int | None:
        """Of the offsets topic: its leader is the group's coordinator. None before there is such a topic."""
        topic = self._image.topic(OFFSETS_TOPIC)
        return None if topic is None else crc32(group_id.encode()) % len(topic.partitions)

    async def ensure_topic(self, partition_count: int) -> Refused | None:
        """The offsets topic comes with the first group."""
        if self._image.topic(OFFSETS_TOPIC) is not None:
            return None
        new = NewTopic(OFFSETS_TOPIC, partition_count, config=OFFSETS_CONFIG)
        return await self._topics.ensure(new, internal=True)

    def submit(self, group_id: str, event: GroupEvent, kind: type[A]) -> Later[A | Refused]:
        """`kind` is the answer that the event is answered with."""
        partition = self.partition_of(group_id)
        if partition is None:
            return Later.of(Refused(Problem.COORDINATOR_NOT_AVAILABLE, "no group has been looked up yet"))
        runner = self._runners.get(partition)
        if runner is None:
            return Later.of(_NOT_HERE)
        return runner.submit(event).map(lambda answer: _expected(answer, kind))

    def read(self, group_id: str, event: GroupEvent, kind: type[A]) -> Later[A | Refused]:
        """As `submit`, and the answer is not from the past of a coordinator that was replaced and does not know it."""
        answer = self.submit(group_id, event, kind)
        partition = self.partition_of(group_id)
        runner = None if partition is None else self._runners.get(partition)
        if runner is None:
            return answer
        certain: Later[A | Refused] = Later()

        def confirmed(done: Later[Refused | None]) -> None:
            refused = done.result()
            if refused is None:
                answer.when_done(certain.settle_like)
            else:
                certain.complete(refused if refused.problem is Problem.COORDINATOR_NOT_AVAILABLE else _NOT_HERE)

        runner.when_confirmed().when_done(confirmed)
        return certain

    def submit_to_all(self, event: GroupEvent, kind: type[A]) -> Later[list[A | Refused]]:
        """For what concerns every group; the answers are in no order that means anything."""
        runners = self._runners.values()
        return gather([runner.submit(event).map(lambda answer: _expected(answer, kind)) for runner in runners])

    def committed(self) -> Iterator[tuple[str, str, int, int]]:
        """Group, topic, partition, offset: as they are now, for metrics; a commit may not be on disk yet."""
        for runner in self._runners.values():
            if isinstance(machine := runner.machine, GroupsMachine):
                yield from machine.committed()

    def unavailable(self) -> list[Refused]:
        """Why groups are not served, for every partition where they are not."""
        return [refused for runner in self._runners.values() if (refused := runner.unavailable) is not None]

    # Following the topics

    async def open_topic(self, topic: TopicImage) -> None:
        if topic.name != OFFSETS_TOPIC:
            self._topics_changed(topic)

    async def drop_topic(self, name: str, *, keep: bool = False) -> None:
        """`keep`: nobody said that it was deleted, so what groups have committed stays, as the records do. If it does
        not come back, that expires as in any group that does not use a topic; another topic of its name does not get
        it, because commits hold the topic's id.
        """
        if name == OFFSETS_TOPIC:
            self._stop_all(Refused(Problem.COORDINATOR_NOT_AVAILABLE, f"{OFFSETS_TOPIC} was deleted"))
            return
        if not keep:
            for runner in self._runners.values():
                runner.submit(TopicsDeleted((name,)))
        self._topics_changed()

    async def close(self) -> None:
        self._closed = True
        self._stop_all(Refused(Problem.COORDINATOR_NOT_AVAILABLE, "this broker is stopping"))

    def _role_changed(self, partition: Partition) -> None:
        """A coordinator comes and goes with the leadership of its partition; under a new epoch it reads all anew."""
        if partition.topic != OFFSETS_TOPIC or self._closed:
            return
        if (before := self._runners.pop(partition.index, None)) is not None:
            before.stop(_NOT_HERE)
        if partition.leadership is not None:
            self._start_runner(partition)

    def _start_runner(self, partition: Partition) -> None:
        runner: Runner = MachineRunner(
            partition, self._replicas, self._make_machine, records, self._pool, self._clock, self._tell_topics
        )
        self._runners[partition.index] = runner
        runner.start()

    def _tell_topics(self, runner: Runner) -> None:
        runner.submit(TopicsChanged(self._view()))

    def _topics_changed(self, opened: TopicImage | None = None) -> None:
        if self._runners:
            event = TopicsChanged(self._view(opened))
            for runner in self._runners.values():
                runner.submit(event)

    def _view(self, opened: TopicImage | None = None) -> TopicsView:
        """A topic that is being opened is announced to groups before the image has it."""
        topics = {topic.name: topic for topic in self._image.topics()}
        if opened is not None:
            topics[opened.name] = opened
        return TopicsView(
            {name: KnownTopic(topic.id, len(topic.partitions), topic.is_internal) for name, topic in topics.items()}
        )

    def _stop_all(self, refused: Refused) -> None:
        runners, self._runners = self._runners, {}
        for runner in runners.values():
            runner.stop(refused)


def _expected(answer: GroupAnswer | Refused, kind: type[A]) -> A | Refused:
    if isinstance(answer, Refused | kind):
        return answer
    raise TypeError(f"answered with {type(answer).__name__} instead of {kind.__name__}")
