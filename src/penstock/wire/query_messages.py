"""What a query's tasks and its driver say to their coordinator, in a request of Penstock's own: JSON both ways.

Every request goes to the coordinator of the query's transactional ids (`query_ids.attempt_id`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.decoding import decoded
from penstock.units import MIB
from penstock.wire.query_ids import MAX_QUERY_CHARACTERS, MAX_RUN_CHARACTERS

MAX_ATTEMPTS = 10_000
"""Of a batch. The coordinator decides about all of them at once, and nobody else is answered meanwhile."""
_MAX_BYTES = 16 * MIB
"""So many attempts with the longest names take less."""

_Query = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
_Run = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_RUN_CHARACTERS)]
_BatchId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=2 * MAX_QUERY_CHARACTERS)]
_ProducerId = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Epoch = Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)]
_TimeoutMs = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]


class Open(msgspec.Struct, frozen=True, tag="open", tag_field="ask"):
    """A task is about to write a part of this batch. `once`: nobody will come back for the query after this batch."""

    query: _Query
    run: _Run
    batch_id: _BatchId
    timeout_ms: _TimeoutMs
    once: bool = False


class Attempt(msgspec.Struct, frozen=True):
    transactional_id: _Id
    producer_id: _ProducerId
    producer_epoch: _Epoch


class Commit(msgspec.Struct, frozen=True, tag="commit", tag_field="ask"):
    """These attempts are the batch."""

    query: _Query
    run: _Run
    batch_id: _BatchId
    attempts: Annotated[tuple[Attempt, ...], msgspec.Meta(max_length=MAX_ATTEMPTS)]
    once: bool = False


class Abort(msgspec.Struct, frozen=True, tag="abort", tag_field="ask"):
    """This run gives the batch up."""

    query: _Query
    run: _Run
    batch_id: _BatchId
    once: bool = False


QueryRequest = Open | Commit | Abort


class QueryReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """`problem` is empty when it was done; else it is the name of an `errors.Problem`."""

    problem: str = ""
    text: str = ""
    # To `Open`, unless the batch is committed.
    attempt: Attempt | None = None
    # To `Open`: nothing is to be written. To `Commit` and `Abort`: it was committed before.
    is_committed: bool = False


_REQUESTS: msgspec.json.Decoder[QueryRequest] = msgspec.json.Decoder(QueryRequest)
_REPLIES: msgspec.json.Decoder[QueryReply] = msgspec.json.Decoder(QueryReply)


def encode_request(request: QueryRequest) -> bytes:
    return msgspec.json.encode(request)


def decode_request(data: bytes | memoryview) -> QueryRequest:
    """Raises ValueError for what is none."""
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it has {len(data)} bytes, and no request has more than {_MAX_BYTES}")
    return decoded(_REQUESTS, bytes(data))


def encode_reply(reply: QueryReply) -> bytes:
    return msgspec.json.encode(reply)


def decode_reply(data: bytes) -> QueryReply:
    """Raises ValueError for what is none."""
    return decoded(_REPLIES, data)
