"""OffsetDelete, which the Kafka client of the command line does not offer."""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.types import GroupId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32

from penstock.cli.connection import REQUEST_TIMEOUT_S
from penstock.config.address import Address

_API_KEY = 47
# Length, API key, version, correlation id, client id (null).
_REQUEST_HEAD = struct.Struct(">ihhih")
_RESPONSE_HEAD = struct.Struct(">ii")
# Far above the answer to any request that a command line can hold.
_MAX_RESPONSE_BYTES = 16 * 1024 * 1024


def delete_offsets(coordinator: Address, group: str, partitions: Mapping[str, Iterable[int]]) -> None:
    """KafkaException with the first refusal."""
    request = OffsetDeleteRequest(
        group_id=GroupId(group),
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=TopicName(topic),
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=i32(number)) for number in numbers),
            )
            for topic, numbers in partitions.items()
        ),
    )
    response = _ask(coordinator, request)
    codes = [response.error_code, *(row.error_code for topic in response.topics for row in topic.partitions)]
    for code in codes:
        if code:
            raise KafkaException(KafkaError(int(code)))


def _ask(coordinator: Address, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    body = io.BytesIO()
    entity_writer(OffsetDeleteRequest)(body, request)
    head = _REQUEST_HEAD.pack(_REQUEST_HEAD.size - 4 + body.tell(), _API_KEY, 0, 1, -1)
    try:
        with socket.create_connection((coordinator.host, coordinator.port), REQUEST_TIMEOUT_S) as connection:
            connection.sendall(head + body.getvalue())
            length, _ = _RESPONSE_HEAD.unpack(_receive(connection, _RESPONSE_HEAD.size))
            if not 4 <= length <= _MAX_RESPONSE_BYTES:
                raise ConnectionError("the answer is not of the Kafka protocol")
            answer = _receive(connection, length - 4)
    except OSError as error:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, str(error))) from None
    response, _ = entity_reader(OffsetDeleteResponse)(answer, 0)
    return response


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(size)
        if not part:
            raise ConnectionError("the node closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
