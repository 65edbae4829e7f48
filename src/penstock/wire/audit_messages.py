"""What an audit asks of each broker, in a request of Penstock's own: which logs it has, and their files as they are.

MessagePack both ways. A file is named by what it is, never by a path.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated
from uuid import UUID

import msgspec

from penstock.decoding import decoded
from penstock.units import KIB, MIB

MAX_READ_BYTES = MIB
"""Of one answer: what a pool thread reads at once while others wait for it."""
_MAX_REQUEST_BYTES = 4 * KIB

_Token = Annotated[str, msgspec.Meta(max_length=256)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Topic = Annotated[str, msgspec.Meta(max_length=249)]


class AuditProblem(Enum):
    """Why there is no answer."""

    OFF = "off"
    DENIED = "denied"
    # Ask again a little later.
    BUSY = "busy"
    # The log is not what it was when it was listed: list it again.
    CHANGED = "changed"
    # Retention has taken the segment, with all before it.
    GONE = "gone"
    # The log should have such a file.
    MISSING = "missing"
    UNREADABLE = "unreadable"


class FileKind(Enum):
    """Those of a segment, and below them those that a log has one of."""

    LOG = "log"
    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TRANSACTION_INDEX = "txnindex"
    SNAPSHOT = "snapshot"
    CHECKPOINT = "checkpoint"
    START_OFFSET = "start-offset"
    TOPIC_ID = "topic-id"


class FileName(msgspec.Struct, frozen=True, array_like=True):
    """Which segment it belongs to is of no matter where the log has one."""

    kind: FileKind
    base_offset: _Offset = 0
    generation: _Number = 0


class ListLogs(msgspec.Struct, frozen=True, tag="list"):
    """Those behind this topic and partition, in that order: a page of them."""

    token: _Token
    after: tuple[_Topic, int] | None = None


class ReadFile(msgspec.Struct, frozen=True, tag="read"):
    """A part of a file of a log as it was listed, when it had been truncated so often."""

    token: _Token
    topic_id: UUID
    partition: _Number
    truncations: int
    file: FileName
    position: _Offset
    length: Annotated[int, msgspec.Meta(ge=1, le=MAX_READ_BYTES)]


AuditRequest = ListLogs | ReadFile


class ListedSegment(msgspec.Struct, frozen=True, array_like=True):
    """`size`: what of its file is log; there may be more by now."""

    base_offset: int
    generation: int
    size: int
    next_offset: int


class ListedLog(msgspec.Struct, frozen=True):
    topic: str
    topic_id: UUID
    partition: int
    high_watermark: int
    start_offset: int
    end_offset: int
    truncations: int
    # cleanup.policy has compact, or once had.
    may_have_gaps: bool
    segments: tuple[ListedSegment, ...]
    # Why the log takes nothing more.
    failure: str | None = None
    # Which records were gone from the disk when the node started: the log starts behind them.
    lost: tuple[int, int] | None = None


class AuditReply(msgspec.Struct, frozen=True, omit_defaults=True):
    problem: AuditProblem | None = None
    text: str = ""
    # To `ListLogs`.
    logs: tuple[ListedLog, ...] = ()
    has_more: bool = False
    # To `ReadFile`: perhaps fewer bytes than were asked for, and how many the file has.
    data: bytes = b""
    file_size: int = 0


_REQUESTS: msgspec.msgpack.Decoder[AuditRequest] = msgspec.msgpack.Decoder(AuditRequest)
_REPLIES: msgspec.msgpack.Decoder[AuditReply] = msgspec.msgpack.Decoder(AuditReply)


def encode_request(request: AuditRequest) -> bytes:
    return msgspec.msgpack.encode(request)


def decode_request(data: bytes | memoryview) -> AuditRequest:
    """Raises ValueError for what is none."""
    if len(data) > _MAX_REQUEST_BYTES:
        raise ValueError(f"it has {len(data)} bytes, and no request has more than {_MAX_REQUEST_BYTES}")
    return decoded(_REQUESTS, bytes(data))


def encode_reply(reply: AuditReply) -> bytes:
    return msgspec.msgpack.encode(reply)


def decode_reply(data: bytes) -> AuditReply:
    """Raises ValueError for what is none."""
    return decoded(_REPLIES, data)
