"""Answers to what other brokers ask of this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from penstock.cluster.core.effects import Answer
from penstock.cluster.core.election import LogEnd
from penstock.cluster.core.events import BrokerStopping
from penstock.cluster.core.messages import (
    Addressed,
    AlterIsr,
    AppendUsage,
    Forward,
    Hello,
    LogEndOf,
    MakeTopic,
    Message,
    Push,
    Reply,
    Stopping,
    WriteMarkers,
)
from penstock.cluster.isr_changes import decide
from penstock.cluster.member import Member
from penstock.cluster.metadata import Metadata
from penstock.cluster.topics import NewTopic, Topics
from penstock.errors import Problem, Refused
from penstock.later import Later, awaiting

_NOT_YET = Reply.refused(Refused(Problem.STORE_UNAVAILABLE, "this broker is starting"))
_NOT_CONTROLLER = Reply.refused(Refused(Problem.NOT_CONTROLLER, "this broker is not the controller"))

# The log of one of this broker's replicas.
FindLogEnd = Callable[[str, int], LogEnd | None]
# A client's request, whole, and where the client is; the answer is whole too.
Serve = Callable[[bytes, str], Later[bytes]]
# Markers of transactions, and the number of the connection that they came on.
Write = Callable[[WriteMarkers, int], Later[Reply]]
# What another broker has counted.
Append = Callable[[AppendUsage], Later[Reply]]


class Answering:
    def __init__(self, member: Member, metadata: Metadata, topics: Topics, find_log_end: FindLogEnd) -> None:
        self._member = member
        self._metadata = metadata
        self._topics = topics
        self._find_log_end = find_log_end
        # Set by whoever serves clients, before anybody asks.
        self.serve: Serve | None = None
        # Set by whoever has the partitions.
        self.write_markers: Write | None = None
        self.append_usage: Append | None = None

    def answer(self, addressed: Addressed, connection: int = 0) -> Later[Reply]:
        """STORE_UNAVAILABLE, as if it had not come, to what was meant for another broker. `connection`: its number."""
        cluster_id, node_id = self._metadata.cluster_id, self._metadata.node_id
        if (cluster_id, node_id) != (addressed.cluster_id, addressed.node_id):
            text = f"this is broker {node_id} of cluster {cluster_id}"
            wanted = f"broker {addressed.node_id} of cluster {addressed.cluster_id}"
            return Later.of(Reply.refused(Refused(Problem.STORE_UNAVAILABLE, f"{text}, not {wanted}")))
        return self._answer(addressed.message, connection)

    def _answer(self, message: Message, connection: int) -> Later[Reply]:
        match message:
            case Push(delta):
                return self._metadata.receive(delta).map(_received)
            case Hello():
                return Later.of(Reply(numbers=(self._member.broker_epoch,)))
            case LogEndOf(topic, partition):
                return Later.of(self._log_end(topic, partition))
            case WriteMarkers():
                if self.write_markers is None:
                    return Later.of(_NOT_YET)
                return self.write_markers(message, connection)
            case AppendUsage():
                return Later.of(_NOT_YET) if self.append_usage is None else self.append_usage(message)
        controller = self._member.controller
        if controller is None or controller.is_over:
            return Later.of(_NOT_CONTROLLER)
        match message:
            case Stopping(node_id, broker_epoch):
                return controller.ask(lambda request_id: BrokerStopping(request_id, node_id, broker_epoch)).map(
                    _stopped
                )
            case AlterIsr():
                return decide(controller, message)
            case MakeTopic():
                return awaiting(self._make_topic(message))
            case Forward(frame, host):
                if self.serve is None:
                    return Later.of(_NOT_CONTROLLER)
                return self.serve(frame, host).map(lambda answer: Reply(frame=answer))
        assert_never(message)

    async def _make_topic(self, message: MakeTopic) -> Reply:
        new = NewTopic(message.name, message.partition_count, message.replication_factor, config=message.config)
        made = await (self._topics.create_internal(new) if message.internal else self._topics.create(new))
        return Reply.refused(made) if isinstance(made, Refused) else Reply()

    def _log_end(self, topic: str, partition: int) -> Reply:
        found = self._find_log_end(topic, partition)
        if found is None:
            return Reply.refused(Refused(Problem.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition} is not here"))
        return Reply(numbers=(found.last_epoch, found.end_offset, self._member.broker_epoch))


def _received(result: object) -> Reply:
    return Reply.refused(result) if isinstance(result, Refused) else Reply()


def _stopped(answer: Answer) -> Reply:
    if answer.refusal is not None:
        return Reply.refused(answer.refusal)
    return Reply(numbers=(answer.leaderships,))
