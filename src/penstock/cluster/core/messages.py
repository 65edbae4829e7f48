"""What brokers say to each other beyond Kafka's APIs. Both ends are of one release."""

from __future__ import annotations

from uuid import UUID

import msgspec

from penstock.cluster.core.delta import Delta
from penstock.coordination.paths import PartitionState
from penstock.decoding import decoded
from penstock.errors import Problem, Refused


class Push(msgspec.Struct, frozen=True, tag="push"):
    """Controller to broker; answered when it has been carried out."""

    delta: Delta


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Broker to controller, for a connection whose end says something; or to find out which life a broker is in."""


class Stopping(msgspec.Struct, frozen=True, tag="stopping"):
    """Broker to controller: it will go. Answered when others lead what it led."""

    node_id: int
    broker_epoch: int


class IsrWish(msgspec.Struct, frozen=True, array_like=True):
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    # Broker and broker epoch, NO_EPOCH for those that stay.
    isr: tuple[tuple[int, int], ...]
    # Who of the ISR and the eligible leaders must not be elected, because it has not kept everything.
    lost: tuple[int, ...] = ()


class AlterIsr(msgspec.Struct, frozen=True, tag="alter-isr"):
    """Leader to controller. Kafka's AlterPartition would do, but for what it leaves out of its answers."""

    node_id: int
    broker_epoch: int
    wishes: tuple[IsrWish, ...]


class MakeTopic(msgspec.Struct, frozen=True, tag="make-topic"):
    """Broker to controller: a client asked for a topic that is not there."""

    name: str
    partition_count: int
    replication_factor: int
    config: dict[str, str]
    internal: bool


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """A client's request as it came, for the controller. It is not forwarded again."""

    frame: bytes
    host: str


class LogEndOf(msgspec.Struct, frozen=True, tag="log-end"):
    """Controller to replica, of a partition that nobody leads."""

    topic: str
    partition: int


class MarkerRow(msgspec.Struct, frozen=True, array_like=True):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    # Topics and their partitions, each with the leader epoch that the sender knows.
    topics: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]

    def places(self) -> list[tuple[str, int, int]]:
        return [(topic, *partition) for topic, partitions in self.topics for partition in partitions]


class WriteMarkers(msgspec.Struct, frozen=True, tag="write-markers"):
    """Coordinator of transactions to the leader of partitions. Kafka's WriteTxnMarkers does not say who sends it.

    Answered with a row for each partition, in their order.
    """

    node_id: int
    markers: tuple[MarkerRow, ...]


class AppendUsage(msgspec.Struct, frozen=True, tag="append-usage"):
    """To the leader of a partition of `__usage`; answered when it is committed."""

    partition: int
    # One, of an idempotent producer, so that it may be sent again.
    batch: bytes


Message = Push | Hello | Stopping | AlterIsr | MakeTopic | Forward | LogEndOf | WriteMarkers | AppendUsage


class Addressed(msgspec.Struct, frozen=True, array_like=True):
    """For this broker of this cluster: at its address there may be another by now."""

    cluster_id: str
    node_id: int
    message: Message


class ReplyRow(msgspec.Struct, frozen=True, array_like=True):
    problem: str = ""
    text: str = ""
    state: PartitionState | None = None
    version: int = -1


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """`problem` is empty when it was done."""

    problem: str = ""
    text: str = ""
    rows: tuple[ReplyRow, ...] = ()
    frame: bytes = b""
    # Hello: broker epoch. Stopping: what the broker leads still. LogEndOf: last epoch, end offset, broker epoch.
    numbers: tuple[int, ...] = ()

    @property
    def refusal(self) -> Refused | None:
        return refusal_of(self.problem, self.text)

    @classmethod
    def refused(cls, refused: Refused) -> Reply:
        return cls(refused.problem.name, refused.text)


def refusal_of(problem: str, text: str) -> Refused | None:
    if not problem:
        return None
    # A later release may know more reasons.
    known = Problem[problem] if problem in Problem.__members__ else Problem.INVALID_REQUEST
    return Refused(known, text)


_MESSAGES = msgspec.msgpack.Decoder(Addressed)
_REPLIES = msgspec.msgpack.Decoder(Reply)


def encode(value: Addressed | Reply) -> bytes:
    return msgspec.msgpack.encode(value)


def decode_message(data: bytes) -> Addressed:
    """Raises ValueError for what is none."""
    return decoded(_MESSAGES, data)


def decode_reply(data: bytes) -> Reply:
    """Raises ValueError for what is none."""
    return decoded(_REPLIES, data)
