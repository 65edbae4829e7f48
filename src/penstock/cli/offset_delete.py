"""OffsetDelete, which the Kafka client of the command line does not offer: one small request, packed by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException

from penstock.cli.raw_request import ask_raw
from penstock.config.address import Address

_API_KEY = 47
# API key, version, correlation id, client id (null).
_REQUEST_HEAD = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_COUNT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_PARTITION_ANSWER = struct.Struct(">ih")
# Correlation id, error code, throttle time, count of topics.
_RESPONSE_HEAD = struct.Struct(">ihii")


def delete_offsets(coordinator: Address, group: str, partitions: Mapping[str, Sequence[int]]) -> None:
    """KafkaException with the first refusal."""
    try:
        answer = ask_raw(coordinator, pack_request(group, partitions))
        codes = list(error_codes(answer))
    except (OSError, struct.error) as error:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))) from None
    for code in codes:
        if code:
            raise KafkaException(KafkaError(code))


def pack_request(group: str, partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = [_REQUEST_HEAD.pack(_API_KEY, 0, 1, -1), _string(group), _COUNT.pack(len(partitions))]
    for topic, numbers in partitions.items():
        parts += [_string(topic), _COUNT.pack(len(numbers)), *map(_PARTITION.pack, numbers)]
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


def error_codes(answer: bytes) -> Iterator[int]:
    """Of the request, then of each partition; struct.error if the answer is cut short."""
    _, error_code, _, topics = _RESPONSE_HEAD.unpack_from(answer)
    yield error_code
    position = _RESPONSE_HEAD.size
    for _ in range(topics):
        (name_bytes,) = _SHORT.unpack_from(answer, position)
        position += _SHORT.size + name_bytes
        (count,) = _COUNT.unpack_from(answer, position)
        position += _COUNT.size
        for _ in range(count):
            yield _PARTITION_ANSWER.unpack_from(answer, position)[1]
            position += _PARTITION_ANSWER.size


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded
