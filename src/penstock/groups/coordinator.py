"""All groups of this broker: one machine per partition of __consumer_offsets, found by the group's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.cluster.core.image import TopicImage
from penstock.errors import Problem, Refused
from penstock.groups.core import records
from penstock.groups.core.answers import DeleteGroupsAnswer, DeleteOffsetsAnswer, GroupAnswer
from penstock.groups.core.consumer_events import TopicsChanged
from penstock.groups.core.consumer_topics import KnownTopic, TopicsView
from penstock.groups.core.events import DeleteGroups, DeleteOffsets, TopicsDeleted
from penstock.groups.core.limits import MAX_GROUP_ID_CHARACTERS
from penstock.groups.core.machine import GroupEvent, GroupsMachine
from penstock.groups.core.offset_table import FORGOTTEN_AT_ONCE
from penstock.groups.core.records import CommittedOffset, Record
from penstock.groups.core.transaction_events import TransactionEnded, TransactionEndedAnswer, TransactionGuard
from penstock.groups.core.volatile import Note
from penstock.later import Later
from penstock.replication.machine import MachineRunner
from penstock.replication.machines import Ground, MachineKind, Machines

OFFSETS_TOPIC = "__consumer_offsets"

Runner = MachineRunner[GroupEvent, Record, GroupAnswer, Note]
A = TypeVar("A", bound=GroupAnswer)

_NOT_NOW = (Problem.NOT_COORDINATOR, Problem.COORDINATOR_LOADING, Problem.COORDINATOR_NOT_AVAILABLE)


class Groups:
    """Follows the topics: its own, whose partitions it runs, and all others, which groups subscribe to."""

    def __init__(self, make_machine: Callable[[], GroupsMachine], ground: Ground) -> None:
        self._image = ground.image
        self._machines: Machines[GroupEvent, Record, GroupAnswer, Note] = Machines(
            MachineKind(OFFSETS_TOPIC, make_machine, records, self._tell_topics), ground
        )

    def partition_of(self, group_id: str) -> int | None:
        """Of the offsets topic: its leader is the group's coordinator. None before there is such a topic."""
        return self._machines.partition_of(group_id)

    async def ensure_topic(self, partition_count: int) -> Refused | None:
        """The offsets topic comes with the first group."""
        return await self._machines.ensure_topic(partition_count)

    def submit(self, group_id: str, event: GroupEvent, kind: type[A]) -> Later[A | Refused]:
        """`kind` is the answer that the event is answered with."""
        return self._machines.submit(group_id, event, kind)

    def read(self, group_id: str, event: GroupEvent, kind: type[A]) -> Later[A | Refused]:
        """As `submit`, and the answer is not from the past of a coordinator that was replaced and does not know it."""
        return self._machines.submit(group_id, event, kind, certain=True)

    def delete_group(self, group_id: str) -> Later[DeleteGroupsAnswer | Refused]:
        """With all that it committed."""
        return self._delete(group_id, DeleteGroups((group_id,)), DeleteGroupsAnswer)

    def delete_offsets(self, event: DeleteOffsets) -> Later[DeleteOffsetsAnswer | Refused]:
        return self._delete(event.group_id, event, DeleteOffsetsAnswer)

    def _delete(self, group_id: str, event: GroupEvent, kind: type[A]) -> Later[A | Refused]:
        """Part by part, but in one turn: nobody commits or joins in between."""
        left = self._count_offsets(group_id)
        while True:
            answer = self.submit(group_id, event, kind)
            before, left = left, self._count_offsets(group_id)
            if before - left < FORGOTTEN_AT_ONCE or not left:
                return answer

    def _count_offsets(self, group_id: str) -> int:
        machine = self._machines.machine_at(self.partition_of(group_id))
        return machine.count_offsets(group_id) if isinstance(machine, GroupsMachine) else 0

    def transaction_guard(
        self, group_id: str, producer_id: int, producer_epoch: int
    ) -> TransactionGuard | Refused | None:
        """To be taken before the transaction's coordinator is asked about a `TxnOffsetCommit`; None: no need to ask."""
        if not 0 < len(group_id) <= MAX_GROUP_ID_CHARACTERS:
            return Refused(Problem.INVALID_GROUP_ID, f"a group id has 1 to {MAX_GROUP_ID_CHARACTERS} characters")
        machine = self._machines.machine_at(self.partition_of(group_id))
        if isinstance(machine, Refused):
            return machine
        assert isinstance(machine, GroupsMachine)
        return machine.transaction_guard(producer_id, producer_epoch)

    def end_transaction(self, partition: int, event: TransactionEnded) -> Later[TransactionEndedAnswer | Refused]:
        """What a marker is for other partitions. Who writes it knows partitions and their leaders, no coordinators.

        Where nothing is pending nothing is written; but a coordinator that was replaced and does not know it may not
        say so, for at its successor something may be.
        """
        answer = self._machines.submit_at(partition, event, TransactionEndedAnswer, certain=True)
        return answer.map(_as_a_partition)

    def submit_to_all(self, event: GroupEvent, kind: type[A]) -> Later[list[A | Refused]]:
        """For what concerns every group; the answers are in no order that means anything."""
        return self._machines.submit_to_all(event, kind)

    def committed(self) -> Iterator[tuple[str, str, dict[int, CommittedOffset]]]:
        """Group, topic, offsets by partition: as they are now, for metrics; a commit may not be on disk yet.

        There may be a hundred thousand: what takes time with each is for another thread.
        """
        for runner in self._machines:
            if isinstance(machine := runner.machine, GroupsMachine):
                yield from machine.committed()

    def unavailable(self) -> list[Refused]:
        """Why groups are not served, for every partition where they are not."""
        return self._machines.unavailable()

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
            self._machines.drop()
            return
        if not keep:
            for runner in self._machines:
                _forget(runner, name)
        self._topics_changed()

    async def close(self) -> None:
        self._machines.close()

    def _tell_topics(self, runner: Runner) -> None:
        runner.submit(TopicsChanged(self._view()))

    def _topics_changed(self, opened: TopicImage | None = None) -> None:
        runners = list(self._machines)
        if runners:
            event = TopicsChanged(self._view(opened))
            for runner in runners:
                runner.submit(event)

    def _view(self, opened: TopicImage | None = None) -> TopicsView:
        """A topic that is being opened is announced to groups before the image has it."""
        topics = {topic.name: topic for topic in self._image.topics()}
        if opened is not None:
            topics[opened.name] = opened
        return TopicsView(
            {name: KnownTopic(topic.id, len(topic.partitions), topic.is_internal) for name, topic in topics.items()}
        )


def _forget(runner: Runner, topic: str) -> None:
    """All in one turn, so that nothing of a later topic of that name is among it. What is refused expires some day."""
    while isinstance(machine := runner.machine, GroupsMachine) and machine.has_offsets_of(topic):
        answer = runner.submit(TopicsDeleted((topic,)))
        if answer.done and isinstance(answer.result(), Refused):
            return


def _as_a_partition(answer: TransactionEndedAnswer | Refused) -> TransactionEndedAnswer | Refused:
    if isinstance(answer, Refused) and answer.problem in _NOT_NOW:
        return Refused(Problem.NOT_LEADER, answer.text)
    return answer
