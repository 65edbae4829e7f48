"""What can happen to a cluster, as those saw it who took part: one JSON object per line.

Many processes of one machine record at the same time and share its monotonic clock, so `at_ns` orders events of all of
them. An event with `asked_ns` took from there to `at_ns`; what it says was true at some moment in between.

A value names its sender and its number, `producer:number`, and numbers of one producer rise in the order of sending.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True, gc=False):
    at_ns: int


class AtPartition(Event, frozen=True, kw_only=True, gc=False):
    topic: str
    partition: int


class Sent(AtPartition, frozen=True, kw_only=True, tag="sent", gc=False):
    """Handed to the producer's library, before anybody else could know of it."""

    producer: str
    number: int
    # Of an idempotent producer: however often it was sent on the wire, it may be there once only.
    idempotent: bool = True
    key: str | None = None
    # Which transaction it is in, and which value it was made of; "" for one that is in none, or made of nothing.
    transaction: str = ""
    source: str = ""


class Acked(AtPartition, frozen=True, kw_only=True, tag="acked", gc=False):
    """acks=all. No offset: the library knows only that it is there."""

    producer: str
    number: int
    offset: int | None = None


class Failed(AtPartition, frozen=True, kw_only=True, tag="failed", gc=False):
    """The broker has refused it for good and nobody sent it again."""

    producer: str
    number: int
    error: str = ""


class Unknown(AtPartition, frozen=True, kw_only=True, tag="unknown", gc=False):
    """Whether it is there is not known, and both is right."""

    producer: str
    number: int
    error: str = ""


class Read(AtPartition, frozen=True, kw_only=True, tag="read", gc=False):
    reader: str
    offset: int
    value: str
    # "" for one who reads for himself.
    group: str = ""
    # Which broker it came from, where that is known.
    replica: int | None = None
    # At read_committed
    committed_only: bool = False


class CommitBegun(Event, frozen=True, kw_only=True, tag="commit-begun", gc=False):
    """The producer is about to ask for it. A transaction without it can end in one way only."""

    transaction: str


class TransactionEnded(Event, frozen=True, kw_only=True, tag="transaction-ended", gc=False):
    """As its producer was told. Of one whose commit was begun and never answered both ends are right."""

    transaction: str
    committed: bool


class EndSeen(AtPartition, frozen=True, kw_only=True, tag="end-seen", gc=False):
    """The end of the partition for readers: ListOffsets(latest) or the watermark in a Fetch answer."""

    reader: str
    offset: int
    asked_ns: int = 0


class Drained(Event, frozen=True, kw_only=True, tag="drained", gc=False):
    """The group has read all of the topic, from its first offset to its end after the last fault."""

    group: str
    topic: str


class Committed(AtPartition, frozen=True, kw_only=True, tag="committed", gc=False):
    """A group's commit that was answered without an error."""

    group: str
    member: str
    offset: int


class CommittedSeen(AtPartition, frozen=True, kw_only=True, tag="committed-seen", gc=False):
    """What the coordinator says is committed."""

    group: str
    reader: str
    offset: int
    asked_ns: int


class Owned(AtPartition, frozen=True, kw_only=True, tag="owned", gc=False):
    """A member was given the partition in that generation (KIP-848: at that member epoch)."""

    group: str
    member: str
    generation: int


class Leading(AtPartition, frozen=True, kw_only=True, tag="leading", gc=False):
    """`observer` says who leads: the leader itself, another broker's metadata, or the store."""

    observer: str
    leader: int
    leader_epoch: int


class Watermark(AtPartition, frozen=True, kw_only=True, tag="watermark", gc=False):
    """A leader's high watermark, recorded by itself in the order of its changes."""

    broker: int
    leader_epoch: int
    offset: int
    # Which life of the broker it was: one that starts anew has to find its watermark again.
    life: int = 0


class Deleted(AtPartition, frozen=True, kw_only=True, tag="deleted", gc=False):
    """Records below that offset may be gone: DeleteRecords or retention."""

    before_offset: int


class Replica(AtPartition, frozen=True, kw_only=True, tag="replica", gc=False):
    """The last state of one replica's log. Its batches follow as `Stored`."""

    broker: int
    log_start: int
    high_watermark: int
    in_sync: bool = True
    compacted: bool = False


class StoredRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    offset: int
    # None: a tombstone
    value: str | None
    key: str | None = None


class Stored(AtPartition, frozen=True, kw_only=True, tag="stored", gc=False):
    """One batch of a replica's log."""

    broker: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    # Of all its bytes, header included.
    digest: str
    records: tuple[StoredRecord, ...] = ()


AnyEvent: TypeAlias = (
    Sent
    | Acked
    | Failed
    | Unknown
    | Read
    | CommitBegun
    | TransactionEnded
    | EndSeen
    | Drained
    | Committed
    | CommittedSeen
    | Owned
    | Leading
    | Watermark
    | Deleted
    | Replica
    | Stored
)

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_encoder = msgspec.json.Encoder()


def to_line(event: Event) -> bytes:
    return _encoder.encode(event)


def from_line(line: bytes) -> AnyEvent:
    return _decoder.decode(line)


def value_name(producer: str, number: int) -> str:
    return f"{producer}:{number}"
