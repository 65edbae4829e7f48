"""A request that is ready to leave, with what its answer means.

Between brokers of one release nothing is negotiated: both sides know the version from the same source.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from kio.static.protocol import Payload

from penstock.units import MIB
from penstock.wire.bounds import MAX_ELEMENTS, ElementBudget
from penstock.wire.fetch import FetchRequest
from penstock.wire.fetch_answer import FetchAnswer, read_fetch_answer
from penstock.wire.fetch_request import NEWEST_PACKED, append_fetch_request
from penstock.wire.reading import reader_for
from penstock.wire.schemas import API_VERSIONS, FETCH, PRIVATE
from penstock.wire.writing import writer_for

T = TypeVar("T")
Answer = TypeVar("Answer", bound=Payload)
# Gets the frame without its prefix, and where the body starts in it. Raises Malformed.
Read = Callable[[memoryview, int], T]

# Answers repeat what was asked, with words for each error: four times the largest request. It is also far more than
# the rows of a Fetch answer take without their records.
MAX_ANSWER_BYTES = 16 * MIB
# What `socket.request.max.bytes` lets in by default.
LARGEST_BATCH_BYTES = 100 * MIB
# What brokers call themselves: what they ask of each other is nobody's usage. Named as internal topics are, so that no
# client has it by chance.
BROKER_CLIENT_ID = "__penstock"

_CLIENT_ID = BROKER_CLIENT_ID.encode()
_INT32 = struct.Struct(">i")
# Length, API key, version, correlation id, length of the client id.
_HEADER = struct.Struct(">ihhih")
# The same place in every version of the header, of a request and of an answer.
_ID_IN_REQUEST = 8


def _keep(_: object) -> None:
    """The answer owns what it holds."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """For one use: the correlation id is put into the frame when it is asked."""

    # Whole, with the length in front.
    frame: bytearray
    # Whether tagged fields follow the correlation id of the answer.
    tagged_header: bool
    read: Read[T]
    # The answer was handed over, and the bytes that it may look at are about to change.
    release: Callable[[T], None] = _keep
    answer_limit_bytes: int = MAX_ANSWER_BYTES

    def number(self, correlation_id: int) -> None:
        _INT32.pack_into(self.frame, _ID_IN_REQUEST, correlation_id)


def call_of(
    request: Payload, answer: type[Answer], client_id: bytes = _CLIENT_ID, max_elements: int = MAX_ELEMENTS
) -> Call[Answer]:
    """Any API: kio's classes, or our own of the same shape; the two must belong together.

    An answer with more than `max_elements` rows, and rows of rows, is not believed.
    """
    kind = type(request)
    if (kind.__api_key__, kind.__version__) != (answer.__api_key__, answer.__version__):
        raise ValueError(f"{answer.__qualname__} does not answer {kind.__qualname__}")
    frame = _start(kind.__api_key__, kind.__version__, kind.__flexible__, client_id)
    writer_for(kind, kind)(frame, request)
    _finish(frame)
    tagged_header = answer.__flexible__ and answer.__api_key__ != API_VERSIONS
    return Call(frame, tagged_header, _reader(answer, max_elements))


def fetch_call(request: FetchRequest, largest_batch_bytes: int = LARGEST_BATCH_BYTES) -> Call[FetchAnswer]:
    """The records of the answer are views of the receive buffer, valid only inside the callbacks that get it: write

    or copy them there. Later they raise ValueError. `largest_batch_bytes` is what any leader may have let in: the
    first batch of an answer comes whole, however little was asked for.
    """
    frame = _start(FETCH, NEWEST_PACKED, True)
    append_fetch_request(frame, request, NEWEST_PACKED)
    _finish(frame)
    limit_bytes = request.max_bytes + largest_batch_bytes + MAX_ANSWER_BYTES
    return Call(frame, True, read_fetch_answer, FetchAnswer.release, limit_bytes)


def private_call(
    body: bytes, read: Callable[[bytes], T], api_key: int = PRIVATE, client_id: bytes = _CLIENT_ID
) -> Call[T]:
    """What is said beyond Kafka's APIs, between brokers of one release unless the key is another: bytes both ways."""
    frame = _start(api_key, 0, False, client_id)
    frame += body
    _finish(frame)
    return Call(frame, False, lambda answer, body_start: read(bytes(answer[body_start:])))


@cache
def _reader(answer: type[Answer], max_elements: int) -> Read[Answer]:
    read: Any = reader_for(answer, answer)

    def read_answer(frame: memoryview, body_start: int) -> Answer:
        value: Answer = read(bytes(frame[body_start:]), 0, ElementBudget(max_elements))[0]
        return value

    return read_answer


def _start(api_key: int, version: int, flexible: bool, client_id: bytes = _CLIENT_ID) -> bytearray:
    frame = bytearray(_HEADER.pack(0, api_key, version, 0, len(client_id)))
    frame += client_id
    if flexible:
        frame.append(0)
    return frame


def _finish(frame: bytearray) -> None:
    _INT32.pack_into(frame, 0, len(frame) - _INT32.size)
