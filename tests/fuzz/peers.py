"""What other brokers and operators send: believed no more than what clients do."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode
from tests.fuzz.corpus import batch_bytes, spoiled_batch
from tests.fuzz.target import Target

from penstock.cluster.core.messages import (
    Addressed,
    AlterIsr,
    Forward,
    Hello,
    IsrWish,
    LogEndOf,
    MakeTopic,
    Reply,
    ReplyRow,
    Stopping,
    decode_message,
    decode_reply,
    encode,
)
from penstock.cluster.core.operator_messages import decode_request
from penstock.errors import PenstockError
from penstock.wire.fetch_answer import read_fetch_answer
from penstock.wire.fetch_response import pack_fetch_response
from penstock.wire.fetched import AbortedTransaction, EpochEndOffset, FetchResponse, PartitionFetched, TopicFetched
from penstock.wire.leaders import LeaderIdAndEpoch
from penstock.wire.malformed import Malformed
from penstock.wire.query_messages import Abort, Attempt, Commit, Open
from penstock.wire.query_messages import decode_request as decode_query_request
from penstock.wire.received_batches import received_batches

# Length, correlation id, no tagged fields.
_ANSWER_BODY = 9
_PREFIX = struct.Struct(">qii")
_OPERATOR_REQUESTS = (
    b'{"ask": "status"}',
    b'{"ask": "plan", "kind": "drain", "node_id": 3}',
    b'{"ask": "drain", "node_id": 1, "draining": true}',
    b'{"ask": "elect", "partitions": [["orders", 0]]}',
)


def _fetch_answer(random: Random) -> bytes:
    topics = [
        TopicFetched("", UUID(int=random.getrandbits(128) | 1), _rows(random)) for _ in range(random.randrange(3))
    ]
    response = FetchResponse(topics, random.choice(list(ErrorCode)), random.getrandbits(31), [])
    return b"".join(map(bytes, pack_fetch_response(response, 17, 1, random.getrandbits(31))))[_ANSWER_BODY:]


def _rows(random: Random) -> list[PartitionFetched]:
    return [
        PartitionFetched(
            random.getrandbits(31),
            random.choice(list(ErrorCode)),
            random.getrandbits(63),
            random.getrandbits(63),
            random.getrandbits(63),
            random.choice((None, [], [AbortedTransaction(1, random.getrandbits(63))])),
            random.getrandbits(31),
            [random.randbytes(random.choice((0, 1, 20, 200)))],
            random.choice((None, EpochEndOffset(random.getrandbits(31), random.getrandbits(63)))),
            random.choice((None, LeaderIdAndEpoch(random.getrandbits(31), random.getrandbits(31)))),
            None,
        )
        for _ in range(random.randrange(4))
    ]


def _accepts_fetch_answer(raw: bytes) -> bool:
    try:
        answer = read_fetch_answer(memoryview(raw), 0)
    except Malformed:
        return False
    for topic in answer.topics:
        for row in topic.partitions:
            assert len(row.records) <= len(raw)
    answer.release()
    return True


def _replicated_batches(random: Random) -> bytes:
    """As a leader stores them: offsets that rise, an epoch in each; neither is under the CRC."""
    out, next_offset = bytearray(), random.getrandbits(40)
    for _ in range(random.choice((1, 2, 4))):
        at = len(out)
        out += batch_bytes(random)
        _, size, _ = _PREFIX.unpack_from(out, at)
        _PREFIX.pack_into(out, at, next_offset, size, random.getrandbits(20))
        next_offset += 100
    return bytes(out)


def _accepts_replicated_batches(raw: bytes) -> bool:
    try:
        headers = received_batches(memoryview(raw))
    except PenstockError:
        return False
    assert sum(header.size for header in headers) <= len(raw)
    offsets = [header.base_offset for header in headers]
    assert offsets == sorted(offsets)
    return True


def _message(random: Random) -> bytes:
    wish = IsrWish(UUID(int=random.getrandbits(128)), 1, 2, 3, ((1, 2), (2, -1)))
    message = random.choice(
        (
            Hello(),
            Stopping(1, random.getrandbits(40)),
            AlterIsr(1, 2, (wish,) * random.randrange(4)),
            MakeTopic("orders", 3, 2, {"retention.ms": "1"}, False),
            Forward(random.randbytes(50), "127.0.0.1"),
            LogEndOf("orders", random.getrandbits(20)),
        )
    )
    return encode(Addressed("cluster", 1, message))


def _reply(random: Random) -> bytes:
    return encode(Reply("", "words", (ReplyRow(),) * random.randrange(3), random.randbytes(9), (1, 2)))


def _query_request(random: Random) -> bytes:
    attempts = tuple(Attempt("id", random.getrandbits(63), random.getrandbits(15)) for _ in range(random.randrange(4)))
    request = random.choice(
        (Open("query", "run", 1, 1000), Commit("query", "run", 2, attempts), Abort("query", "run", 3))
    )
    return msgspec.json.encode(request)


def _takes(decode: Callable[[bytes], Any]) -> Callable[[bytes], bool]:
    def accepts(raw: bytes) -> bool:
        try:
            decode(raw)
        except ValueError:
            return False
        return True

    return accepts


PEERS: Mapping[str, Target] = {
    # As many chances as some versions of a request.
    **{f"fetch answer {number}": Target(_fetch_answer, _accepts_fetch_answer) for number in range(10)},
    **{
        f"received batches {number}": Target(_replicated_batches, _accepts_replicated_batches, spoiled_batch)
        for number in range(10)
    },
    "private message": Target(_message, _takes(decode_message)),
    "private reply": Target(_reply, _takes(decode_reply)),
    "query's request": Target(_query_request, _takes(decode_query_request)),
    "operator's request": Target(lambda random: random.choice(_OPERATOR_REQUESTS), _takes(decode_request)),
}
