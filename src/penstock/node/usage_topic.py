"""The topic `__usage`: batches go to whichever broker leads one of its partitions, and are there when committed."""

from __future__ import annotations

from penstock.clock import Clock
from penstock.cluster.calls import Calls
from penstock.cluster.core.image import USAGE_TOPIC, Image
from penstock.cluster.core.messages import AppendUsage, Reply
from penstock.cluster.topics import NewTopic, Topics
from penstock.errors import Problem, Refused
from penstock.later import Later
from penstock.replication.partition import Committed
from penstock.replication.replicas import Replicas
from penstock.units import DAY_MS, MIB, SECOND_MS

# Enough that each broker of a small cluster leads one; all of a cluster's usage is a few kilobytes per second.
PARTITIONS = 3
_ANY_MS = str(2**63 - 1)
# Whatever the defaults of new topics are here: bills are written some time after the month they are about, and an event
# is as old as it is.
TOPIC_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": str(62 * DAY_MS),
    "retention.bytes": "-1",
    "max.message.bytes": str(MIB),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY_MS,
    "message.timestamp.after.max.ms": _ANY_MS,
}
# Whoever sends it tries again.
COMMIT_TIMEOUT_MS = 10 * SECOND_MS
# Longer than the leader waits until it is committed.
ANSWER_TIMEOUT_MS = 15 * SECOND_MS


class UsageTopic:
    def __init__(self, replicas: Replicas, image: Image, topics: Topics, calls: Calls, clock: Clock) -> None:
        self._replicas = replicas
        self._image = image
        self._topics = topics
        self._calls = calls
        self._clock = clock

    @property
    def node_id(self) -> int:
        return self._image.node_id

    @property
    def is_known(self) -> bool:
        return self._image.topic(USAGE_TOPIC) is not None

    async def ensure(self) -> Refused | None:
        """The topic comes with the first usage."""
        if self.is_known:
            return None
        return await self._topics.ensure(NewTopic(USAGE_TOPIC, PARTITIONS, config=TOPIC_CONFIG), internal=True)

    def choose(self) -> int:
        """A partition that this broker leads, if there is one: then nothing goes over the network twice."""
        topic, node_id = self._image.topic(USAGE_TOPIC), self._image.node_id
        rows = () if topic is None else topic.partitions
        led = [index for index, row in enumerate(rows) if row.leader == node_id]
        return led[node_id % len(led)] if led else node_id % PARTITIONS

    def append(self, index: int, batch: bytes) -> Later[Refused | None]:
        """None when it is committed. Refused: it may be there or not, and may be sent again."""
        topic = self._image.topic(USAGE_TOPIC)
        if topic is None or index >= len(topic.partitions):
            return Later.of(Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{USAGE_TOPIC}-{index} is not known here"))
        leader, message = topic.partitions[index].leader, AppendUsage(index, batch)
        if leader == self._image.node_id:
            return self.append_here(message).map(lambda reply: reply.refusal)
        return self._calls.ask_alone(leader, message, ANSWER_TIMEOUT_MS).map(lambda reply: reply.refusal)

    def append_here(self, message: AppendUsage) -> Later[Reply]:
        """From any broker; checked as a producer's is, because anything could have been sent."""
        partition = self._replicas.leader(USAGE_TOPIC, message.partition)
        if isinstance(partition, Refused):
            return Later.of(Reply.refused(partition))
        appended = self._replicas.append(partition, memoryview(bytearray(message.batch)), for_all=True)
        if isinstance(appended, Refused):
            return Later.of(Reply.refused(appended))
        deadline_ms = self._clock.now_ms() + COMMIT_TIMEOUT_MS
        return partition.when_committed(appended.next_offset, deadline_ms).map(_reply)


def _reply(refused: Committed) -> Reply:
    # What is committed stays, however few have it.
    if refused is None or refused.problem is Problem.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        return Reply()
    return Reply.refused(refused)
