"""ListTransactions and DescribeTransactions, which the Kafka client of the command line does not offer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from penstock.cli.raw_request import ask_raw
from penstock.config.address import Address

T = TypeVar("T")

_LIST, _DESCRIBE = 66, 65
# API key, version, correlation id, client id (null), no tagged fields.
_HEAD = struct.Struct(">hhihB")
_LENGTH = struct.Struct(">i")
_NO_TAGS = b"\0"


@dataclass(frozen=True)
class Listed:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True)
class Described:
    error_code: int
    transactional_id: str
    state: str
    timeout_ms: int
    # -1: none was begun.
    started_ms: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]


def list_transactions(node: Address, states: Sequence[str]) -> list[Listed]:
    """Those that this node coordinates. KafkaException if it refuses."""
    return _ask(node, pack_list(states), lambda answer: list(read_listed(answer)))


def describe_transaction(node: Address, transactional_id: str) -> Described:
    """With the error of the one row, such as that another node is the coordinator."""
    return _ask(node, pack_describe(transactional_id), read_described)


def pack_list(states: Sequence[str]) -> bytes:
    body = [_HEAD.pack(_LIST, 0, 1, -1, 0), _varint(len(states) + 1), *map(_string, states), _varint(1), _NO_TAGS]
    return _framed(body)


def pack_describe(transactional_id: str) -> bytes:
    return _framed([_HEAD.pack(_DESCRIBE, 0, 1, -1, 0), _varint(2), _string(transactional_id), _NO_TAGS])


def read_listed(answer: bytes) -> Iterator[Listed]:
    """ValueError or struct.error if it is none."""
    reading = _Reading(answer)
    _, _, _, error_code = reading.numbers(">iBih")
    if error_code:
        raise KafkaException(KafkaError(error_code))
    for _ in range(reading.count()):
        reading.string()
    for _ in range(reading.count()):
        name, (producer_id,), state = reading.string(), reading.numbers(">q"), reading.string()
        reading.tags()
        yield Listed(name, producer_id, state)


def read_described(answer: bytes) -> Described:
    """ValueError or struct.error if it is none."""
    reading = _Reading(answer)
    reading.numbers(">iBi")
    if reading.count() != 1:
        raise ValueError("the answer has not one row")
    (error_code,) = reading.numbers(">h")
    name, state = reading.string(), reading.string()
    timeout_ms, started_ms, producer_id, producer_epoch = reading.numbers(">iqqh")
    partitions: list[tuple[str, int]] = []
    for _ in range(reading.count()):
        topic = reading.string()
        partitions += [(topic, reading.numbers(">i")[0]) for _ in range(reading.count())]
        reading.tags()
    return Described(
        error_code, name, state, timeout_ms, started_ms, producer_id, producer_epoch, tuple(sorted(partitions))
    )


def _ask(node: Address, request: bytes, read: Callable[[bytes], T]) -> T:
    try:
        return read(ask_raw(node, request))
    except (OSError, struct.error, ValueError) as error:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))) from None


class _Reading:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def numbers(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return values

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.numbers(">B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def count(self) -> int:
        return self.varint() - 1

    def string(self) -> str:
        size = self.count()
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._at += self.varint()


def _framed(parts: Sequence[bytes]) -> bytes:
    body = b"".join(parts)
    return _LENGTH.pack(len(body)) + body


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _varint(len(encoded) + 1) + encoded


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
